"""LLDP neighbors from a folder with one file per device: JSON of lldpd, SONiC's databases or EOS.

A file is named after its device and lists the neighbor and its port for each port. A cable exists if either end reports
it; disagreements between the ends become problems. Ports are compared by what they mean, not by spelling: `Et1/1` is
`Ethernet1/1`.
"""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from railyard.cluster.network_table import (
    HOST_PORT,
    NetworkTable,
    Twins,
    hardware_address,
    hosts_of,
    same_port,
)
from railyard.kit.errors import InputError, Problem
from railyard.kit.files import parse_json, read_text

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


_GIGABIT = re.compile(r"(\d+)\s*G[Bb]ase")
_NAMED = ("ifname", "ifalias", "local", "interfacename", "5", "7")
"""Kinds of port identifiers that are names; others are addresses, for which the description is the name."""

GIGABIT = 1_000_000_000


@dataclass(frozen=True)
class Neighbour:
    """An LLDP neighbor seen on a port.

    Attributes:
        device: Name of the neighbor; empty if it sends none.
        rate_bps: Rate of the link; 0: unknown.
        mtu: Largest frame that the neighbor accepts, in bytes; 0: unknown.
        forwards: Whether the neighbor bridges or routes; None: unknown.
        length_m: Length of the cable as reported by the local module; 0: unknown.
        address: MAC address of the neighbor, in hexadecimal digits; empty: unknown.
    """

    here: str
    device: str
    port: str
    rate_bps: int = 0
    mtu: int = 0
    forwards: bool | None = None
    length_m: float = 0.0
    address: str = ""


def neighbours(document: Any) -> list[Neighbour] | None:
    """The neighbors in a document; None if it comes from none of these programs."""
    if not isinstance(document, dict):
        return None
    if "lldp" in document:
        return list(_lldpd(document["lldp"]))
    if "lldpNeighbors" in document:
        return list(_eos(document["lldpNeighbors"]))
    tables = _tables(document)
    return list(_sonic(tables)) if "LLDP_ENTRY" in tables else None


def _one(value: Any) -> Any:
    """The only item of a list, since lldpd's `json0` wraps everything in lists; otherwise the value."""
    return value[0] if isinstance(value, list) and value else value


def _text(value: Any) -> str:
    value = _one(value)
    if isinstance(value, dict):
        value = value.get("value", "")
    return "" if value is None else str(value)


def _lldpd(document: Any) -> Iterator[Neighbour]:
    listed = _one(document).get("interface", []) if isinstance(document, list) else document.get("interface", [])
    for item in listed if isinstance(listed, list) else [listed]:
        pairs = [(item["name"], item)] if isinstance(item.get("name"), str) else item.items()
        for name, value in pairs:
            yield _lldpd_port(name, value)


def _lldpd_port(name: str, value: dict[str, Any]) -> Neighbour:
    chassis, port = _one(value.get("chassis", {})), _one(value["port"])
    if chassis and not {"id", "descr", "name"} & set(chassis):
        device, chassis = next(iter(chassis.items()))
    else:
        device = _text(chassis.get("name"))
    identity = _one(port.get("id", {}))
    is_name = str(identity.get("type", "")).lower() in _NAMED
    described = _text(port.get("descr"))
    far = _text(identity) if is_name or not described else described
    speed = _GIGABIT.search(str(_one(port.get("auto-negotiation", {})).get("current", "")))
    return Neighbour(
        name,
        device,
        far,
        int(speed[1]) * GIGABIT if speed else 0,
        int(_text(port.get("mfs")) or 0),
        _forwards(chassis.get("capability")),
        address=hardware_address(_text(_one(chassis.get("id", {})))),
    )


def _forwards(capabilities: Any) -> bool | None:
    if not capabilities:
        return None
    listed = capabilities if isinstance(capabilities, list) else [capabilities]
    return any(one.get("enabled") and one.get("type") in ("Bridge", "Router") for one in listed)


def _eos(document: Any) -> Iterator[Neighbour]:
    if isinstance(document, list):
        for one in document:
            yield Neighbour(_text(one["port"]), _text(one.get("neighborDevice")), _text(one.get("neighborPort")))
        return
    for port, value in document.items():
        for one in value.get("lldpNeighborInfo", []):
            far = one.get("neighborInterfaceInfo", {})
            name = far.get("interfaceId_v2") or far.get("interfaceId") or far.get("interfaceDescription", "")
            able = one.get("systemCapabilities")
            forwards = None if able is None else bool(able.get("bridge") or able.get("router"))
            frame = int(far.get("maxFrameSize", 0) or 0)
            far_name, address = _text(one.get("systemName")), hardware_address(_text(one.get("chassisId")))
            yield Neighbour(port, far_name, str(name).strip('"'), 0, frame, forwards, address=address)


