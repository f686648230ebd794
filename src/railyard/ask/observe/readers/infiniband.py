"""`perfquery` and `ibqueryerrors` of infiniband-diags: counters of InfiniBand ports."""

from __future__ import annotations

from typing import TYPE_CHECKING

from railyard.ask.observe.reader import Count, Piece, Reader, readers
from railyard.cluster.asbuilt.reported import infiniband_counters
from railyard.kit.errors import InputError

if TYPE_CHECKING:
    from railyard.ask.observe.sources import Source


def recognises(_: str, head: bytes) -> bool:
    """By its headings."""
    return b"# Port counters: " in head or b"# Port extended counters: " in head or b"Errors for " in head[:512]


def read(source: Source) -> Piece:
    """Counters of every port.

    Raises:
        InputError: There is none.
    """
    piece = Piece(source.name)
    text = source.everything().decode("utf-8", errors="replace")
    piece.counts += [
        Count(one.device, f"port {one.port}", one.name, one.value) for one in infiniband_counters.counts(text)
    ]
    if not piece.counts and not infiniband_counters.healthy(text[: 1 << 16]):
        raise InputError("no counter of a port is in it", file=source.name)
    return piece


readers.add("infiniband", Reader("infiniband", "perfquery and ibqueryerrors", recognises, read))
