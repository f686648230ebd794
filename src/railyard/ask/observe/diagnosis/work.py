"""How long kernels of each kind took on each rank in each step, over what the same kernels took on its peers.

Peers of a rank are those that ran a kernel (by name and grid) as often in the same step: so the stages of a pipeline,
which run different numbers of the same kernels, are not compared with one another. Where these are too few, those that
ran it with any grid are: a larger grid is more work. Kernels are compared by length: the longest with the longest. The
`PREEMPTED` kernels of a kind that lost most say nothing of the rank.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from railyard.ask.observe.diagnosis.episodes import Series
from railyard.ask.observe.kernel_names import kind_of_kernel
from railyard.ask.observe.kernels import COMMUNICATION

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from railyard.graph import Record

    Floats = NDArray[np.float64]
    Ints = NDArray[np.int64]

ALL = "all"
"""Kernels of every kind together."""

PREEMPTED = 2
"""Kernels of one kind that are left out of each step of a rank, those that lost most: one kernel that took three times
as long is an accident, and a slow part shows in the others too."""

CHIPS = 0.005
"""Usual spread of kernels' times between healthy accelerators of one kind. Measured on clusters it is 0.3 to 2 % of a
GEMM's time at fixed clocks, and more under a power cap (P. Sinha et al., "Not All GPUs Are Created Equal", SC 2022)."""


@dataclass(frozen=True)
class Work:
    """Times of kernels.

    Attributes:
        ranks: int64[r], that were traced.
        spent: By kind, float64[steps, r], what its kernels took, ps; nan where peers are missing.
        typical: By kind, float64[steps, r], what the same kernels took on peers.
        count: By kind, int64[steps, r], how many they are.
        usual_ps: By kind, what all its kernels take in a step of a rank on average, those left out too.
        groups: Places of ranks that do the same work.
        compared: float64[r], share of a rank's time in kernels that has peers; 0 where it has none.
        blocks: By kind, float64[steps, r], thread blocks of its kernels over those on peers; 1 where nobody noted them.
    """

    ranks: Ints
    spent: dict[str, Floats]
    typical: dict[str, Floats]
    count: dict[str, Ints]
    usual_ps: dict[str, float]
    groups: list[list[int]]
    compared: Floats
    blocks: dict[str, Floats]

    def series(self, kind: str) -> Series:
        """How much longer the kernels of a kind took."""
        return Series.of(np.log(self.spent[kind] / self.typical[kind]), CHIPS)


def work_of(record: Record, ranks: Ints, peers: int) -> Work:
    """Times of kernels by kind.

    Args:
        record: Of kernels.
        ranks: That were traced, ascending.
        peers: Fewest other ranks that must have run a kernel as often.
    """
    steps = len(record.meta["steps"])
    rows, plain = _Rows.of(record, ranks, grids=True), _Rows.of(record, ranks, grids=False)
    typical = rows.typical(rows.took, peers)
    lone = np.isnan(typical)
    typical[lone] = rows.those_of(plain, plain.typical(plain.took, peers))[lone]
    grids = np.where(lone, rows.those_of(plain, plain.typical(plain.blocks, peers)), rows.blocks)
    names = [kind_of_kernel(label.op) if label.phase != COMMUNICATION else "" for label in record.labels]
    kinds, kind_of_label = np.unique(names, return_inverse=True)
    kind = kind_of_label[rows.label]
    cell = (kind * steps + rows.step) * len(ranks) + rows.rank
    known = np.isfinite(typical)
    steps_run = max(len(np.unique(rows.step * len(ranks) + rows.rank)), 1)
    usual_ps = np.bincount(kind[known], typical[known], len(kinds)) / steps_run
    compared = np.bincount(rows.rank[known], rows.took[known], len(ranks))
    kept = known.copy()
    kept[kept] = _kept(cell[kept], (rows.took - typical)[kept])
    shape = len(kinds), steps, len(ranks)
    spent, usual = (
        np.bincount(cell[kept], values[kept], int(np.prod(shape))).reshape(shape) for values in (rows.took, typical)
    )
    count = np.bincount(cell[kept], minlength=int(np.prod(shape))).reshape(shape)
    noted = cell[kept & (grids > 0)], int(np.prod(shape))
    larger, ran = (np.bincount(noted[0], values[kept & (grids > 0)], noted[1]) for values in (rows.blocks, grids))
    more = np.where(ran > 0, larger / np.maximum(ran, 1.0), 1.0).reshape(shape)
    found = {str(name): (spent[at], usual[at], count[at]) for at, name in enumerate(kinds) if usual[at].any()}
    found[ALL] = spent.sum(axis=0), usual.sum(axis=0), count.sum(axis=0)
    return Work(
        ranks,
        {name: np.where(one[1] > 0, one[0], np.nan) for name, one in found.items()},
        {name: np.where(one[1] > 0, one[1], np.nan) for name, one in found.items()},
        {name: one[2] for name, one in found.items()},
        {ALL: float(usual_ps.sum()), **{str(name): float(one) for name, one in zip(kinds, usual_ps, strict=True)}},
        rows.groups(),
        compared / np.maximum(np.bincount(rows.rank, rows.took, len(ranks)), 1.0),
        {str(name): more[at] for at, name in enumerate(kinds)},
    )


