"""Finds the steps in which a part is slow, by how much, and how far that is from what its peers do by chance.

A series holds how much longer each part took in each step than its peers, as a logarithm. Two spreads describe chance:
that of the steps of one part, and that between the levels of parts (chips differ). A part has a normal level and may
have a slow one: its steps are split in two by least squares where that fits better by more than the choice of the steps
explains, and a step is slow where it is nearer to the slow level. All steps slow is constant, some are intermittent.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import lgamma, log
from typing import TYPE_CHECKING

import numpy as np

from railyard.ask.observe.diagnosis.compute import LEAST, QUARTER_OF_NORMAL, SPREADS
from railyard.ask.observe.diagnosis.peers import BIAS, INEXACT, MAD_TO_SIGMA

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    Floats = NDArray[np.float64]
    Flags = NDArray[np.bool_]
    from railyard.graph import Record

    Ints = NDArray[np.int64]


FLOOR = LEAST / SPREADS
"""Least spread of steps: what makes `SPREADS` of them the least slowdown that is named."""

WORTH = 3
"""How many parts the prior spread counts for, next to the measured one: as many as the fewest peers."""

ALMOST = 2.0
"""Times the length of the closest half, up to which another half lies almost as close: the fastest five of ten normal
values do in 56 % of all draws."""

FEW = (0.0, 0.0, 1.196, 1.495, 1.363, 1.206, 1.200, 1.140, 1.129, 1.107)
"""By how much the median absolute deviation of so few values is too small on average (C. Croux and P. J. Rousseeuw,
"Time-efficient algorithms for two highly robust estimators of scale", 1992); of n more values, n / (n - 0.8)."""


OWN = 1.2
"""Over the number of parts, how much too small their median absolute deviation is: a part that is the median of a step
itself deviates from it by nothing. 1.22, 1.15, 1.08 and 1.05 for 4, 8, 16 and 32 parts of a normal law, by draws."""


@dataclass(frozen=True)
class Episode:
    """A part that is slow.

    Attributes:
        steps: bool[steps], where it is slow.
        level: By how much, as a logarithm, on average over these.
        spreads: How many standard deviations of chance that is.
    """

    steps: Flags
    level: float
    spreads: float


@dataclass(frozen=True)
class ExcessSeries:
    """Excess of parts' times over those of their peers.

    Attributes:
        excess: float64[steps, parts], as a logarithm, over what healthy parts take; nan where that is not known.
        between: Standard deviation between the levels of healthy parts.
        within: Standard deviation between the steps of one part.
    """

    excess: Floats
    between: float
    within: float

    @classmethod
    def of(cls, ratio: Floats, usual: float) -> ExcessSeries:
        """Takes the half of all parts that lie closest together for healthy: measures chance, and sets them to 0.

        Args:
            ratio: float64[steps, parts], as a logarithm, over any typical value of the step.
            usual: Spread between healthy parts, where they are too few to tell.
        """
        level = quantile(ratio, 0.5)
        counted = np.isfinite(ratio).sum(axis=0).max(initial=0)
        within = max((1 + OWN / ratio.shape[1]) * _spread(ratio - level, counted), FLOOR)
        healthy, measured = _healthy(level)
        count = int(np.isfinite(level).sum())
        between = float(np.sqrt((count * measured**2 + WORTH * usual**2) / (count + WORTH)))
        return cls(ratio - quantile(ratio[:, healthy].T, 0.5)[:, None], between, within)

    @classmethod
    def alone(cls, ratio: Floats) -> ExcessSeries:
        """Episodes of one part without peers, against its own other steps: only some slow steps can be seen.

        Args:
            ratio: float64[steps], as a logarithm, over any one value.
        """
        off = (ratio - quantile(ratio[:, None], 0.5))[:, None]
        within = max(_spread(off, int(np.isfinite(off).sum())), FLOOR)
        return cls(off, float("inf"), within)

    def pooled(self, groups: Sequence[Sequence[int]], usual: float) -> ExcessSeries:
        """The same of larger parts, each the mean of its parts.

        Args:
            groups: Parts of each.
            usual: Spread between healthy larger parts, where they are too few to tell.
        """
        found = ExcessSeries.of(np.stack([self.excess[:, list(one)].mean(axis=1) for one in groups], axis=1), usual)
        return replace(found, within=self.within / max(min(map(len, groups)), 1) ** 0.5)

    def chance(self, slow: Flags) -> float:
        """Standard deviation of the mean excess over some steps: against peers, or against the part's other steps."""
        count, rest = int(slow.sum()), int((~slow).sum())
        against = self.within**2 / rest if rest else self.between**2
        return float((self.within**2 / max(count, 1) + against) ** 0.5)

    def over(self, part: int, slow: Flags) -> float:
        """Median excess of a part over some steps, against its other steps where there are any; nan where not known."""
        mine = self.excess[:, part]
        those, rest = mine[slow & np.isfinite(mine)], mine[~slow & np.isfinite(mine)]
        if not len(those):
            return float("nan")
        return float(np.median(those) - (np.median(rest) if len(rest) else 0.0))

    def episode(self, part: int) -> Episode | None:
        """The episode in which a part is slow; None if it is not, by more than chance."""
        mine = self.excess[:, part]
        known = np.isfinite(mine)
        if not known.any():
            return None
        steps = known.copy()
        steps[known] = _slow(mine[known], self.within)
        steps |= ~known & steps[known].all()
        level = self.over(part, steps)
        spreads = level / self.chance(steps[known])
        return Episode(steps, level, spreads) if spreads >= SPREADS else None


