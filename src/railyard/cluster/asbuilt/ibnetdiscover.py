"""Reads `ibnetdiscover` (infiniband-diags): nodes of an InfiniBand fabric, and the far end of each port."""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass, field, replace

import numpy as np

from railyard.cluster.network_table import NetworkTable, Twins
from railyard.kit.errors import Problem, abridged

LANE_BPS = {
    "SDR": 2_000_000_000,
    "DDR": 4_000_000_000,
    "QDR": 8_000_000_000,
    "FDR10": 10_000_000_000,
    "FDR": 13_640_000_000,
    "EDR": 25_000_000_000,
    "HDR": 50_000_000_000,
    "NDR": 100_000_000_000,
    "XDR": 200_000_000_000,
}
"""Data rate of a lane after line coding (InfiniBand Architecture, volume 1, tables of link speeds)."""

PORT_LANES = 4
"""Lanes of a port on switches and adapters of these generations, if none has failed."""

_NODE = re.compile(r'(Switch|Ca|Rt)\s+(\d+)\s+"([^"]+)"\s*#\s*"([^"]*)"')
_PORT = re.compile(
    r'\[(\w+)\](?:\[[^\]]*\])?(?:\(([0-9a-fA-F]*)[^)]*\))?\s+"([^"]+)"\[(\w+)\](?:\([^)]*\))?\s*(?:#(.*))?'
)
_RATE = re.compile(r"\b(1|2|4|8|12)x(SDR|DDR|QDR|FDR10|FDR|EDR|HDR|NDR|XDR)\b")
_RATE_LIKE = re.compile(r"\s(\d+x[A-Z]\w*)\s*$")
_ATTRIBUTE = re.compile(r"(vendid|devid|sysimgguid|switchguid|caguid|rtguid)=(\S*)")
_GROUP = re.compile(r"(Non-Chassis Nodes|Chassis \d+( \(guid \w+\))?)\s*$")
"""Headings of `ibnetdiscover --grouping`."""

_QUOTED = re.compile(r'"([^"]*)"')
_LID = re.compile(r"\blid (\d+)\b")

_End = tuple[str, str]
"""Key of a device, and a port."""

_TWIN = "#"
"""Separates a GUID shared by several devices from the device's number, counted from 2."""


@dataclass(frozen=True)
class _Device:
    name: str
    kind: str
    part: str
    sockets: int
    label: str
    chassis: str = ""


@dataclass(frozen=True)
class _Port:
    """A port line: its end, the far end and its name, the link rate, and the line number."""

    here: _End
    far: _End
    far_words: str
    lanes: int
    rate_bps: int
    line: int


@dataclass
class _Reading:
    file: str
    devices: dict[str, _Device] = field(default_factory=dict)
    ports: list[_Port] = field(default_factory=list)
    addresses: dict[str, _End] = field(default_factory=dict)
    twins: dict[str, list[str]] = field(default_factory=dict)
    problems: list[Problem] = field(default_factory=list)
    image: str = ""
    images: dict[str, str] = field(default_factory=dict)

    def wrong(self, line: int, message: str, found: str, allowed: str | None = None) -> None:
        self.problems.append(Problem(message, file=self.file, line=line, found=found, allowed=allowed))


def looks_like(text: str) -> bool:
    """Whether a text is output of `ibnetdiscover`."""
    return bool(re.search(r'^(Switch|Ca)\s+\d+\s+"[SH]-', text, re.MULTILINE))


def read(text: str, file: str) -> NetworkTable:
    """Reads devices and cables; unreadable lines, and those that only one end reports, become problems."""
    reading, here = _Reading(file), ""
    for number, line in enumerate(text.splitlines(), 1):
        attribute = _ATTRIBUTE.match(line)
        if attribute and attribute[1] == "sysimgguid":
            reading.image = attribute[2]
        if not line.strip() or line.startswith("#") or attribute or _GROUP.match(line):
            continue
        node, port = _NODE.match(line), _PORT.match(line)
        if node:
            here = _device(reading, number, node)
            if node[1] == "Switch":
                _addressed(reading, line[node.end() :], "", (here, ""))
        elif port and here:
            _port(reading, number, here, port)
        else:
            reading.wrong(number, "a line is neither a device nor a port", line[:80])
    return _joined(reading)


