"""A running configuration of Arista EOS."""

from __future__ import annotations

import re
from ipaddress import IPv4Interface

from railyard.ask.check.isolation.configured import ALL, Configured, Leak, Line, Rule, Table, indented, network

_ROUTE = re.compile(r"ip route (?:vrf (\S+) )?(\S+) egress-vrf (\S+)")
_RULE = re.compile(r"(?:\d+ )?(permit|deny) ip any (any|host \S+|\S+)")


def read(name: str, file: str, text: str) -> Configured:
    """A switch.

    Args:
        name: Of the device.
        file: Where the text stands.
        text: Of the configuration.
    """
    found = Configured(name)
    for above, line in indented(file, text):
        head = above[0].split() if above else line.text.split()
        if head[:2] == ["router", "bgp"]:
            _bgp(found, head, above, line)
        elif head[0] == "interface":
            _interface(found, head[1], line)
        elif head[:2] == ["ip", "access-list"] and above:
            _rule(found, head[-1], line)
        elif (match := _ROUTE.match(line.text)) is not None:
            found.table(_named(match[1] or "default")).leaks.append(Leak(network(match[2]), _named(match[3]), line))
    return found


def _named(vrf: str) -> str:
    return ALL if vrf == "default" else vrf


def _interface(found: Configured, name: str, line: Line) -> None:
    words = line.text.split()
    if name.startswith("Loopback"):
        if words[:2] == ["ip", "address"]:
            found.loopback = words[2].split("/")[0]
    elif words[:2] == ["vxlan", "vrf"]:
        table = found.table(words[2])
        table.vni, table.lines["vni"] = int(words[4]), line
    elif words[0] == "vrf":
        port = found.port(name)
        port.vrf, port.lines["vrf"] = _named(words[1]), line
    elif words[:2] == ["ip", "address"]:
        port = found.port(name)
        port.address, port.lines["address"] = IPv4Interface(words[2]), line
    elif words[:2] == ["ip", "access-group"] and words[-1] == "in":
        port = found.port(name)
        port.filter, port.lines["filter"] = words[2], line


def _rule(found: Configured, name: str, line: Line) -> None:
    match = _RULE.fullmatch(line.text)
    if match is None:
        return
    target = "0.0.0.0/0" if match[2] == "any" else match[2].removeprefix("host ")
    found.filters.setdefault(name, []).append(Rule(match[1] == "permit", network(target), line))


def _bgp(found: Configured, head: list[str], above: tuple[str, ...], line: Line) -> None:
    if not above:
        found.asn = int(head[2])
        return
    inner = list(above[1:])
    vrf = ALL
    if inner and inner[0].startswith("vrf "):
        vrf = _named(inner.pop(0).split()[1])
    _instance(found, found.table(vrf), inner[0] if inner else "", line)


def _instance(found: Configured, table: Table, family: str, line: Line) -> None:
    words = line.text.split()
    if words[:2] == ["neighbor", "interface"]:
        table.neighbors[words[2]] = line
    elif words[0] == "neighbor" and words[-1] == "activate":
        if family == "address-family evpn":
            found.overlay = line
        else:
            table.lines["active"] = line
    elif words[0] == "network":
        table.announced[network(words[1])] = line
    elif words[:2] == ["route-target", "import"]:
        table.imports[words[-1]] = line
    elif words[:2] == ["route-target", "export"]:
        table.exports[words[-1]] = line
        table.lines["overlay"] = line  # EOS puts routes into EVPN where they have a target