def _slow(values: Floats, within: float) -> Flags:
    """bool[n], steps that are nearer to the slow level than to none; all of them where one level fits as well."""
    count = len(values)
    ordered = -np.sort(-values)
    total, squares = np.cumsum(ordered), np.cumsum(ordered**2)
    middle = total / np.arange(1, count + 1) / 2
    spread = within**2 + (INEXACT * max(float(total[-1]) / count, 0.0)) ** 2
    one = _about_mean(total[-1], squares[-1], count)
    best, gain = count, 0.0
    for top in (np.flatnonzero((ordered[:-1] > middle[:-1]) & (ordered[1:] <= middle[:-1])) + 1).tolist():
        two = _about_mean(total[top - 1], squares[top - 1], top)
        two += _about_mean(total[-1] - total[top - 1], squares[-1] - squares[top - 1], count - top)
        won = (one - two) / (2 * spread) - _choices(count, top) - log(count)
        if won > gain:
            best, gain = top, won
    return np.asarray(values >= ordered[best - 1])


def _about_mean(total: float, squares: float, count: int) -> float:
    return float(squares - total**2 / count)


def _choices(count: int, top: int) -> float:
    return lgamma(count + 1) - lgamma(top + 1) - lgamma(count - top + 1)


def _spread(off: Floats, of: int) -> float:
    """Standard deviation of a normal law from deviations, each from the median of so many values."""
    known = np.abs(off[np.isfinite(off)])
    if not len(known) or of < 2:
        return 0.0
    return (FEW[of] if of < len(FEW) else of / (of - 0.8)) * MAD_TO_SIGMA * float(np.median(known))


