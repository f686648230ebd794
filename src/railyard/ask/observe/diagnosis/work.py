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

from railyard.ask.observe.diagnosis.compute import LEAST
from railyard.ask.observe.diagnosis.episodes import ExcessSeries
from railyard.ask.observe.diagnosis.peers import DEGREES, INEXACT
from railyard.ask.observe.kernels import (
    ATTENTION,
    COMMUNICATION,
    COMPUTE_BOUND,
    COPY,
    EXPERT,
    GEMM,
    MEMORY_BOUND,
    WORDS,
    communicating,
    kind_of_kernel,
    starts_of,
)

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from railyard.graph import Record

    Floats = NDArray[np.float64]
    Ints = NDArray[np.int64]
    from collections.abc import Iterator, Mapping


def stalls_of(record: Record, ranks: Ints) -> tuple[Floats, Floats]:
    """float64[steps, ranks], ps for which each rank stalled, and that each step took it; nan if that is not known."""
    talks = communicating(record)
    steps = len(record.meta["steps"])
    still, took = np.full((steps, len(ranks)), np.nan), np.full((steps, len(ranks)), np.nan)
    step, began = record.column("step").astype(np.int64), record.meta["began_ps"]
    rows = np.flatnonzero(step >= 0)
    rows = rows[np.lexsort((record.start_ps[rows], record.who[rows]))]
    for mine in np.split(rows, np.flatnonzero(np.diff(record.who[rows])) + 1) if len(rows) else ():
        place = int(np.searchsorted(ranks, record.who[mine[0]]))
        of, start, end = step[mine], record.start_ps[mine], record.end_ps[mine]
        ran = np.unique(of)
        still[ran, place] = np.bincount(of, _stood(start, end, talks[mine]), steps)[ran]
        still[ran[0], place] += start[0] - began.get(str(ranks[place]), np.nan)
        last = np.full(steps, np.iinfo(np.int64).min)
        np.maximum.at(last, of, end)
        took[ran, place] = np.diff(np.r_[start[0], np.maximum.accumulate(last[ran])])
    return still, took


def _stood(start: Ints, end: Ints, talks: NDArray[np.bool_]) -> Floats:
    """float64[n], ps for which the rank stalled before each of its kernels; 0 before the first.

    Args:
        start: int64[n], ps, ascending.
        end: int64[n], ps.
        talks: bool[n], which are communications.
    """
    lost = np.zeros(len(start))
    lost[1:] = np.maximum(start[1:] - np.maximum.accumulate(end)[:-1], 0)
    computes = np.flatnonzero(~talks)
    at = start[computes[1:]]
    free = np.maximum.accumulate(end[computes])[:-1]
    ended = np.sort(end[talks])
    before = np.searchsorted(ended, at, side="right")
    waited = np.r_[start[:1], ended][before]
    lost[computes[1:]] = np.maximum(at - np.maximum(free, waited), 0)
    return lost


SEQUENCES, EXPERTS, ACCELERATOR, HOST, SOFTWARE = "sequences", "experts", "accelerator", "host", "software"

_ALONE = {ATTENTION: SEQUENCES, EXPERT: EXPERTS, COPY: HOST}
"""What one kind of kernel that is slow by itself says; any other is a program that differs from rank to rank."""

RARELY = -3.0
"""Log of the odds that one rank of a job runs another program than the rest, against a slow accelerator."""


@dataclass(frozen=True)
class BlameLevel:
    """Slowness of the kernels of one kind on a rank."""

    excess: float
    chance: float


@dataclass(frozen=True)
class Blame:
    """The part to blame, and its odds.

    Attributes:
        kind: accelerator, sequences, experts, host or software.
    """

    kind: str
    what: tuple[str, ...]
    share: float


def blamed(levels: Mapping[str, BlameLevel], *, routed: bool) -> Blame:
    """The likeliest cause.

    Args:
        levels: By kind of kernel.
        routed: Whether tokens are sent to experts in this job: GEMMs by other names may be theirs.
    """
    guesses = [
        (Blame(kind, what, 1.0), _likelihood(levels, want) + prior) for kind, what, want, prior in _guesses(levels)
    ]
    if routed:
        named = any(kind == EXPERT for kind in levels)
        guesses = [
            (Blame(EXPERTS, one.what, 1.0), odds - RARELY)
            if one.what == (GEMM,) and one.kind == SOFTWARE and not named
            else (one, odds)
            for one, odds in guesses
        ]
    best, top = max(guesses, key=lambda one: one[1])
    total = sum(float(np.exp(odds - top)) for one, odds in guesses if one.kind != best.kind or one is best)
    return Blame(best.kind, best.what, 1 / total)


def _guesses(levels: Mapping[str, BlameLevel]) -> Iterator[tuple[str, tuple[str, ...], dict[str, float], float]]:
    """Cause, kinds of kernels that it slows, predicted levels, and prior odds."""
    want: dict[str, float] = {}
    for bound in (COMPUTE_BOUND, MEMORY_BOUND):
        mine = [kind for kind in bound if kind in levels]
        want |= dict.fromkeys(mine, _common([levels[kind] for kind in mine]))
    yield ACCELERATOR, tuple(kind for kind, slower in want.items() if slower > 0), want, 0.0
    for kind, level in levels.items():
        cause = _ALONE.get(kind, SOFTWARE)
        yield cause, (kind,), {kind: max(level.excess, 0.0)}, RARELY if cause == SOFTWARE else 0.0