def _port(reading: _Reading, number: int, here: str, found: re.Match[str]) -> None:
    port, guid, far, far_port, words = found.groups()
    width = _RATE.search(words or "")
    lanes, rate = (int(width[1]), int(width[1]) * LANE_BPS[width[2]]) if width else (0, 0)
    strange = None if width else _RATE_LIKE.search(words or "")
    if strange:
        allowed = "1x, 2x, 4x, 8x or 12x of " + ", ".join(LANE_BPS)
        reading.wrong(number, "a link has unknown width and speed", strange[1], allowed)
    called = _QUOTED.search(words or "")
    reading.ports.append(_Port((here, port), (far, far_port), called[1] if called else "", lanes, rate, number))
    if reading.devices[here].kind != "switch":
        _addressed(reading, (words or "").partition('"')[0], guid or "", (here, port))


def _addressed(reading: _Reading, words: str, guid: str, end: _End) -> None:
    """Records an end under its names in other tools; for a switch, its key already contains the GUID."""
    lid = _LID.search(words)
    guid = guid or end[0].partition("-")[2]
    guid = _plain(guid).lstrip("0").lower()
    for name in ([f"lid {lid[1]}"] if lid and lid[1] != "0" else []) + ([guid] if guid else []):
        known = reading.addresses.setdefault(name, end)
        if name == guid and _plain(known[0]) != _plain(end[0]):
            reading.twins.setdefault(guid, [known[0]]).append(end[0])


def _device(reading: _Reading, number: int, found: re.Match[str]) -> str:
    kind, ports, key, description = found.groups()
    image, reading.image = reading.image, ""
    if kind == "Switch" and image.removeprefix("0x").strip("0"):
        reading.images[key] = image
    if key in reading.devices and reading.devices[key].label == description:
        reading.wrong(number, "a device appears twice; its ports are read as one", key)
        return key
    key = _free(reading, key)
    reading.devices[key] = _described(kind, key, description, int(ports))
    return key


def _free(reading: _Reading, key: str) -> str:
    """A unique key for a device; if its GUID is taken, the device becomes a twin."""
    if key not in reading.devices:
        return key
    known = reading.twins.setdefault(key, [key])
    known.append(f"{key}{_TWIN}{len(known) + 1}")
    return known[-1]


def _plain(key: str) -> str:
    return key.partition(_TWIN)[0]


def _described(kind: str, key: str, description: str, ports: int) -> _Device:
    if kind == "Switch":
        named = re.fullmatch(r"MF0;([^:;]+):.*", description)
        return _Device(named[1] if named else description, "switch", "", ports, description)
    if "Aggregation Node" in description:
        return _Device(description, "aggregation", "", ports, description)
    host, _, part = description.partition(" ")
    return _Device(host or key, "host", part.strip(), ports, description or host or key)


def _joined(reading: _Reading) -> NetworkTable:
    _completed(reading)
    _told_apart(reading)
    _boarded(reading)
    _distinct(reading)
    number = {key: at for at, key in enumerate(reading.devices)}
    ends: dict[tuple[tuple[int, str], tuple[int, str]], tuple[_Port, int]] = {}
    for one in reading.ports:
        low, high = sorted([(number[one.here[0]], one.here[1]), (number[one.far[0]], one.far[1])])
        first, seen = ends.get((low, high), (one, 0))
        if seen and 0 < one.rate_bps != first.rate_bps > 0:
            words = "the two ends of a cable give different rates; the higher is taken"
            reading.wrong(
                one.line, words, f"{one.rate_bps / 1e9:g} and, in line {first.line}, {first.rate_bps / 1e9:g} Gb/s"
            )
        ends[low, high] = (
            replace(first, lanes=max(first.lanes, one.lanes), rate_bps=max(first.rate_bps, one.rate_bps)),
            seen + 1,
        )
    _once(reading, ends)
    addresses = {name: (number[key], port) for name, (key, port) in reading.addresses.items()}
    twins = tuple(
        Twins("GUID", value.partition("-")[2] or value, tuple(sorted({number[key] for key in keys})))
        for value, keys in reading.twins.items()
    )
    devices, ports = [*reading.devices.values()], [port for port, _ in ends.values()]
    return NetworkTable.of(
        reading.file,
        [one.name for one in devices],
        [one.kind for one in devices],
        [(*a, *b) for a, b in ends],
        key=[*reading.devices],
        label=[one.label for one in devices],
        part=[one.part for one in devices],
        chassis=[one.chassis for one in devices],
        sockets=[one.sockets for one in devices],
        rate_bps=np.array([port.rate_bps for port in ports], np.int64),
        lanes=np.array([port.lanes for port in ports], np.int64),
        problems=tuple(abridged(reading.problems)),
        addresses=addresses,
        twins=twins,
    )


