"""InfiniBand partitions of `partitions.conf`: which ports may speak to which, and by which line."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from railyard.deploy.isolation.configured import Line

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

    Args:
        file: Its name.
        text: Of the file; without a rule for the default partition OpenSM makes all limited members of it.
    """
    found: Partitions = {}
    for words, line in _statements(file, text):
        head, _, body = words.partition(":")
        flags = [part.strip() for part in head.split(",")]
        key = int(flags[0].partition("=")[2], 0) & DEFAULT if "=" in flags[0] else DEFAULT
        full = any(re.fullmatch(r"defmember\s*=\s*full", flag) for flag in flags[1:])
        mine = found.setdefault(key, {})
        for part in filter(None, (part.strip() for part in body.split(","))):
            name, _, kind = (piece.strip() for piece in part.partition("="))
            name = name if not name[:1].isdigit() else f"0x{int(name, 0):x}"
            if name in ALL:
                mine.clear()  # what comes later counts, and this is about each port
            mine[name] = Member(kind == "full" if kind else full, line)
    found.setdefault(DEFAULT, {"ALL": Member(full=False, line=UNRULED)})
    return found


def _statements(file: str, text: str) -> Iterator[tuple[str, Line]]:
    """Definitions, each up to its semicolon, with the line on which it begins."""
    gathered, first = "", 0
    for number, row in enumerate(text.splitlines(), start=1):
        plain = row.split("#")[0].strip()
        if not plain:
            continue
        first = first or number
        gathered += plain
        while ";" in gathered:
            words, _, gathered = gathered.partition(";")
            yield words, Line(file, first, f"{words.strip()};")
            first = number if gathered.strip() else 0


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