def _tables(document: dict[str, Any]) -> dict[str, dict[str, dict[str, Any]]]:
    """Tables of SONiC's databases from any of its dumps: keys `TABLE:key` or `TABLE|key`, or nested tables."""
    out: dict[str, dict[str, dict[str, Any]]] = {}
    for key, value in document.items():
        table, mark, rest = key.partition(":") if ":" in key else key.partition("|")
        if not isinstance(value, dict):
            continue
        if mark:
            out.setdefault(_table(table), {})[rest] = value.get("value", value)
        else:
            rows = {port: row.get("value", row) for port, row in value.items() if isinstance(row, dict)}
            out.setdefault(_table(table), {}).update(rows)
    return out


def _table(name: str) -> str:
    return name.removesuffix("_TABLE")


def _sonic(tables: dict[str, dict[str, dict[str, Any]]]) -> Iterator[Neighbour]:
    ports, modules = tables.get("PORT", {}), tables.get("TRANSCEIVER_INFO", {})
    for port, row in tables["LLDP_ENTRY"].items():
        device = str(row.get("lldp_rem_sys_name", ""))
        is_name = str(row.get("lldp_rem_port_id_subtype", "5")) in _NAMED
        far = row.get("lldp_rem_port_id", "") if is_name else row.get("lldp_rem_port_desc", "")
        speed = str(ports.get(port, {}).get("speed", "")).removesuffix("G")
        rate = int(speed) * (1_000_000 if int(speed) >= 1000 else GIGABIT) if speed.isdecimal() else 0
        length = _metres(modules.get(port, {}).get("cable_length", ""))
        address = hardware_address(_text(row.get("lldp_rem_chassis_id")))
        far_port = str(far or row.get("lldp_rem_port_desc", ""))
        yield Neighbour(port, device, far_port, rate, length_m=length, address=address)


def _metres(text: Any) -> float:
    found = re.match(r"\s*(\d+(?:\.\d+)?)", str(text))
    return float(found[1]) if found else 0.0


@dataclass
class _Reading:
    folder: str
    neighbours: dict[str, list[Neighbour]] = field(default_factory=dict)
    file: dict[str, str] = field(default_factory=dict)
    problems: list[Problem] = field(default_factory=list)

    def wrong(self, message: str, file: str, found: str) -> None:
        self.problems.append(Problem(message, file=file, found=found))


def read(folder: Path) -> NetworkTable:
    """Reads the devices and cables of a folder; files that cannot be read become problems of the result.

    Raises:
        InputError: It is not a folder, or is empty.
    """
    if not folder.is_dir():
        raise InputError("expected a folder with one file a device", file=folder)
    reading = _Reading(str(folder))
    paths = sorted(path for path in folder.iterdir() if path.is_file() and not path.name.startswith("."))
    if not paths:
        raise InputError("the folder is empty", file=folder, allowed="one JSON file of LLDP neighbours a device")
    for path in paths:
        _read_file(reading, path)
    return _joined(reading)


def _read_file(reading: _Reading, path: Path) -> None:
    name = path.name.removesuffix(".json").removesuffix(".txt")
    try:
        document = parse_json(read_text(path), path)
    except InputError as error:
        reading.problems += error.problems
        return
    try:
        found = neighbours(document)
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        reading.wrong("LLDP neighbours that are not as any known program writes them", str(path), repr(error))
        return
    if found is None:
        reading.wrong("neither lldpd's, SONiC's nor EOS's LLDP neighbours", str(path), str(document)[:60])
        return
    reading.neighbours[name], reading.file[name] = found, str(path)
    for one in found:
        if not one.device:
            reading.wrong("a neighbour has no name", str(path), one.here)
    reading.neighbours[name] = [one for one in found if one.device]


@dataclass
class _Cable:
    ends: tuple[tuple[str, str], tuple[str, str]]
    rate_bps: int
    mtu: dict[str, int]
    seen: int = 1
    length_m: float = 0.0


@dataclass
class _Cables:
    listed: list[_Cable] = field(default_factory=list)
    at_port: dict[tuple[str, str], _Cable] = field(default_factory=dict)


def _joined(reading: _Reading) -> NetworkTable:
    names = {name.lower(): name for name in reading.neighbours}
    short = Counter(_short(name) for name in reading.neighbours)
    for name in reading.neighbours:
        if short[_short(name)] == 1:
            names.setdefault(_short(name), name)
    cables = _Cables()
    for here, listed in reading.neighbours.items():
        for one in listed:
            far = names.get(one.device.lower(), names.get(_short(one.device), one.device))
            _add(reading, cables, here, far, one)
    for cable in cables.listed:
        (a, port), (b, other) = cable.ends
        if cable.seen == 1 and a in reading.file and b in reading.file:
            reading.wrong("only one end of a cable sees the other", reading.file[a], f"{a}[{port}] to {b}[{other}]")
    twins = _told_apart(reading, cables.listed)
    return _discovery(reading, cables.listed, twins)


