"""A configuration of Junos as `set` commands."""

from __future__ import annotations

import re
from ipaddress import IPv4Interface
from typing import TYPE_CHECKING

from railyard.ask.check.isolation.configured import ALL, Configured, Leak, Line, Rule, network

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator


def read(name: str, file: str, text: str) -> Configured:
    """A switch.

    Args:
        name: Of the device.
        file: Where the text stands.
        text: Of the configuration.
    """
    found = Configured(name)
    rows = list(_rows(file, text))
    policies: dict[str, dict[str, Line]] = {}
    for row in rows:
        match = re.match(r"set policy-options policy-statement (\S+) term own from route-filter (\S+) exact", row.text)
        if match is not None:
            policies.setdefault(match[1], {})[match[2]] = row
    for row in rows:
        for pattern, take in _TAKES:
            match = re.fullmatch(pattern, row.text)
            if match is not None:
                take(found, match, row)
                break
    for table, name_of in _exported(rows):
        for prefix, row in policies.get(name_of, {}).items():
            found.table(table).announced[network(prefix)] = row
    return found


def _rows(file: str, text: str) -> Iterator[Line]:
    for number, row in enumerate(text.splitlines(), start=1):
        if row.startswith("set "):
            yield Line(file, number, row.strip())


def _exported(rows: list[Line]) -> Iterator[tuple[str, str]]:
    """Tables and the policies by which they announce."""
    pattern = r"set (?:routing-instances (\S+) )?protocols (?:bgp group fabric|evpn ip-prefix-routes) export (\S+)"
    for row in rows:
        match = re.fullmatch(pattern, row.text)
        if match is not None:
            yield match[1] or ALL, match[2]


def _port(unit: str) -> str:
    """A unit as other systems name it: unit 0 is the port itself."""
    return unit.removesuffix(".0")


def _address(found: Configured, match: re.Match[str], line: Line) -> None:
    if match[1] == "lo0":
        found.loopback = match[3].split("/")[0]
        return
    port = found.port(_port(f"{match[1]}.{match[2]}"))
    port.address, port.lines["address"] = IPv4Interface(match[3]), line


def _filter(found: Configured, match: re.Match[str], line: Line) -> None:
    port = found.port(match[1])
    port.filter, port.lines["filter"] = match[2], line


def _rule(found: Configured, match: re.Match[str], line: Line) -> None:
    found.filters.setdefault(match[1], []).append(Rule(permits=True, target=network(match[2]), line=line))


def _member(found: Configured, match: re.Match[str], line: Line) -> None:
    port = found.port(_port(match[2]))
    port.vrf, port.lines["vrf"] = match[1], line
    found.table(match[1])


def _neighbor(found: Configured, match: re.Match[str], line: Line) -> None:
    table = found.table(match[1] or ALL)
    table.neighbors[_port(match[2])] = line


def _active(found: Configured, match: re.Match[str], line: Line) -> None:
    found.table(match[1] or ALL).lines["active"] = line


def _asn(found: Configured, match: re.Match[str], _: Line) -> None:
    found.asn = int(match[1])


def _overlay(found: Configured, _: re.Match[str], line: Line) -> None:
    found.overlay = line


def _vni(found: Configured, match: re.Match[str], line: Line) -> None:
    table = found.table(match[1])
    table.vni, table.lines["vni"] = int(match[2]), line


def _advertised(found: Configured, match: re.Match[str], line: Line) -> None:
    found.table(match[1]).lines["overlay"] = line


def _target(found: Configured, match: re.Match[str], line: Line) -> None:
    table = found.table(match[1])
    if match[2] in (None, "import "):
        table.imports[match[3]] = line
    if match[2] in (None, "export "):
        table.exports[match[3]] = line


def _leak(found: Configured, match: re.Match[str], line: Line) -> None:
    vrf = match[3].removesuffix(".inet.0").removesuffix("inet.0")
    found.table(match[1] or ALL).leaks.append(Leak(network(match[2]), vrf, line))


_TAKES: tuple[tuple[str, Callable[[Configured, re.Match[str], Line], None]], ...] = (
    (r"set interfaces (\S+) unit (\d+) family inet address (\S+)", _address),
    (r"set interfaces (\S+) unit 0 family inet filter input (\S+)", _filter),
    (r"set firewall family inet filter (\S+) term own from destination-address (\S+)", _rule),
    (r"set routing-instances (\S+) interface (\S+)", _member),
    (r"set (?:routing-instances (\S+) )?protocols bgp group fabric dynamic-neighbor .* interface (\S+)", _neighbor),
    (r"set (?:routing-instances (\S+) )?protocols bgp group fabric family inet unicast extended-nexthop", _active),
    (r"set routing-options autonomous-system (\d+)", _asn),
    (r"set protocols bgp group fabric family evpn signaling", _overlay),
    (r"set routing-instances (\S+) protocols evpn ip-prefix-routes vni (\d+)", _vni),
    (r"set routing-instances (\S+) protocols evpn ip-prefix-routes advertise direct-nexthop", _advertised),
    (r"set routing-instances (\S+) vrf-target (import |export )?target:(\S+)", _target),
    (r"set (?:routing-instances (\S+) )?routing-options static route (\S+) next-table (\S+)", _leak),
)