def _healthy(levels: Floats) -> tuple[NDArray[np.int64], float]:
    """The parts of a half that lie close together, and the standard deviation of healthy ones by the closest half.

    Of several halves that lie almost as close the fastest is taken: a part can only make ranks slower. For few values
    the spread is too small; 1 + 5 / (n - 1) is the factor of P. J. Rousseeuw and A. M. Leroy, "Robust Regression and
    Outlier Detection", 1987, for the same estimate of a residual.
    """
    known = np.flatnonzero(np.isfinite(levels))
    order = known[np.argsort(levels[known], kind="stable")]
    count, half = len(order), max((len(order) + 1) // 2, 1)
    if not count:
        return known, 0.0
    length = levels[order[half - 1 :]] - levels[order[: count - half + 1]]
    first = int(np.flatnonzero(length <= ALMOST * length.min() + FLOOR)[0])
    spread = float(length.min()) / (2 * QUARTER_OF_NORMAL) * (1 + 5 / max(count - 1, 1))
    return order[first : first + half], spread if count > 2 else 0.0


def quantile(values: Floats, share: float) -> Floats:
    """A quantile of each column's known values; nan if none is known.

    Args:
        values: float64[n, columns].
        share: 0 to 1.
    """
    if not len(values):
        return np.full(values.shape[1:], np.nan)
    ordered, known = np.sort(values, axis=0), np.isfinite(values).sum(axis=0)
    place = share * np.maximum(known - 1, 0)
    low = np.floor(place).astype(np.int64)
    high = np.minimum(low + 1, np.maximum(known - 1, 0))
    ends = [np.take_along_axis(ordered, at[None], axis=0)[0] for at in (low, high)]
    return np.where(known > 0, ends[0] + (place - low) * (ends[1] - ends[0]), np.nan)


MOST_SHOWN = 8
"""Ranks that are listed."""


@dataclass(frozen=True)
class TracedGroup:
    """A process group that was traced.

    Attributes:
        compared: Whether it has peers; else it was compared with its own other steps.
        slow: Where it is slow; None where it is not.
        lost_ps: What it loses by that, of every step on average.
    """

    name: str
    kind: str
    members: tuple[int, ...]
    leaves: bool
    compared: bool
    slow: Episode | None
    lost_ps: float


@dataclass(frozen=True)
class SlowNetwork:
    """Slow parts of the network.

    Attributes:
        part: As faults write it; empty where several could be to blame.
    """

    part: str
    kind: str
    episode: Episode
    words: str
    lost_ps: float


def networks(groups: Sequence[TracedGroup], per_host: int, least_ps: float, crowded: set[int]) -> list[SlowNetwork]:
    """Ways into the network that are slow, or groups whose slowness could be that of several.

    Args:
        groups: That were traced.
        per_host: Accelerators of a host; 0 where that is not known.
        least_ps: What a group must lose of a step to be worth a word.
        crowded: Ranks whose experts get more tokens than others: their groups exchange more.
    """
    slow = [one for one in groups if one.slow is not None and one.lost_ps >= least_ps]
    slow = [one for one in slow if one.kind != "all_to_all" or not crowded & set(one.members)]
    healthy = {rank for one in groups if one.compared and one.slow is None and one.leaves for rank in one.members}
    found = [_inside(one, per_host) for one in slow if not one.leaves]
    leaving = [one for one in slow if one.leaves]
    if not leaving:
        return found
    shared = set.intersection(*(set(one.members) for one in leaving)) - healthy
    worst = max(leaving, key=lambda one: one.lost_ps)
    assert worst.slow is not None, "slow groups were chosen"
    lost = sum(one.lost_ps for one in leaving)
    if len(shared) == 1:
        words = f"its way into the network is slow: {_words(worst)}, and no other rank is in all slow groups"
        return [*found, SlowNetwork(f"rank {shared.pop()}", "nic", worst.slow, words, lost)]
    known = sorted(shared or worst.members)
    words = f"the network of ranks {_listed(known)} is slow: {_words(worst)}; traces do not say which of their"
    return [*found, SlowNetwork("", "nic", worst.slow, f"{words} interfaces or cables it is", lost)]


def _inside(group: TracedGroup, per_host: int) -> SlowNetwork:
    assert group.slow is not None, "slow groups were chosen"
    words = f"links between its accelerators are slow: {_words(group)}"
    return SlowNetwork(f"server {group.members[0] // per_host}", "host", group.slow, words, group.lost_ps)


def _words(group: TracedGroup) -> str:
    assert group.slow is not None, "slow groups were chosen"
    against = "in groups like it" if group.compared else "in its other steps"
    kind = group.kind.replace("_", "-")
    return f"{kind} over ranks {_listed(group.members)} takes {np.exp(group.slow.level):.2f} times as long as {against}"


def _listed(ranks: Sequence[int]) -> str:
    shown = ", ".join(map(str, ranks[:MOST_SHOWN]))
    return shown if len(ranks) <= MOST_SHOWN else f"{shown} and {len(ranks) - MOST_SHOWN} more"


def groups_of(record: Record, per_host: int) -> list[TracedGroup]:
    """Groups all of whose members were traced.

    Args:
        record: Of kernels.
        per_host: Accelerators of a host; 0 where that is not known.
    """
    about = record.meta["communicators"]
    members = [tuple(one["ranks"]) for one in about]
    found: list[TracedGroup] = []
    for (kind, _, _, hosts), rows in _classes(record, members, per_host).items():
        groups = list(rows)
        took = np.stack([rows[group] for group in groups], axis=1)
        compared = len(groups) > 1
        for group, of, slow in zip(groups, took.T, _episodes(took, compared=compared), strict=True):
            lost = 0.0 if slow is None else float(np.where(slow.steps, of, 0.0).mean() * (1 - np.exp(-slow.level)))
            found.append(TracedGroup(about[group]["name"], kind, members[group], hosts != 1, compared, slow, lost))
    return found


def _episodes(took: Floats, *, compared: bool) -> list[Episode | None]:
    """The slow episodes of each group.

    Args:
        took: float64[steps, groups], ps.
        compared: Against one another; else each against its own other steps.
    """
    with np.errstate(divide="ignore"):
        log = np.where(took > 0, np.log(took), np.nan)
    if not compared:
        return [ExcessSeries.alone(one).episode(0) for one in log.T]
    series = ExcessSeries.of(log - quantile(log.T, 0.5)[:, None], BIAS)
    return [series.episode(place) for place in range(took.shape[1])]


def _classes(
    record: Record, members: Sequence[tuple[int, ...]], per_host: int
) -> dict[tuple[str, int, int, int], dict[int, Floats]]:
    """float64[steps], ps of all transfers of each step, by kind, bytes, members and hosts, and by group."""
    steps = len(record.meta["steps"])
    step = record.column("step").astype(np.int64)
    group, number = record.column("communicator"), record.column("sequence")
    rows = np.flatnonzero((group >= 0) & (number >= 0) & (step >= 0))
    order = rows[np.lexsort((number[rows], record.what[rows], group[rows]))]
    new = np.zeros(len(order), np.bool_)
    new[:1] = True
    for column in (group, record.what, number):
        new[1:] |= np.diff(column[order]) != 0
    first = np.flatnonzero(new)
    if not len(first):
        return {}
    alone = np.minimum.reduceat(record.end_ps[order] - record.start_ps[order], first)
    size = np.maximum.reduceat(record.size_bytes[order], first)
    there = np.diff(np.r_[first, len(order)])
    kinds = [label.op for label in record.labels]
    found: dict[tuple[str, int, int, int], dict[int, Floats]] = {}
    for at, ps, size_bytes, count in zip(
        order[first].tolist(), alone.tolist(), size.tolist(), there.tolist(), strict=True
    ):
        those = members[group[at]]
        if count != len(those) or count < 2:
            continue
        hosts = len({rank // per_host for rank in those}) if per_host else 0
        key = kinds[record.what[at]], size_bytes, count, hosts
        took = found.setdefault(key, {}).setdefault(int(group[at]), np.zeros(steps))
        took[step[at]] += ps
    return found