def _kept(cell: Ints, lost: Floats) -> NDArray[np.bool_]:
    """bool[n], all but the few of each cell that lost most, and one of each at least."""
    order = np.lexsort((-lost, cell))
    _, first, count = np.unique(cell[order], return_index=True, return_counts=True)
    place = np.arange(len(order)) - np.repeat(first, count)
    kept = np.empty(len(order), np.bool_)
    kept[order] = place >= np.minimum(PREEMPTED, np.repeat(count, count) - 1)
    return kept


@dataclass(frozen=True)
class _Rows:
    """Computations and copies that belong to a step, n of them, by kernel, step and rank, and by length in these.

    Attributes:
        row: int64[n], of the record.
        kernel: int64[n], name and grid, or name.
        label: int64[n], of the record.
        step: int64[n], place of the step.
        rank: int64[n], place of the rank.
        took: float64[n], ps.
        blocks: float64[n], of its grid; 0 where nobody noted them.
        count: int64[n], how often the rank ran the kernel in the step.
        place: int64[n], by length among these.
    """

    row: Ints
    kernel: Ints
    label: Ints
    step: Ints
    rank: Ints
    took: Floats
    blocks: Floats
    count: Ints
    place: Ints

    @classmethod
    def of(cls, record: Record, ranks: Ints, *, grids: bool) -> _Rows:
        computes = np.array([label.phase != COMMUNICATION for label in record.labels], np.bool_)[record.what]
        step = record.column("step").astype(np.int64)
        rows = np.flatnonzero(computes & (step >= 0))
        blocks = record.column("blocks")[rows]
        kernel = record.what[rows].astype(np.int64)
        if grids:
            sizes, size = np.unique(blocks, return_inverse=True)
            kernel = kernel * max(len(sizes), 1) + size
        rank = np.searchsorted(ranks, record.who[rows])
        took = (record.end_ps[rows] - record.start_ps[rows]).astype(np.float64)
        order = np.lexsort((took, rank, step[rows], kernel))
        first = _starts(kernel[order], step[rows][order], rank[order])
        count = np.diff(np.r_[first, len(order)])
        return cls(
            rows[order],
            kernel[order],
            record.what[rows][order].astype(np.int64),
            step[rows][order],
            rank[order],
            took[order],
            blocks[order].astype(np.float64),
            np.repeat(count, count),
            np.arange(len(order)) - np.repeat(first, count),
        )

    def typical(self, values: Floats, peers: int) -> Floats:
        """float64[n], the median over the ranks that ran the kernel as often; nan where these are too few."""
        order = np.lexsort((values, self.place, self.count, self.step, self.kernel))
        first = _starts(*(column[order] for column in (self.kernel, self.step, self.count, self.place)))
        size = np.diff(np.r_[first, len(order)])
        ordered = values[order]
        middle = (ordered[first + (size - 1) // 2] + ordered[first + size // 2]) / 2
        found = np.empty(len(order))
        found[order] = np.repeat(np.where((size > peers) & (middle > 0), middle, np.nan), size)
        return found

    def those_of(self, other: _Rows, values: Floats) -> Floats:
        """float64[n], values of the same rows in another order."""
        found = np.empty(int(max(self.row.max(initial=-1), other.row.max(initial=-1))) + 1)
        found[other.row] = values
        return found[self.row]

    def groups(self) -> list[list[int]]:
        """Places of ranks that ran the same kernels as often."""
        ran: dict[int, set[tuple[int, int]]] = {}
        once = self.place == 0
        for kernel, rank, count in zip(
            *(one[once].tolist() for one in (self.kernel, self.rank, self.count)), strict=True
        ):
            ran.setdefault(rank, set()).add((kernel, count))
        alike: dict[frozenset[tuple[int, int]], list[int]] = {}
        for rank, kernels in ran.items():
            alike.setdefault(frozenset(kernels), []).append(rank)
        return list(alike.values())


def _starts(*columns: Ints) -> Ints:
    """int64[m], rows at which any of several sorted columns changes."""
    new = np.zeros(len(columns[0]), np.bool_)
    new[:1] = True
    for column in columns:
        new[1:] |= np.diff(column) != 0
    return np.flatnonzero(new)
