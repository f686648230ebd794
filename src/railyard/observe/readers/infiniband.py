"""`perfquery` and `ibqueryerrors` of infiniband-diags: counters of InfiniBand ports.

perfquery: `# Port counters: Lid 6 port 5 (CapMask: 0x1300)`, then `SymbolErrorCounter:..............1234`.
ibqueryerrors: `Errors for 0x200003 "leaf1"`, then `   GUID 0x200003 port 5: [SymbolErrorCounter == 1234] [...]`; the
line of
`port ALL` sums the others up and is left out.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from railyard.errors import InputError
from railyard.observe.reader import Count, Piece, Reader, readers

if TYPE_CHECKING:
    from railyard.observe.sources import Source

_PORT = re.compile(r"^# Port (?:extended )?counters: (?:Lid|DR path slid) (\S+).*? port (\d+)", re.IGNORECASE)
_VALUE = re.compile(r"^([A-Za-z0-9]+):\.{2,}(0x[0-9a-fA-F]{1,16}|[0-9]{1,20})\s*$")
_NODE = re.compile(r'^Errors for (0x[0-9a-f]+)? ?"([^"]*)"')
_ERRORS = re.compile(r"^\s+GUID (0x[0-9a-f]+) port (\w+):(.*)$")
_ERROR = re.compile(r"\[(\w+) == ([0-9]{1,20})\b")
_NOT_COUNTERS = ("PortSelect", "CounterSelect", "CounterSelect2")


def recognises(_: str, head: bytes) -> bool:
    """By its headings."""
    return b"# Port counters: " in head or b"# Port extended counters: " in head or b"Errors for " in head[:512]


def read(source: Source) -> Piece:
    """Counters of every port.

    Raises:
        InputError: There is none.
    """
    piece = Piece(source.name)
    where = port = ""
    for line in source.everything().decode("utf-8", errors="replace").splitlines():
        if found := _PORT.match(line):
            where, port = f"lid {found[1]}", f"port {found[2]}"
        elif found := _NODE.match(line):
            where = found[2] or str(found[1])
        elif (found := _ERRORS.match(line)) and found[2] != "ALL":
            counts = _ERROR.findall(found[3])
            piece.counts += [Count(where or found[1], f"port {found[2]}", name, float(value)) for name, value in counts]
        elif (found := _VALUE.match(line)) and where and found[1] not in _NOT_COUNTERS:
            piece.counts.append(Count(where, port, found[1], float(int(found[2], 0))))
    if not piece.counts and "nodes checked" not in source.head(1 << 16).decode("utf-8", errors="replace"):
        raise InputError("no counter of a port is in it", file=source.name)
    return piece


readers.add("infiniband", Reader("infiniband", "perfquery and ibqueryerrors", recognises, read))