def _told_apart(reading: _Reading) -> None:
    """Decides for each port line which of several devices with one GUID is at its far end.

    It is the device that reports this end itself. If several switches report the same host port and there is no device
    for each of them, one is added for each: no cable has three ends.
    """
    own = {one.here: (one.far[0], one.far[1]) for one in reading.ports}
    for at, one in enumerate(reading.ports):
        twins = reading.twins.get(one.far[0], ())
        mine = (_plain(one.here[0]), one.here[1])
        named = [key for key in twins if reading.devices[key].label == one.far_words]
        key = next((key for key in twins if own.get((key, one.far[1])) == mine), next(iter(named), one.far[0]))
        reading.ports[at] = replace(one, far=(key, one.far[1]))
    claimed: dict[_End, list[int]] = {}
    for at, one in enumerate(reading.ports):
        if reading.devices[one.far[0]].kind == "host":
            claimed.setdefault(one.far, []).append(at)
    for end, claims in claimed.items():
        right = next((at for at in claims if own.get(end) == reading.ports[at].here), claims[0])
        for at in claims:
            if reading.ports[at].here != reading.ports[right].here:
                _parted(reading, at)


def _parted(reading: _Reading, at: int) -> None:
    """Adds a separate device at the far end of a line whose port already has a cable."""
    one = reading.ports[at]
    first = reading.devices[one.far[0]]
    key = _free(reading, _plain(one.far[0]))
    label = one.far_words if one.far_words not in ("", first.label) else f"{first.label} {_TWIN}{key[-1]}"
    reading.devices[key] = _described("Ca", key, label, first.sockets)
    reading.ports[at] = replace(one, far=(key, one.far[1]))


def _completed(reading: _Reading) -> None:
    """Adds devices missing from the end of the file, from what their neighbors say about them and their ports."""
    beyond = [one for one in reading.ports if one.far[0] not in reading.devices]
    for one in beyond:
        key = one.far[0]
        if key not in reading.devices:
            kind = "Switch" if key.startswith("S-") else "Ca"
            reading.devices[key] = _described(kind, key, one.far_words, 0)
    if beyond:
        names = len({one.far[0] for one in beyond})
        words = (
            f"{names} devices are not described, so that the file may be cut off; their neighbours' entries are used"
        )
        reading.wrong(beyond[0].line, words, beyond[0].far[0])


def _boarded(reading: _Reading) -> None:
    """Groups the boards of a director by system image GUID (InfiniBand Architecture, volume 1, 14.2.5.3)."""
    boards = Counter(reading.images.values())
    for key, image in reading.images.items():
        if boards[image] > 1:
            reading.devices[key] = replace(reading.devices[key], chassis=image)


def _distinct(reading: _Reading) -> None:
    """Adds the GUID to names shared by several switches; a host is identified by its switch's port."""
    switches = {key: one for key, one in reading.devices.items() if one.kind == "switch"}
    times = Counter(one.label for one in switches.values())
    names = Counter(one.name for one in switches.values())
    for key, one in switches.items():
        label = f"{one.label} ({key.partition('-')[2]})" if times[one.label] > 1 else one.label
        reading.devices[key] = replace(one, label=label, name=label if names[one.name] > 1 else one.name)


def _once(reading: _Reading, ends: dict[tuple[tuple[int, str], tuple[int, str]], tuple[_Port, int]]) -> None:
    """Records cables that only one of their ends reports, and ports that have two."""
    port_of: dict[tuple[int, str], int] = {}
    described = {one.here[0] for one in reading.ports}
    silent = {at for at, key in enumerate(reading.devices) if key not in described}
    for pair, (port, reported) in ends.items():
        line = port.line
        if reported < 2 and not {end[0] for end in pair} & silent:
            reading.wrong(line, "only one end of a cable is in the file", f"port {pair[0][1]} to port {pair[1][1]}")
        for end in pair:
            if port_of.setdefault(end, line) != line:
                reading.wrong(line, "two cables are in one port", f"port {end[1]}, also in line {port_of[end]}")
