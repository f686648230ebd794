"""InfiniBand partitions of `partitions.conf`: which ports may speak to which, and by which line."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from railyard.ask.check.isolation.configured import Line

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

ALL = ("ALL", "ALL_CAS")
DEFAULT = 0x7FFF
UNRULED = Line("partitions.conf", 0, "no rule for Default: ALL=limited, SELF=full")


@dataclass(frozen=True)
class Member:
    """A port in a partition.

    Attributes:
        full: Or limited: limited ones do not speak to each other.
        line: That says so.
    """

    full: bool
    line: Line


Partitions = dict[int, dict[str, Member]]
"""By key (15 bits) and port, as the file writes it; `ALL` for all."""


def read(file: str, text: str) -> Partitions:
    """The partitions of a file; definitions of one key are put together, and the last word on a port counts.

    One definition that OpenSM cannot read makes it forget the file: all ports are then full members of the default
    partition. So it was seen of OpenSM 3.3; flags that it does not know it passes over, and
    a membership that it does not know is a limited one.

    Args:
        file: Its name.
        text: Of the file; whoever it does not name in the default partition OpenSM makes a limited member of it.
    """
    found: Partitions = {DEFAULT: {"ALL": Member(full=False, line=UNRULED)}}
    names = {DEFAULT: "Default"}
    for words, line in _statements(file, text):
        head, colon, body = words.partition(":")
        flags = [part.strip() for part in head.split(",")]
        key = _key(flags[0], names)
        parts = [part.strip() for part in body.split(",")]
        if not colon or key is None or not all(_PORT.fullmatch(part) for part in parts if part):
            why = f"{line.text} (OpenSM cannot read this: all ports become full members of one partition)"
            return {DEFAULT: {"ALL": Member(full=True, line=Line(file, line.number, why))}}
        full = any(re.fullmatch(r"defmember\s*=\s*(full|both)", flag) for flag in flags[1:])
        mine = found.setdefault(key, {})
        for part in filter(None, parts):
            name, _, kind = (piece.strip() for piece in part.partition("="))
            name = name if not name[:1].isdigit() else f"0x{int(name, 0):x}"
            if name in ALL:
                mine.clear()  # what comes later counts, and this is about each port
            mine[name] = Member(kind in ("full", "both") if kind else full, line)
    return found


_PORT = re.compile(r"(ALL|ALL_CAS|ALL_SWITCHES|ALL_ROUTERS|SELF|0x0*[1-9a-fA-F][0-9a-fA-F]*|[1-9]\d*)\s*(=.*)?")


def _key(words: str, names: dict[int, str]) -> int | None:
    """15 bits; None: it is none, or none is free.

    A name without a key, or with 0, is the partition of that name (seen of OpenSM 3.3: of several the first by their
    keys' bytes on the wire, read as this machine does), and else the lowest key that is free.

    Args:
        words: Of the definition.
        names: By key, of the partitions so far; gets that of this one.
    """
    name, equals, number = (part.strip() for part in words.partition("="))
    if equals and not re.fullmatch(r"0x[0-9a-fA-F]+|0|[1-9]\d*", number):
        return None
    key = int(number or "0", 0) & DEFAULT
    if not key:
        alike = [one for one, its in names.items() if its == name]
        swapped = sorted(alike, key=lambda one: one.to_bytes(2, "little"))
        key = swapped[0] if swapped else next((free for free in range(1, DEFAULT) if free not in names), 0)
    if not key:
        return None
    names.setdefault(key, name)
    return key


def _statements(file: str, text: str) -> Iterator[tuple[str, Line]]:
    """Definitions, each up to its semicolon or the end, with the line on which it begins.

    Members end with their line, as with a comma; a definition's first line has its colon, or OpenSM reads none.
    """
    gathered, first = "", 0
    for number, row in enumerate(text.splitlines(), start=1):
        plain = row.split("#")[0].strip()
        if not plain:
            continue
        first = first or number
        gathered = f"{gathered}, {plain}" if gathered else plain
        while ";" in gathered:
            words, _, gathered = gathered.partition(";")
            yield words, Line(file, first, f"{words.strip()};")
            gathered = gathered.strip()
            first = number if gathered else 0
        if gathered and ":" not in gathered:
            yield gathered, Line(file, first, gathered)
            gathered, first = "", 0
    if gathered.strip():
        yield gathered, Line(file, first, gathered.strip())


@dataclass(frozen=True)
class Speaking:
    """Two ports of different tenants in a partition, one of them at least a full member.

    Attributes:
        source, target: Ports.
        key: Of the partition.
        lines: That make them members.
    """

    source: str
    target: str
    key: int
    lines: tuple[Line, ...]


def speaking(partitions: Partitions, ports: Mapping[str, tuple[str, str]]) -> Iterator[Speaking]:
    """Tenants that are not apart, a pair of ports for each pair of tenants and each partition.

    Args:
        partitions: As read.
        ports: By address, as the file writes it: name of the port, and its tenant.
    """
    for key, members in partitions.items():
        everybody = next((members[name] for name in ALL if name in members), None)
        mine = {port: members.get(port, everybody) for port in ports}
        best: dict[str, tuple[str, Member]] = {}
        for port, member in mine.items():
            tenant = ports[port][1]
            if member is not None and (tenant not in best or (member.full and not best[tenant][1].full)):
                best[tenant] = port, member
        for tenant, (port, member) in best.items():
            for other, (far, theirs) in best.items():
                if tenant != other and (member.full or theirs.full):
                    yield Speaking(ports[port][0], ports[far][0], key, (member.line, theirs.line))
