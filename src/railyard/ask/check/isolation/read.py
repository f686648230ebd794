"""Files of switches by operating system: how they end, and what reads them."""

from __future__ import annotations

import re
from ipaddress import IPv4Interface
from typing import TYPE_CHECKING

from railyard.ask.check.isolation import read_sonic
from railyard.ask.check.isolation.configured import ALL, Configured, Leak, Line, Rule, Table, indented, network
from railyard.kit.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping


_ROUTE = re.compile(r"ip route (?:vrf (\S+) )?(\S+) egress-vrf (\S+)")
_RULE = re.compile(r"(?:\d+ )?(permit|deny) ip any (any|host \S+|\S+)")


def read_eos_config(name: str, file: str, text: str) -> Configured:
    """A switch."""
    found = Configured(name)
    for above, line in indented(file, text):
        head = above[0].split() if above else line.text.split()
        if head[:2] == ["router", "bgp"]:
            _bgp(found, head, above, line)
        elif head[0] == "interface":
            _interface(found, head[1], line)
        elif head[:2] == ["ip", "access-list"] and above:
            _read_eos_rule(found, head[-1], line)
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


def _read_eos_rule(found: Configured, name: str, line: Line) -> None:
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


def read_junos_config(name: str, file: str, text: str) -> Configured:
    """A switch."""
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


def _read_junos_rule(found: Configured, match: re.Match[str], line: Line) -> None:
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
    (r"set firewall family inet filter (\S+) term own from destination-address (\S+)", _read_junos_rule),
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


ENDINGS = {"frr": "frr.conf", "sonic": "config_db.json", "eos": "eos.cfg", "junos": "junos.set"}
"""What follows a switch's name."""

INTERFACES = "interfaces"
"""The same of FRR's second file: devices that it cannot make."""

_READERS = {"eos": read_eos_config, "junos": read_junos_config}


def second(system: str, text: str) -> str:
    """How a second file of a switch ends, without which the first is not all; empty where there is none."""
    return ENDINGS["frr"] if system == "sonic" and read_sonic.routes_itself(text) else ""


def _routing(name: str, texts: Mapping[str, str], ending: str) -> tuple[str, str]:
    if not ending:
        return "", ""
    file = f"{name}.{ending}"
    if not texts.get(file):
        raise InputError("a switch of the plan has no file of its routing", found=file, allowed=sorted(texts)[:4])
    return file, texts[file]


DUAL = frozenset({"frr"})
"""Systems whose files have servers' IPv6 too."""


def configured(system: str, name: str, texts: Mapping[str, str], family: int = 4) -> Configured:
    """What a switch's files say of tenants.

    Args:
        system: Its operating system.
        name: Of the device.
        texts: Files by name.
        family: 4, or 6 of a system in `DUAL`.

    Raises:
        InputError: Its file is missing, or cannot be read.
    """
    file = f"{name}.{ENDINGS[system]}"
    if file not in texts:
        raise InputError("a switch of the plan has no file", found=file, allowed=sorted(texts)[:4])
    try:
        if system == "frr":
            devices = f"{name}.{INTERFACES}"
            return read_sonic.read_frr_config(name, file, texts[file], (devices, texts.get(devices, "")), family)
        if system == "sonic":
            return read_sonic.read_sonic_config(
                name, file, texts[file], _routing(name, texts, second(system, texts[file]))
            )
        return _READERS[system](name, file, texts[file])
    except (KeyError, ValueError, IndexError, AttributeError, TypeError) as error:
        raise InputError(f"the file cannot be read: {type(error).__name__} {error}", file=file) from None