def _common(levels: list[BlameLevel]) -> float:
    """The level that several kinds share, 0 at least."""
    if not levels:
        return 0.0
    weights = [1 / (one.chance**2 + (INEXACT * one.excess) ** 2) for one in levels]
    return max(float(np.average([one.excess for one in levels], weights=weights)), 0.0)


def _likelihood(levels: Mapping[str, BlameLevel], want: Mapping[str, float]) -> float:
    """Log-likelihood of the measured levels under the predicted ones, up to a constant."""
    found = 0.0
    for kind, level in levels.items():
        guess = want.get(kind, 0.0)
        sigma = float(np.hypot(level.chance, INEXACT * guess))
        found -= 0.5 * (DEGREES + 1) * float(np.log1p(((level.excess - guess) / sigma) ** 2 / DEGREES)) + float(
            np.log(sigma)
        )
    return found


def by_grids(cause: Blame, levels: Mapping[str, BlameLevel], more: Mapping[str, float]) -> tuple[Blame, str]:
    """The cause where slow kernels run with more thread blocks than on peers: more work, and no bad part; and words."""
    kind = max(cause.what, key=lambda one: levels[one].excess)
    if np.log(more[kind]) < max(levels[kind].excess / 2, LEAST):
        return cause, ""
    of = EXPERTS if cause.kind == EXPERTS or cause.what == (EXPERT,) else SEQUENCES
    return Blame(of, cause.what, 1.0), f", with {more[kind]:.2f} times as many thread blocks: it is given more work"


def words(levels: Mapping[str, BlameLevel], cause: Blame) -> str:
    """Describes the kernels that are slow, by how much, and those that are not."""
    times = {kind: float(np.exp(levels[kind].excess)) for kind in cause.what}
    slow = {kind: ratio for kind, ratio in times.items() if ratio >= 1 + LEAST} or times
    least, most = min(slow.values()), max(slow.values())
    span = f"{least:.2f}" if most - least < 0.02 else f"{least:.2f} to {most:.2f}"
    if len(slow) == len(levels) > 1:
        return f"all kernels take {span} times as long as on its peers"
    rest = [f"{WORDS[kind]} {np.exp(one.excess):.2f}" for kind, one in levels.items() if kind not in slow]
    others = f" (other kernels are normal: {', '.join(rest)})" if rest else ""
    return f"{' and '.join(WORDS[kind] for kind in slow)} take {span} times as long as on its peers{others}"


ALL = "all"
"""Kernels of every kind together."""

PREEMPTED = 2
"""Kernels of one kind that are left out of each step of a rank, those that lost most: one kernel that took three times
as long is an accident, and a slow part shows in the others too."""

CHIPS = 0.005
"""Usual spread of kernels' times between healthy accelerators of one kind. Measured on clusters it is 0.3 to 2 % of a
GEMM's time at fixed clocks, and more under a power cap (P. Sinha et al., "Not All GPUs Are Created Equal", SC 2022)."""


@dataclass(frozen=True)
class KernelTimes:
    """Times of kernels.

    Attributes:
        spent: By kind, float64[steps, r], what its kernels took on each rank traced, ps; nan where peers are missing.
        typical: By kind, float64[steps, r], what the same kernels took on peers.
        count: By kind, int64[steps, r], how many they are.
        usual_ps: By kind, what all its kernels take in a step of a rank on average, those left out too.
        compared: float64[r], share of a rank's time in kernels that has peers; 0 where it has none.
        blocks: By kind, float64[steps, r], thread blocks of its kernels over those on peers; 1 where nobody noted them.
    """

    spent: dict[str, Floats]
    typical: dict[str, Floats]
    count: dict[str, Ints]
    usual_ps: dict[str, float]
    groups: list[list[int]]
    compared: Floats
    blocks: dict[str, Floats]

    def series(self, kind: str) -> ExcessSeries:
        """Excess of the times of a kind's kernels."""
        return ExcessSeries.of(np.log(self.spent[kind] / self.typical[kind]), CHIPS)


def work_of(record: Record, ranks: Ints, peers: int) -> KernelTimes:
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
    return KernelTimes(
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
        step = record.column("step").astype(np.int64)
        rows = np.flatnonzero(~communicating(record) & (step >= 0))
        blocks = record.column("blocks")[rows]
        kernel = record.what[rows].astype(np.int64)
        if grids:
            sizes, size = np.unique(blocks, return_inverse=True)
            kernel = kernel * max(len(sizes), 1) + size
        rank = np.searchsorted(ranks, record.who[rows])
        took = (record.end_ps[rows] - record.start_ps[rows]).astype(np.float64)
        order = np.lexsort((took, rank, step[rows], kernel))
        first = starts_of(kernel[order], step[rows][order], rank[order])
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
        first = starts_of(*(column[order] for column in (self.kernel, self.step, self.count, self.place)))
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
