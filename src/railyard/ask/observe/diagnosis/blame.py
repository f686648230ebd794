"""What makes a rank's kernels slow, by which kinds of them are slow and which are not.

An accelerator slows all kernels that lean on the same resource equally: its clock those of COMPUTE_BOUND, its memory
those of MEMORY_BOUND. Work that is unevenly spread slows one kind alone: attention where sequences are longer, expert
GEMMs where experts get more tokens. Each guess predicts a level for every kind; how well the measured levels fit is
their likelihood under Student's law, with the guess's own error in proportion to what it predicts.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from railyard.ask.observe.diagnosis.compute import LEAST
from railyard.ask.observe.diagnosis.peers import DEGREES, INEXACT
from railyard.ask.observe.kernel_names import ATTENTION, COMPUTE_BOUND, COPY, EXPERT, GEMM, MEMORY_BOUND, WORDS
from railyard.ask.observe.kernels import COMMUNICATION

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from railyard.graph import Record

    Floats = NDArray[np.float64]
    Ints = NDArray[np.int64]
    from collections.abc import Iterator, Mapping


def stalls_of(record: Record, ranks: Ints) -> tuple[Floats, Floats]:
    """float64[steps, ranks], ps that each rank stood still, and that each step took it; nan where that is not known."""
    talks = np.array([label.phase == COMMUNICATION for label in record.labels], np.bool_)[record.what]
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
    """float64[n], ps that the rank stood still before each of its kernels; 0 before the first.

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
class Level:
    """How slow the kernels of one kind are on a rank.

    Attributes:
        excess: As a logarithm, over peers.
        chance: Standard deviation of that by chance.
    """

    excess: float
    chance: float


@dataclass(frozen=True)
class Blame:
    """What is to blame, and the odds for that.

    Attributes:
        kind: accelerator, sequences, experts, host or software.
        what: Kinds of kernels that are slow by it.
        share: Of the posterior.
    """

    kind: str
    what: tuple[str, ...]
    share: float


def blamed(levels: Mapping[str, Level], *, routed: bool) -> Blame:
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


def _guesses(levels: Mapping[str, Level]) -> Iterator[tuple[str, tuple[str, ...], dict[str, float], float]]:
    """Cause, kinds of kernels that it slows, predicted levels, and prior odds."""
    want: dict[str, float] = {}
    for bound in (COMPUTE_BOUND, MEMORY_BOUND):
        mine = [kind for kind in bound if kind in levels]
        want |= dict.fromkeys(mine, _common([levels[kind] for kind in mine]))
    yield ACCELERATOR, tuple(kind for kind, slower in want.items() if slower > 0), want, 0.0
    for kind, level in levels.items():
        cause = _ALONE.get(kind, SOFTWARE)
        yield cause, (kind,), {kind: max(level.excess, 0.0)}, RARELY if cause == SOFTWARE else 0.0


def _common(levels: list[Level]) -> float:
    """The level that several kinds share, 0 at least."""
    if not levels:
        return 0.0
    weights = [1 / (one.chance**2 + (INEXACT * one.excess) ** 2) for one in levels]
    return max(float(np.average([one.excess for one in levels], weights=weights)), 0.0)


def _likelihood(levels: Mapping[str, Level], want: Mapping[str, float]) -> float:
    """Of the measured levels under predicted ones, up to a constant; log."""
    found = 0.0
    for kind, level in levels.items():
        guess = want.get(kind, 0.0)
        sigma = float(np.hypot(level.chance, INEXACT * guess))
        found -= 0.5 * (DEGREES + 1) * float(np.log1p(((level.excess - guess) / sigma) ** 2 / DEGREES)) + float(
            np.log(sigma)
        )
    return found


def by_grids(cause: Blame, levels: Mapping[str, Level], more: Mapping[str, float]) -> tuple[Blame, str]:
    """The cause where slow kernels run with more thread blocks than on peers: more work, and no bad part; and words.

    Args:
        cause: By the times alone.
        levels: By kind of kernel.
        more: By kind, thread blocks over those of peers.
    """
    kind = max(cause.what, key=lambda one: levels[one].excess)
    if np.log(more[kind]) < max(levels[kind].excess / 2, LEAST):
        return cause, ""
    of = EXPERTS if cause.kind == EXPERTS or cause.what == (EXPERT,) else SEQUENCES
    return Blame(of, cause.what, 1.0), f", with {more[kind]:.2f} times as many thread blocks: it is given more work"


def words(levels: Mapping[str, Level], cause: Blame) -> str:
    """Which kernels are slow by how much, and which are not."""
    times = {kind: float(np.exp(levels[kind].excess)) for kind in cause.what}
    slow = {kind: ratio for kind, ratio in times.items() if ratio >= 1 + LEAST} or times
    least, most = min(slow.values()), max(slow.values())
    span = f"{least:.2f}" if most - least < 0.02 else f"{least:.2f} to {most:.2f}"
    if len(slow) == len(levels) > 1:
        return f"kernels of every kind take {span} times as long as the same ones on its peers"
    rest = [f"{WORDS[kind]} {np.exp(one.excess):.2f}" for kind, one in levels.items() if kind not in slow]
    others = f" (others are as usual: {', '.join(rest)})" if rest else ""
    return f"{' and '.join(WORDS[kind] for kind in slow)} take {span} times as long as on its peers{others}"
