"""`perfquery` and `ibqueryerrors` of infiniband-diags: counters of InfiniBand ports.

perfquery: `# Port counters: Lid 6 port 5 (CapMask: 0x1300)`, then `SymbolErrorCounter:..............1234`.
ibqueryerrors: `Errors for 0x200003 "leaf1"`, then `   GUID 0x200003 port 5: [SymbolErrorCounter == 1234] [...]`; the
line of `port ALL` sums the others up and is left out.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from railyard.cluster.asbuilt.reported.reports import PortCount, Reader, Report, Reports, readers
from railyard.kit.errors import Problem

if TYPE_CHECKING:
    from collections.abc import Iterator

_PORT = re.compile(r"^# Port (?:extended )?counters: (?:Lid|DR path slid) (\S+).*? port (\d+)", re.IGNORECASE)
_VALUE = re.compile(r"^([A-Za-z0-9]+):\.{2,}(0x[0-9a-fA-F]{1,16}|[0-9]{1,20})\s*$")
_NODE = re.compile(r'^Errors for (0x[0-9a-f]+)? ?"([^"]*)"')
_ERRORS = re.compile(r"^\s+GUID (0x[0-9a-f]+) port (\w+):(.*)$")
_ERROR = re.compile(r"\[(\w+) == ([0-9]{1,20})\b")
_NOT_COUNTERS = ("PortSelect", "CounterSelect", "CounterSelect2")


def looks_like(text: str) -> bool:
    """By its headings."""
    return "# Port counters: " in text or "# Port extended counters: " in text or bool(_NODE.match(text))


def counts(text: str) -> Iterator[PortCount]:
    """All counters; devices are called `lid 6`, or by their descriptions."""
    where = port = ""
    for line in text.splitlines():
        if found := _PORT.match(line):
            where, port = f"lid {found[1]}", found[2]
        elif found := _NODE.match(line):
            where = found[2] or str(found[1])
        elif (found := _ERRORS.match(line)) and found[2] != "ALL":
            for name, value in _ERROR.findall(found[3]):
                yield PortCount(where or found[1], found[2], name, float(value))
        elif (found := _VALUE.match(line)) and where and found[1] not in _NOT_COUNTERS:
            yield PortCount(where, port, found[1], float(int(found[2], 0)))


def healthy(text: str) -> bool:
    """Whether it is a report in which nothing is wrong."""
    return "nodes checked" in text


def _read(report: Report, out: Reports) -> None:
    before = len(out.counts)
    out.counts += counts(report.text)
    if len(out.counts) == before and not healthy(report.text):
        out.problems.append(Problem("no counter of a port is in it", file=report.file))


readers.add(
    "infiniband-counters",
    Reader("perfquery or ibqueryerrors", lambda report: looks_like(report.text) or healthy(report.text[-4096:]), _read),
)
