"""sFlow, as `sflowtool -l` prints it: a line of 19 counters of an interface of an agent, `CNTR,agent,ifIndex,...`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from railyard.ask.observe.reader import Count, Piece, Reader, is_count, readers
from railyard.kit.errors import InputError

if TYPE_CHECKING:
    from railyard.ask.observe.sources import Source

_NAMES = (
    "ifType", "ifSpeed", "ifDirection", "ifStatus", "ifInOctets", "ifInUcastPkts", "ifInMulticastPkts",
    "ifInBroadcastPkts", "ifInDiscards", "ifInErrors", "ifInUnknownProtos", "ifOutOctets", "ifOutUcastPkts",
    "ifOutMulticastPkts", "ifOutBroadcastPkts", "ifOutDiscards", "ifOutErrors", "ifPromiscuousMode",
)  # fmt: skip
_COUNTERS = {"ifInOctets", "ifInDiscards", "ifInErrors", "ifOutOctets", "ifOutDiscards", "ifOutErrors"}


def recognises(_: str, head: bytes) -> bool:
    """By its first lines."""
    return head.startswith((b"CNTR,", b"FLOW,")) or b"\nCNTR," in head


def read(source: Source) -> Piece:
    """The last counters of every interface.

    Raises:
        InputError: There are none.
    """
    piece, broken = Piece(source.name), 0
    last: dict[tuple[str, str, str], float] = {}
    for line in source.everything().decode("utf-8", errors="replace").splitlines():
        words = line.split(",")
        if words[0] != "CNTR":
            continue
        if len(words) < 3 + len(_NAMES) or not all(is_count(word.strip()) for word in words[2 : 3 + len(_NAMES)]):
            broken += 1
            continue
        for name, value in zip(_NAMES, words[3:], strict=False):
            if name in _COUNTERS:
                last[words[1], f"interface {words[2]}", name] = float(value)
    piece.counts = [Count(where, port, name, value) for (where, port, name), value in last.items()]
    if not piece.counts:
        raise InputError(
            "no counters of an interface are in it", file=source.name, allowed="lines CNTR of sflowtool -l"
        )
    if broken:
        piece.remarks.append(f"{broken} lines are damaged and were left out")
    return piece


readers.add("sflow", Reader("sflow", "sFlow counters as sflowtool prints them", recognises, read))
