"""Where charged time is booked: totals by cause, group and phase, and by rank and cause, in integer picoseconds."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from railyard.measure.causes import CAUSES, Cause, Vocabulary

if TYPE_CHECKING:
    from numpy.typing import NDArray


_LOW_BITS = 24


def integer_sums(place: NDArray[np.int64], amount: NDArray[np.int64], places: int) -> NDArray[np.int64]:
    """int64[places]: sums of amounts by place, without rounding.

    `bincount` adds up in float64; high and low bits apart, each sum stays far below 2^53.
    """
    high = np.bincount(place, amount >> _LOW_BITS, minlength=places).astype(np.int64)
    low = np.bincount(place, amount & ((1 << _LOW_BITS) - 1), minlength=places).astype(np.int64)
    return (high << _LOW_BITS) + low


@dataclass(frozen=True)
class Ledger:
    """Sums of charged time.

    Attributes:
        vocabulary: Phases and groups of the label table.
        cells_ps: int64[cells]; picoseconds summed over ranks, by (cause, group, phase).
        by_rank_ps: int64[ranks, causes].
        waited_for_ps: int64[ranks]; straggler time of others that this rank caused.
        event: bool[n]; collectives in which somebody waited for a straggler.
    """

    vocabulary: Vocabulary
    cells_ps: NDArray[np.int64]
    by_rank_ps: NDArray[np.int64]
    waited_for_ps: NDArray[np.int64]
    event: NDArray[np.bool_]

    @staticmethod
    def empty(vocabulary: Vocabulary, ranks: int, tasks: int) -> Ledger:
        """A ledger without any booking."""
        return Ledger(
            vocabulary,
            np.zeros(vocabulary.cells, np.int64),
            np.zeros((ranks, CAUSES), np.int64),
            np.zeros(ranks, np.int64),
            np.zeros(tasks, np.bool_),
        )

    def book(
        self,
        rank: NDArray[np.int64],
        cause: NDArray[np.int64],
        group: NDArray[np.int64],
        phase: NDArray[np.int64],
        amount_ps: NDArray[np.int64],
    ) -> None:
        """Books one amount an entry.

        Sums by rank of one call go through float64, which is exact below 2^53 ps (2.5 h of one rank).
        """
        if not rank.size:
            return
        cells = self.vocabulary.cell(cause, group, phase)
        self.cells_ps[:] += integer_sums(cells, amount_ps, len(self.cells_ps))
        first = int(rank.min())
        flat = np.bincount((rank - first) * CAUSES + cause, amount_ps)
        rows = -(-len(flat) // CAUSES)
        padded = np.zeros(rows * CAUSES)
        padded[: len(flat)] = flat
        self.by_rank_ps[first : first + rows] += padded.reshape(rows, CAUSES).astype(np.int64)

    def book_late(self, late_rank: NDArray[np.int64], via: NDArray[np.int64], amount_ps: NDArray[np.int64]) -> None:
        """Books who was waited for, and in which collective (-1 and below: at the end of the step)."""
        np.add.at(self.waited_for_ps, late_rank, amount_ps)
        self.event[via[via >= 0]] = True

    def total_s(self, cause: Cause) -> float:
        """Seconds of one cause, summed over ranks."""
        return float(self.by_rank_ps[:, cause].astype(np.float64).sum() * 1e-12)
