"""Output of `ibnetdiscover` (infiniband-diags): nodes of an InfiniBand fabric, and the far end of each port."""

from __future__ import annotations

import re
from dataclasses import dataclass, field

from railyard.cluster.asbuilt.discovery import Discovery, FoundCable, FoundDevice
from railyard.errors import Problem

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

_NODE = re.compile(r'(Switch|Ca|Rt)\s+(\d+)\s+"([^"]+)"\s*#\s*"([^"]*)"')
_PORT = re.compile(r'\[(\w+)\](?:\[[^\]]*\])?(?:\([^)]*\))?\s+"([^"]+)"\[(\w+)\](?:\([^)]*\))?\s*(?:#(.*))?')
_RATE = re.compile(r"\b(\d+)x(SDR|DDR|QDR|FDR10|FDR|EDR|HDR|NDR|XDR)\b")
_ATTRIBUTE = re.compile(r"(vendid|devid|sysimgguid|switchguid|caguid|rtguid)=")


@dataclass
class _Reading:
    file: str
    devices: dict[str, FoundDevice] = field(default_factory=dict)
    ports: list[tuple[str, str, str, str, int, int]] = field(default_factory=list)
    problems: list[Problem] = field(default_factory=list)

    def wrong(self, line: int, message: str, found: str) -> None:
        self.problems.append(Problem(message, file=self.file, line=line, found=found))


def looks_like(text: str) -> bool:
    """Whether a text is such output."""
    return bool(re.search(r'^(Switch|Ca)\s+\d+\s+"[SH]-', text, re.MULTILINE))


def read(text: str, file: str) -> Discovery:
    """Devices and cables; what cannot be read, or is said by one end alone, is a problem of the result."""
    reading, here = _Reading(file), ""
    for number, line in enumerate(text.splitlines(), 1):
        if not line.strip() or line.startswith("#") or _ATTRIBUTE.match(line):
            continue
        node, port = _NODE.match(line), _PORT.match(line)
        if node:
            here = _device(reading, number, node)
        elif port and here:
            width = _RATE.search(port[4] or "")
            rate = int(width[1]) * LANE_BPS[width[2]] if width else 0
            reading.ports.append((here, port[1], port[2], port[3], rate, number))
        else:
            reading.wrong(number, "a line is neither a device nor a port", line[:80])
    return _joined(reading)


def _device(reading: _Reading, number: int, found: re.Match[str]) -> str:
    kind, ports, key, description = found.groups()
    if key in reading.devices:
        reading.wrong(number, "a device is there twice; its ports are read as one", key)
        return key
    reading.devices[key] = _described(kind, key, description, int(ports), number)
    return key


def _described(kind: str, key: str, description: str, ports: int, line: int) -> FoundDevice:
    if kind == "Switch":
        named = re.fullmatch(r"MF0;([^:;]+):.*", description)
        return FoundDevice(key, named[1] if named else description, "switch", "", ports, line, description)
    if "Aggregation Node" in description:
        return FoundDevice(key, description, "aggregation", "", ports, line)
    host, _, part = description.partition(" ")
    return FoundDevice(key, host or key, "host", part.strip(), ports, line, description)


def _joined(reading: _Reading) -> Discovery:
    number = {key: at for at, key in enumerate(reading.devices)}
    ends: dict[tuple[tuple[int, str], tuple[int, str]], tuple[int, int, int]] = {}
    for here, port, there, far, rate, line in reading.ports:
        if there not in number:
            reading.wrong(line, "a cable goes to a device that the file does not describe", there)
            continue
        pair = sorted([(number[here], port), (number[there], far)])
        before = ends.get((pair[0], pair[1]), (rate, line, 0))
        ends[pair[0], pair[1]] = (max(rate, before[0]), before[1], before[2] + 1)
    _once(reading, ends)
    cables = tuple(FoundCable(*a, *b, rate, line) for (a, b), (rate, line, _) in ends.items())
    return Discovery(reading.file, tuple(reading.devices.values()), cables, tuple(reading.problems))


def _once(reading: _Reading, ends: dict[tuple[tuple[int, str], tuple[int, str]], tuple[int, int, int]]) -> None:
    """Notes cables that only one of their ends knows, and ports that have two."""
    port_of: dict[tuple[int, str], int] = {}
    for pair, (_, line, reported) in ends.items():
        if reported < 2:
            reading.wrong(line, "only one end of a cable is in the file", f"port {pair[0][1]} to port {pair[1][1]}")
        for end in pair:
            if port_of.setdefault(end, line) != line:
                reading.wrong(line, "two cables are in one port", f"port {end[1]}, also in line {port_of[end]}")
