"""A schedule: sends, what each has to wait for, and when it goes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from railyard import _core

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from railyard.collective.synthesis.network import LinkNetwork


@dataclass(frozen=True, eq=False)
class Sends:
    """Sends of pieces of equal size, each after those that it waits for.

    Attributes:
        piece_bytes: Of every send.
        pieces: How many there are to be sent, numbered from 0.
        link: int32[sends], which link.
        piece: int32[sends], which piece of data.
        reduce: bool[sends], whether the receiver adds it to what it has.
        after_ptr: int64[sends + 1], CSR of the sends that have to arrive before.
        after: int32[], numbers of sends, all lower than that of the one that waits.
    """

    piece_bytes: float
    pieces: int
    link: NDArray[np.int32]
    piece: NDArray[np.int32]
    reduce: NDArray[np.bool_]
    after_ptr: NDArray[np.int64]
    after: NDArray[np.int32]

    def __len__(self) -> int:
        return len(self.link)


class SendList:
    """Collects sends."""

    def __init__(self, piece_bytes: float, pieces: int) -> None:
        self.piece_bytes = piece_bytes
        self.pieces = pieces
        self._rows: list[tuple[int, int, bool]] = []
        self._after: list[int] = []
        self._ptr = [0]

    def add(self, link: int, piece: int, after: list[int], *, reduce: bool = False) -> int:
        """Number of a new send."""
        self._rows.append((link, piece, reduce))
        self._after += after
        self._ptr.append(len(self._after))
        return len(self._rows) - 1

    def done(self) -> Sends:
        """All of them."""
        link, piece, reduce = (np.array(column) for column in zip(*self._rows, strict=True))
        return Sends(
            self.piece_bytes,
            self.pieces,
            link.astype(np.int32),
            piece.astype(np.int32),
            reduce.astype(np.bool_),
            np.array(self._ptr, np.int64),
            np.array(self._after, np.int32),
        )


@dataclass(frozen=True, eq=False)
class Schedule:
    """Sends with their times.

    Attributes:
        sends: What is sent.
        start_us: float64[sends], when each begins to leave; a link carries one at a time.
        arrive_us: float64[sends], when the last byte is there.
    """

    sends: Sends
    start_us: NDArray[np.float64]
    arrive_us: NDArray[np.float64]

    @property
    def finish_us(self) -> float:
        """When the last send has arrived."""
        return float(self.arrive_us.max())


def timed(network: LinkNetwork, sends: Sends, planned_us: NDArray[np.float64] | None = None) -> Schedule:
    """Lets every link send what waits for it, that with the longest way to go first.

    Pieces are stored and forwarded: a node passes a piece on when all of it is there; switches that pass on packets do
    so as soon as the rest comes in time. A link is busy for the bytes of a send, and free again while it is still on
    its journey.

    Args:
        network: The links.
        sends: What is to be sent.
        planned_us: float64[sends], when each was planned to start: what was planned first goes first. None: see above.
    """
    takes = sends.piece_bytes / network.bytes_per_us[sends.link]
    arrives = takes + network.latency_us[sends.link]
    late = _passed_on(network, sends, takes) if network.packets else arrives
    start_us, plan = np.empty(len(sends)), np.empty(0) if planned_us is None else planned_us
    _core.synthesis_starts_us(
        sends.link, takes, late, sends.after_ptr, sends.after, plan, len(network.source), start_us
    )
    return Schedule(sends, start_us, start_us + arrives)


def _passed_on(network: LinkNetwork, sends: Sends, takes: NDArray[np.float64]) -> NDArray[np.float64]:
    """float64[sends], us from the start of each until what waits for it may begin.

    A switch may send on a packet before the next one has come, if it does not run dry: a faster link begins later.
    """
    owner = np.repeat(np.arange(len(sends)), np.diff(sends.after_ptr))
    next_takes = takes.copy()
    np.minimum.at(next_takes, sends.after, takes[owner])
    ahead = np.where(network.switch[network.target[sends.link]], next_takes, 0.0)
    return np.asarray(network.latency_us[sends.link] + takes - ahead, np.float64)
