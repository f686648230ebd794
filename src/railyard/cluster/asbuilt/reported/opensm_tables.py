"""Forwarding tables of InfiniBand switches: OpenSM's `opensm-lfts.dump`, `dump_fts`, `dump_lfts` and `ibroute`.

A heading names the switch (`Unicast lids [0-22] of switch Lid 2 guid 0x0000000000200000 ('spine0'):`), each line a
destination's address, the port, and what is there: `0x0001 001 # Channel Adapter portguid 0x...: 'node0000'` or
`0x0001 065 : (Channel Adapter portguid 0x...: 'node000')`.
"""

from __future__ import annotations

import re

from railyard.cluster.asbuilt.reported.reports import Reader, Report, Reports, readers
from railyard.kit.errors import Problem

_SWITCH = re.compile(r"Unicast lids .*\bguid 0x([0-9a-fA-F]+)")
_GUID = re.compile(r"portguid 0x([0-9a-fA-F]+)")
_ROW = re.compile(r"0x[0-9a-fA-F]{1,8}\s+(\d{1,4}|UNREACHABLE|unreachable)\b")

NO_PORT = 255
"""Of a destination to which a switch knows no path."""


def _read(report: Report, out: Reports) -> None:
    here: dict[str, int] | None = None
    nameless = 0
    for number, line in enumerate(report.text.splitlines(), 1):
        if line.startswith("0x"):
            row, guid = _ROW.match(line), _GUID.search(line)
            if row is None:
                out.problems.append(_wrong("a row of a forwarding table has no port", report.file, number, line))
            elif guid is None:
                nameless += 1  # an address that nothing has any more
            elif here is not None:
                here[guid[1].lstrip("0").lower()] = int(row[1]) if row[1].isdecimal() else NO_PORT
        elif line.startswith("Unicast lids"):
            switch = _SWITCH.match(line)
            here = None
            if switch is None:
                out.problems.append(_wrong("a forwarding table does not say whose it is", report.file, number, line))
            else:
                here = out.forwarding.setdefault(switch[1].lstrip("0").lower(), {})
    if here == {} and not nameless:
        out.problems.append(Problem("a forwarding table ends without a row", file=report.file))


def _wrong(message: str, file: str, line: int, found: str) -> Problem:
    return Problem(message, file=file, line=line, found=found[:80])


readers.add("opensm-tables", Reader("forwarding tables of InfiniBand", lambda one: "Unicast lids" in one.text, _read))