def _told_apart(reading: _Reading, cables: list[_Cable]) -> dict[str, list[str]]:
    """Gives separate names to devices that share a name and report nothing themselves: no port has two cables.

    Returns:
        The new names by shared name.
    """
    taken: dict[tuple[str, str], int] = {}
    twins: dict[str, list[str]] = {}
    for cable in cables:
        ends = list(cable.ends)
        for side, (device, port) in enumerate(ends):
            if device in reading.file:
                continue
            at = taken.get((device, same_port(port)), 0)
            taken[device, same_port(port)] = at + 1
            if at:
                known = twins.setdefault(device, [device])
                known += [f"{device} #{len(known) + 1}"] if at == len(known) else []
                ends[side] = known[at], port
                cable.mtu = {known[at] if name == device else name: mtu for name, mtu in cable.mtu.items()}
        cable.ends = ends[0], ends[1]
    return twins


def _add(reading: _Reading, cables: _Cables, here: str, far: str, one: Neighbour) -> None:
    mine, theirs = (here, same_port(one.here)), (far, same_port(one.port))
    known = cables.at_port.get(mine)
    if known is not None:
        partner = next(end for end in known.ends if (end[0], same_port(end[1])) != mine)
        if (partner[0], same_port(partner[1])) == theirs:
            known.seen += 1
            known.rate_bps = max(known.rate_bps, one.rate_bps)
            known.mtu[far] = one.mtu
            known.length_m = known.length_m or one.length_m
            return
        reading.wrong(
            "two devices say that they are at the end of one port",
            reading.file[here],
            f"{here}[{one.here}]: {far}[{one.port}] and {partner[0]}[{partner[1]}]",
        )
        return
    cable = _Cable(((here, one.here), (far, one.port)), one.rate_bps, {far: one.mtu}, length_m=one.length_m)
    cables.listed.append(cable)
    cables.at_port[mine] = cable
    cables.at_port.setdefault(theirs, cable)


def _discovery(reading: _Reading, cables: list[_Cable], same: dict[str, list[str]]) -> NetworkTable:
    order = dict.fromkeys(reading.neighbours)
    order.update(dict.fromkeys(device for cable in cables for device, _ in cable.ends))
    number = {name: at for at, name in enumerate(order)}
    stations = {one.device for listed in reading.neighbours.values() for one in listed if one.forwards is False}
    hosts = hosts_of([cable.ends for cable in cables], stations, _forwarding(reading))
    kind = ["host" if name in hosts else "switch" for name in order]
    listed, mtu = [], []
    for cable in cables:
        (a, a_port), (b, b_port) = sorted(cable.ends, key=lambda end: number[end[0]])
        listed.append((number[a], a_port, number[b], b_port))
        mtu.append((cable.mtu.get(a, 0), cable.mtu.get(b, 0)))
    twins = [Twins("name", name, tuple(number[one] for one in names)) for name, names in same.items()]
    twins += [
        Twins("MAC address", address, tuple(sorted(number[name] for name in names if name in number)))
        for address, names in _addresses(reading).items()
        if len(names) > 1
    ]
    return NetworkTable.of(
        reading.folder,
        [*order],
        kind,
        listed,
        rate_bps=np.array([cable.rate_bps for cable in cables], np.int64),
        mtu=np.array(mtu, np.int64).reshape(-1, 2),
        length_m=np.array([cable.length_m for cable in cables]),
        problems=tuple(reading.problems),
        twins=tuple(twins),
        reporters=frozenset(reading.neighbours),
    )


def _addresses(reading: _Reading) -> dict[str, set[str]]:
    """Device names without a domain, by MAC address."""
    found: dict[str, set[str]] = {}
    for listed in reading.neighbours.values():
        for one in listed:
            if one.address:
                found.setdefault(one.address, set()).add(one.device)
    return {address: names for address, names in found.items() if len({_short(name) for name in names}) > 1}


def _short(name: str) -> str:
    return name.split(".", maxsplit=1)[0].lower()


def _forwarding(reading: _Reading) -> set[str]:
    """Devices whose neighbors see that they bridge or route, and that have several neighbors."""
    return {
        name
        for name, listed in reading.neighbours.items()
        if len({one.device for one in listed}) > 1
        and any(HOST_PORT.fullmatch(one.port) and one.forwards is False for one in listed)
    }
