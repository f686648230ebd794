"""What Kea's files say, read without the code that wrote them, to be held against the intent."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from railyard.ask.deploy.emit.provision.intent import Boot

Given = tuple[str, str, str, str, str]
"""Device, address, kind of mark (`mac`, `circuit`, `serial`, `link`), the mark, file."""


def wanted(boots: Sequence[Boot], *, six: bool) -> set[Given]:
    """Of the intent; who cannot be told from others is in no file."""
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
    """Of a file."""
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
    """The URL that a device is given, by whichever option."""
    data = {row["name"]: row.get("data", "") for row in options}
    for name in ("boot-file-name", "bootfile-url", "cumulus-provision-url"):
        if name in data:
            return str(data[name])
    if "config-file-name" in data:
        return f"{data['transfer-mode']}://{data['tftp-server-name']}{data['config-file-name']}"
    return ""
