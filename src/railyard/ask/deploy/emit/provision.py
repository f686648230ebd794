"""Addresses and files that devices get when they first boot: DHCP as Kea serves it, and what each then fetches."""

from __future__ import annotations

import csv
import io
import json
import re
from dataclasses import dataclass, field
from ipaddress import ip_network
from typing import TYPE_CHECKING, Any

from railyard.ask.deploy.cabling import MANAGEMENT, MANAGEMENT6, ipv4, ipv6
from railyard.ask.deploy.emit.boots import Boot, boots
from railyard.ask.deploy.system import systems
from railyard.kit.errors import SimulationError

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from railyard.ask.deploy.cabling import CablingPlan
    from railyard.ask.deploy.emit.boots import Boot, KnownDevice


LEASE_S = 3600

MANAGED, MANAGED6 = f"{ipv4(MANAGEMENT)}/13", f"{ipv6(MANAGEMENT6, MANAGEMENT)}/109"
"""Networks of the ports of management."""

CUMULUS = 239
"""Option by which a switch with FRR under Cumulus-like ZTP is given a script."""


def dhcp4(boots: Sequence[Boot], system: str) -> str:
    """`kea-dhcp4.conf`."""
    managed = [one for one in boots if not one.gateway]
    links = [
        {
            "id": number,
            "subnet": f"{one.gateway}/31",
            "pools": [{"pool": f"{one.address} - {one.address}"}],
            "option-data": [_option("routers", one.gateway), _option("host-name", one.device)],
        }
        for number, one in enumerate((one for one in boots if one.gateway), 2)
    ]
    top = {
        **_common(managed),
        "host-reservation-identifiers": ["hw-address", "circuit-id"],
        "option-def": _definitions(system),
        "subnet4": [_managed(managed, MANAGED, "ip-address", system), *links],
    }
    return _text({"Dhcp4": top})


def dhcp6(boots: Sequence[Boot], system: str) -> str:
    """`kea-dhcp6.conf`; a circuit identifier is one of IPv4 and tells nobody here."""
    managed = [one for one in boots if not one.gateway]
    links = [
        {
            "id": number,
            "subnet": str(ip_network(f"{one.gateway6}/127")),
            "pools": [{"pool": f"{one.address6} - {one.address6}"}],
        }
        for number, one in enumerate((one for one in boots if one.gateway), 2)
    ]
    top = {
        **_common(managed),
        "mac-sources": ["any"],
        "host-reservation-identifiers": ["hw-address"],
        "subnet6": [_managed(managed, MANAGED6, "ip-addresses", system), *links],
    }
    return _text({"Dhcp6": top})


def _text(document: dict[str, Any]) -> str:
    return json.dumps(document, indent=1, ensure_ascii=True) + "\n"


def _common(managed: Sequence[Boot]) -> dict[str, Any]:
    return {
        "interfaces-config": {"interfaces": ["*"]},
        "lease-database": {"type": "memfile", "persist": True},
        "valid-lifetime": LEASE_S,
        "client-classes": [
            {"name": one.device, "test": _test(one.known.serial)} for one in managed if one.known.serial
        ],
    }


def _test(serial: str) -> str:
    """Whether a request ends in a serial number: EOS and Junos in option 60, SONiC in option 61, IPv6 in 16 or 1."""
    ends = [f"substring(option[{code}].hex, -{len(serial)}, all) == '{serial}'" for code in (60, 61, 16)]
    return " or ".join(f"({words})" for words in ends)


