"""Kea's DHCP for both families: reservations, pools of one address for serial numbers, networks of two for servers."""

from __future__ import annotations

import json
from ipaddress import ip_network
from typing import TYPE_CHECKING, Any

from railyard.ask.deploy.plan.drawn import MANAGEMENT, MANAGEMENT6, ipv4, ipv6

if TYPE_CHECKING:
    from collections.abc import Sequence

    from railyard.ask.deploy.emit.provision.intent import Boot

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
        data = _boot6(one) if six else _boot4(one, system)
        if told:
            place = {key: [address] if six else address}
            reservations.append({**told, **place, "hostname": one.device, "option-data": data})
        elif one.known.serial:
            pools.append({"pool": f"{address} - {address}", "client-class": one.device, "option-data": data})
    return {"id": 1, "subnet": subnet, "pools": pools, "reservations": reservations}


def _option(name: str, data: str) -> dict[str, Any]:
    return {"name": name, "data": data, "always-send": True}


def _boot4(one: Boot, system: str) -> list[dict[str, Any]]:
    """Options by which each system is given its file."""
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


def _boot6(one: Boot) -> list[dict[str, Any]]:
    return [_option("bootfile-url", one.file)] if one.file else []


def _definitions(system: str) -> list[dict[str, Any]]:
    """Options that Kea does not know by itself."""
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
