"""`ibnetdiscover`: which port leads where, so that counters of a port can be followed to the far end of its cable."""

from __future__ import annotations

from typing import TYPE_CHECKING

from railyard.ask.observe.reader import Piece, Reader, readers
from railyard.cluster.asbuilt import ibnetdiscover
from railyard.kit.errors import InputError

if TYPE_CHECKING:
    from railyard.ask.observe.sources import Source


def recognises(_: str, head: bytes) -> bool:
    """By its nodes."""
    return ibnetdiscover.looks_like(head.decode("utf-8", errors="replace"))


def read(source: Source) -> Piece:
    """Devices and cables.

    Raises:
        InputError: There is no cable.
    """
    found = ibnetdiscover.read(source.everything().decode("utf-8", errors="replace"), source.name)
    if not found.cables:
        raise InputError("no cable is in it", file=source.name)
    piece = Piece(source.name, cabling=found)
    if found.problems:
        piece.remarks.append(f"{len(found.problems)} lines of it could not be read: {found.problems[0].headline()}")
    return piece


readers.add("ibnetdiscover", Reader("ibnetdiscover", "ibnetdiscover: devices and cables", recognises, read))