def _managed(managed: Sequence[Boot], subnet: str, key: str, system: str) -> dict[str, Any]:
    """The network of management: by address or port one reservation, by serial number a pool of one address."""
    six = key == "ip-addresses"
    reservations, pools = [], []
    for one in managed:
        address = one.address6 if six else one.address
        told: dict[str, Any] = {}
        if one.known.mac:
            told = {"hw-address": one.known.mac}
        elif one.known.circuit_id and not six:
            told = {"circuit-id": one.known.circuit_id.encode("ascii").hex()}
        data = _boot4(one, system) if not six else [_option("bootfile-url", one.file)] if one.file else []
        if told:
            place = {key: [address] if six else address}
            reservations.append({**told, **place, "hostname": one.device, "option-data": data})
        elif one.known.serial:
            pools.append({"pool": f"{address} - {address}", "client-class": one.device, "option-data": data})
    return {"id": 1, "subnet": subnet, "pools": pools, "reservations": reservations}


def _option(name: str, data: str) -> dict[str, Any]:
    return {"name": name, "data": data, "always-send": True}


def _boot4(one: Boot, system: str) -> list[dict[str, Any]]:
    name = _option("host-name", one.device)
    if not one.file:
        return [name]
    if system == "frr":
        return [name, _option("cumulus-provision-url", one.file)]
    if system == "junos":
        scheme, _, rest = one.file.partition("://")
        host, _, path = rest.partition("/")
        own = [
            {"space": "junos", "name": "config-file-name", "data": f"/{path}", "always-send": True},
            {"space": "junos", "name": "transfer-mode", "data": scheme, "always-send": True},
        ]
        return [
            name,
            _option("tftp-server-name", host),
            *own,
            {"name": "vendor-encapsulated-options", "always-send": True},
        ]
    return [name, _option("boot-file-name", one.file)]


def _definitions(system: str) -> list[dict[str, Any]]:
    if system == "frr":
        return [{"name": "cumulus-provision-url", "code": CUMULUS, "type": "string", "space": "dhcp4"}]
    if system == "junos":
        return [
            {"name": "config-file-name", "code": 1, "type": "string", "space": "junos"},
            {"name": "transfer-mode", "code": 3, "type": "string", "space": "junos"},
            {
                "name": "vendor-encapsulated-options",
                "code": 43,
                "type": "empty",
                "space": "dhcp4",
                "encapsulate": "junos",
            },
        ]
    return []


FRR = """#!/bin/bash
# CUMULUS-AUTOPROVISIONING
set -e
curl --fail --silent --show-error --output /etc/frr/frr.conf.new {url}
mv /etc/frr/frr.conf.new /etc/frr/frr.conf
hostnamectl set-hostname {name}
{devices}systemctl restart frr
"""
"""The mark in its second line is what ZTP of Cumulus Linux asks for."""

DEVICES = """curl --fail --silent --show-error --output /etc/network/interfaces.d/tenants.intf.new {url}
mv /etc/network/interfaces.d/tenants.intf.new /etc/network/interfaces.d/tenants.intf
ifreload --all
"""
"""Devices of tenants: there before FRR routes over them."""

JUNOS = """#!/bin/sh
cli -c 'configure exclusive; load set {url}; commit and-quit comment "first boot"'
"""


def file_of(boot: Boot, system: str, folder: str) -> tuple[str, str] | None:
    """Name in the plan's folder and text; None where a device fetches its configuration, or nothing."""
    if not boot.file or system == "eos":
        return None
    url = f"{folder}switches/{boot.device}.{systems.get(system).ending}"
    if system == "sonic":
        source = {"source": url, "destination": "/etc/sonic/config_db.json", "secure": False}
        steps: dict[str, object] = {"01-configdb-json": {"url": source}}
        if boot.second:  # there before the tables say that it counts
            own = {"source": boot.second, "destination": "/etc/sonic/frr/frr.conf", "secure": False}
            steps = {"01-download": {"files": [{"url": own}]}, "02-configdb-json": {"url": source}}
        return f"provision/ztp/{boot.device}.json", json.dumps({"ztp": steps}, indent=1) + "\n"
    devices = DEVICES.format(url=boot.second) if boot.second else ""
    text = (FRR if system == "frr" else JUNOS).format(url=url, name=boot.device, devices=devices)
    return f"provision/ztp/{boot.device}.sh", text


Given = tuple[str, str, str, str, str]
"""Device, address, kind of mark (`mac`, `circuit`, `serial`, `link`), the mark, file."""


def wanted(boots: Sequence[Boot], *, six: bool) -> set[Given]:
    """Entries of the intent; a device that cannot be identified is in no file."""
    out: set[Given] = set()
    for one in boots:
        address, known = (one.address6 if six else one.address), one.known
        if one.gateway:
            name = "" if six else one.device
            out.add((name, address, "link", one.gateway6 if six else one.gateway, ""))
        elif known.mac:
            out.add((one.device, address, "mac", known.mac, one.file))
        elif known.circuit_id and not six:
            out.add((one.device, address, "circuit", known.circuit_id, one.file))
        elif known.serial:
            out.add((one.device, address, "serial", known.serial, one.file))
    return out


def said(text: str, *, six: bool) -> set[Given]:
    """The reservations of a file."""
    top = json.loads(text)["Dhcp6" if six else "Dhcp4"]
    tests = {row["name"]: row["test"] for row in top.get("client-classes", [])}
    out: set[Given] = set()
    for subnet in top["subnet6" if six else "subnet4"]:
        for row in subnet.get("reservations", []):
            address = row["ip-addresses"][0] if six else row["ip-address"]
            kind = "mac" if "hw-address" in row else "circuit"
            mark = row.get("hw-address") or bytes.fromhex(row["circuit-id"]).decode()
            out.add((row["hostname"], address, kind, mark, _file(row["option-data"])))
        for pool in subnet.get("pools", []):
            first, _, last = pool["pool"].partition(" - ")
            if first != last:
                continue
            if "client-class" in pool:
                marks = set(re.findall(r"== '([^']*)'", tests[pool["client-class"]]))
                out |= {(pool["client-class"], first, "serial", mark, _file(pool["option-data"])) for mark in marks}
            else:
                base = subnet["subnet"].split("/")[0]
                options = {row["name"]: row.get("data", "") for row in subnet.get("option-data", [])}
                out.add((options.get("host-name", ""), first, "link", options.get("routers", base), ""))
    return out


def _file(options: Iterable[dict[str, Any]]) -> str:
    data = {row["name"]: row.get("data", "") for row in options}
    for name in ("boot-file-name", "bootfile-url", "cumulus-provision-url"):
        if name in data:
            return str(data[name])
    if "config-file-name" in data:
        return f"{data['transfer-mode']}://{data['tftp-server-name']}{data['config-file-name']}"
    return ""


@dataclass(frozen=True)
class Provision:
    """Options of provisioning.

    Attributes:
        folder: URL that the plan's folder is served by, with a slash at its end.
    """

    folder: str
    inventory: Mapping[str, KnownDevice] = field(default_factory=dict)


def files(plan: CablingPlan, system: str, asked: Provision) -> Iterator[tuple[str, str]]:
    """Names and texts.

    Raises:
        SimulationError: A file says otherwise than intended: an internal error.
    """
    listed = list(boots(plan, system, asked.folder, asked.inventory))
    for name, text, six in (
        ("kea-dhcp4.conf", dhcp4(listed, system), False),
        ("kea-dhcp6.conf", dhcp6(listed, system), True),
    ):
        wrong = wanted(listed, six=six) ^ said(text, six=six)
        if wrong:
            raise SimulationError(f"{name}: the written file does not match the intent: {min(wrong)}")
        yield f"provision/{name}", text
    yield "provision/to-be-filled.csv", to_be_filled(listed)
    for one in listed:
        file = file_of(one, system, asked.folder)
        if file is not None:
            yield file


def to_be_filled(listed: Sequence[Boot]) -> str:
    """Devices that nothing tells from others yet, as an inventory with empty cells."""
    buffer = io.StringIO()
    rows = csv.writer(buffer, lineterminator="\n")
    rows.writerow(["device", "mac", "serial", "circuit_id"])
    rows.writerows([one.device, "", "", ""] for one in listed if not one.told)
    return buffer.getvalue()
