"""The diagnosis of traces of kernels: what is slow on which ranks, in which steps, and what that says of the part.

All ranks of a collective end together, so that its time names nobody. Three things do. Kernels that take longer than
the same ones elsewhere (`work.py`): an accelerator slows all kinds that need the same resource, uneven sequences slow
attention alone, uneven experts their GEMMs. Time in which nothing runs on a rank though it waits for no
other: its host. And transfers that take longer once all members are there (`episodes.py`): the network.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from railyard.ask.observe.diagnosis import work as blame
from railyard.ask.observe.diagnosis.compute import LEAST, SPREADS
from railyard.ask.observe.diagnosis.episodes import Episode, ExcessSeries, groups_of, networks, quantile
from railyard.ask.observe.diagnosis.verdict import UNPRICED, Diagnosis, sure, suspect
from railyard.ask.observe.diagnosis.work import ALL, CHIPS, PREEMPTED, stalls_of, work_of
from railyard.ask.observe.kernels import ATTENTION, COMMUNICATION, EXPERT, GEMM, WORDS
from railyard.ask.observe.reader import few
from railyard.measure.result.answers import ALL_RANKS, SuspectRow

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from numpy.typing import NDArray

    from railyard.ask.observe.diagnosis.episodes import TracedGroup
    from railyard.ask.observe.diagnosis.verdict import HourlyPrice
    from railyard.ask.observe.diagnosis.work import KernelTimes
    from railyard.graph import Record

    Floats = NDArray[np.float64]
    Ints = NDArray[np.int64]
    Series = dict[str, ExcessSeries]
    Parts = Sequence[Sequence[int]]
    """Each some places of ranks."""

PEERS = 3
"""Fewest other ranks that ran a kernel, or other groups, for a comparison to say which of them is slow."""

STEPS = 3
"""Fewest steps from which a trace can be called healthy: with fewer no step is known to be usual."""

MOST_STEPS = 12
"""Steps that are listed in words."""

COMPARED = 0.5
"""Share of a rank's time in kernels that must have peers for the rank to count as normal."""

UNSEEN = 0.5
"""Share that a claim loses for each share of ranks without files: one of them may be slower still."""


@dataclass(frozen=True)
class _Slow:
    """A rank, or a host, that is slow.

    Attributes:
        cost: Share of the step that it loses, over all steps.
    """

    ranks: tuple[int, ...]
    kind: str
    episode: Episode
    words: str
    cost: float
    sure: float


def diagnose(
    record: Record,
    figures: dict[str, Any],
    per_host: int = 0,
    price: HourlyPrice = UNPRICED,
    missing: Sequence[int] = (),
) -> Diagnosis:
    """Finds the guilty part.

    Args:
        record: Of kernels.
        figures: Its summary.
        per_host: Accelerators of a server; 0 where that is not known.
        price: What the cluster costs: a part costs the share of it that others wait for.
        missing: Ranks of the job that were not traced.
    """
    trace = _Trace.of(record, per_host or _per_host(record.meta["devices"]))
    slow = list(trace.slow())
    answer = Diagnosis(missing_ranks=list(missing))
    answer.verdict = [trace.suspect(one, price) for one in slow]
    answer.verdict += trace.uneven(slow, price)
    groups = groups_of(record, trace.per_host)
    crowded = {rank for one in slow if one.kind == blame.EXPERTS for rank in one.ranks}
    trace.network(groups, crowded, price, answer)
    lacks = list(trace.lacks(missing))
    answer.short = bool(lacks)
    answer.unknown |= len(trace.ranks) <= PEERS or (bool(lacks) and not answer.verdict)
    unseen = len(missing) / (len(missing) + len(trace.ranks))
    for number, one in enumerate(answer.verdict):
        hedged = round(one.confidence * (1 - UNSEEN * unseen), 3)
        answer.verdict[number] = one.model_copy(update={"confidence": hedged})
    answer.verdict = sorted(answer.verdict, key=lambda one: -one.confidence)
    answer.notes += [*lacks, *figures["warnings"]]
    if not answer.verdict and not answer.unknown:
        answer.notes.insert(0, trace.least(compared=any(one.compared for one in groups)))
    return answer


def _per_host(devices: dict[str, int]) -> int:
    """Accelerators of a host: how many device numbers come before they start again; 0 where ranks are not placed so."""
    known = {int(rank): device for rank, device in devices.items() if device >= 0}
    size = max(known.values(), default=-1) + 1
    return size if size > 1 and all(rank % size == device for rank, device in known.items()) else 0


@dataclass(frozen=True)
class _Trace:
    """Contents of a trace.

    Attributes:
        ranks: int64[r], that were traced.
        per_host: Accelerators of a host; 0 where that is not known.
        still: float64[steps, r], share of a usual step for which each rank stalled.
    """

    record: Record
    ranks: Ints
    per_host: int
    work: KernelTimes
    series: dict[str, ExcessSeries]
    still: Floats
    step_ps: float

    @classmethod
    def of(cls, record: Record, per_host: int) -> _Trace:
        ranks = np.unique(record.who).astype(np.int64)
        work = work_of(record, ranks, min(PEERS, max(len(ranks) - 1, 1)))
        still, took = stalls_of(record, ranks)
        step = float(np.median(took[np.isfinite(took)])) if np.isfinite(took).any() else 1.0
        series = {kind: work.series(kind) for kind in work.spent}
        return cls(record, ranks, per_host, work, series, still / max(step, 1.0), step)

    @property
    def steps(self) -> list[int]:
        """Numbers of the steps."""
        return [int(number) for number in self.record.meta["steps"]]

    def share(self, kind: str) -> float:
        """Share of a usual step that kernels of a kind take if nothing is wrong."""
        return self.work.usual_ps[kind] / self.step_ps

    def cost(self, kind: str, episode: Episode, level: float) -> float:
        """Share of the step, over all steps, that kernels of a kind lose."""
        return self.share(kind) * float(np.expm1(level)) * float(episode.steps.mean())

    @property
    def hosts(self) -> list[list[int]]:
        """Places of the ranks of hosts that were traced as a whole, where there are several."""
        found: dict[int, list[int]] = {}
        for place, rank in enumerate(self.ranks.tolist()):
            found.setdefault(rank // max(self.per_host, 1), []).append(place)
        whole = [places for places in found.values() if len(places) == self.per_host > 1]
        return whole if len(found) > 1 else []

    def slow(self) -> Iterator[_Slow]:
        """Hosts and ranks whose kernels are slow, or that stall; in single steps a stall happens by accident."""
        yield from self._slow(self.series, self._slow_kernels, blame.ACCELERATOR)
        if len(self.steps) >= STEPS:
            yield from self._slow({ALL: self._stalls()}, self._slow_hosts, blame.HOST)

    def _slow(self, series: Series, slow: Callable[[Series, Parts], Iterator[_Slow]], kind: str) -> Iterator[_Slow]:
        """Parts that are slow: hosts, of one kind and on every rank, and ranks of other hosts."""
        taken = set[int]()
        if self.hosts:
            pooled = {name: one.pooled(self.hosts, CHIPS) for name, one in series.items()}
            for one in slow(pooled, self.hosts):
                if one.kind == kind and self._alike(series[ALL], one):
                    taken |= set(one.ranks)
                    yield one
        for one in slow(series, [[place] for place in range(len(self.ranks))]):
            if not taken & set(one.ranks):
                yield one

    def _slow_kernels(self, series: Series, parts: Parts) -> Iterator[_Slow]:
        """Parts whose kernels are slow in a series of theirs by more than chance, and enough to matter."""
        routed = any(label.op == "all_to_all" for label in self.record.labels)
        for number, places in enumerate(parts):
            found = {kind: one.episode(number) for kind, one in series.items()}
            known = [one for kind, one in found.items() if one is not None and self._matters(kind, places, one)]
            if not known:
                continue
            episode = max(known, key=lambda one: one.spreads)
            levels = {
                kind: blame.BlameLevel(one.over(number, episode.steps), one.chance(episode.steps))
                for kind, one in series.items()
                if kind != ALL and self.share(kind) >= LEAST and np.isfinite(one.over(number, episode.steps))
            }
            if not levels:
                continue
            more = {kind: float(self.work.blocks[kind][episode.steps][:, places].mean()) for kind in levels}
            cause, grids = blame.by_grids(blame.blamed(levels, routed=routed), levels, more)
            cost = sum(self.cost(kind, episode, levels[kind].excess) for kind in cause.what)
            confidence = self.hedged(sure(episode.spreads, SPREADS) * cause.share)
            words = blame.words(levels, cause) + grids
            yield _Slow(self._ranks(places), cause.kind, episode, words, cost, confidence)

    def _matters(self, kind: str, places: Sequence[int], episode: Episode) -> bool:
        """Whether it costs enough, in more kernels than may be slow by accident."""
        many = self.work.count[kind][episode.steps][:, places].sum() > PREEMPTED
        return bool(many) and self.cost(kind, episode, episode.level) >= LEAST

    def _alike(self, series: ExcessSeries, one: _Slow) -> bool:
        """Whether every rank of a host is slow, half as much as all together at least."""
        places = np.searchsorted(self.ranks, one.ranks).tolist()
        return all(series.over(place, one.episode.steps) >= one.episode.level / 2 for place in places)

    def _ranks(self, places: Sequence[int]) -> tuple[int, ...]:
        return tuple(int(self.ranks[place]) for place in places)

    def _stalls(self) -> ExcessSeries:
        """How long ranks stalled, relative to those with the same work if these are enough."""
        groups = [group for group in self.work.groups if len(group) > PEERS]
        if sum(map(len, groups)) < len(self.ranks):
            return ExcessSeries.of(self.still, CHIPS)
        found = [(group, ExcessSeries.of(self.still[:, group], CHIPS)) for group in groups]
        excess = np.empty_like(self.still)
        for group, one in found:
            excess[:, group] = one.excess
        return ExcessSeries(excess, max(one.between for _, one in found), max(one.within for _, one in found))

    def _slow_hosts(self, series: Series, parts: Parts) -> Iterator[_Slow]:
        """Parts that pause: one pause is an accident as often as not, two are one half as often, and so on."""
        for number, places in enumerate(parts):
            if (episode := series[ALL].episode(number)) is None:
                continue
            accident, cost = 0.5 ** float(episode.steps.sum()), episode.level * float(episode.steps.mean())
            if cost < LEAST * (1 + 2 * accident):
                continue
            lost = _time(episode.level * self.step_ps)
            words = f"nothing runs for {lost} of a step though no other rank is late: it waits for its host"
            confidence = self.hedged(sure(episode.spreads, SPREADS) * (1 - accident))
            yield _Slow(self._ranks(places), blame.HOST, episode, f"{words} (data, launches, locks)", cost, confidence)

    def hedged(self, confidence: float) -> float:
        """Two ranks say that one is slower, and not which of them is as it should be."""
        return confidence if len(self.ranks) > PEERS else confidence / 2

    def suspect(self, one: _Slow, price: HourlyPrice) -> SuspectRow:
        usd, several = price.of(one.cost), len(one.ranks) > 1
        if not several:
            return self.named(f"rank {one.ranks[0]}", one.kind, one.episode, one.words, one.sure, usd)
        words = f"on all of its {len(one.ranks)} ranks {one.words}"
        return self.named(f"server {one.ranks[0] // self.per_host}", blame.HOST, one.episode, words, one.sure, usd)

    def named(  # noqa: PLR0917 - a row of the verdict
        self, part: str, kind: str, episode: Episode, words: str, confidence: float, usd: float | None
    ) -> SuspectRow:
        """A row of the verdict, with its steps."""
        slow = self._numbers(episode)
        pattern: Literal["constant", "intermittent"] = "constant" if len(slow) == len(self.steps) else "intermittent"
        return suspect(part, kind, round(confidence, 3), f"{words}, {_when(slow, self.steps)}", usd, pattern, slow)

    def uneven(self, slow: Sequence[_Slow], price: HourlyPrice) -> Iterator[SuspectRow]:
        """Work of one kind that is spread unevenly, on other ranks in every step, so that no rank is to blame."""
        usual, named = self.series.get(GEMM), {one.kind for one in slow}
        if len(self.steps) < STEPS:
            return
        rest = ~np.isin(self.ranks, [rank for one in slow for rank in one.ranks])
        for kind, cause in ((ATTENTION, blame.SEQUENCES), (EXPERT, blame.EXPERTS)):
            series = self.series.get(kind)
            if series is None or usual is None or cause in named:
                continue
            longer, chance = _longest(series, rest), _longest(usual, rest)
            lost = self.share(kind) * np.expm1(longer)
            spreads = SPREADS * float(np.median(longer) / max(np.median(chance), 1e-9)) / 2
            if lost.mean() < LEAST or spreads < SPREADS:
                continue
            times = 1 + lost.mean() / self.share(kind)
            words = f"{WORDS[kind]} of the slowest rank of a step take {times:.2f} times as long as the median rank's,"
            words += " on another rank in every step"
            every = Episode(lost >= LEAST, 0.0, spreads)
            yield self.named(ALL_RANKS, cause, every, words, sure(spreads, SPREADS), price.of(float(lost.mean())))

    def network(self, groups: Sequence[TracedGroup], crowded: set[int], price: HourlyPrice, answer: Diagnosis) -> None:
        """Names the rank whose way into the network is slow, or says which groups are slow."""
        for one in networks(groups, self.per_host, LEAST * self.step_ps, crowded):
            words = f"{one.words}, {_when(self._numbers(one.episode), self.steps)}"
            if not one.part:
                answer.unknown = True
                answer.notes.insert(0, words)
                continue
            usd = price.of(one.lost_ps / self.step_ps)
            confidence = self.hedged(sure(one.episode.spreads, SPREADS))
            answer.verdict.append(self.named(one.part, one.kind, one.episode, one.words, confidence, usd))

    def _numbers(self, episode: Episode) -> tuple[int, ...]:
        return tuple(number for number, slow in zip(self.steps, episode.steps.tolist(), strict=True) if slow)

    def lacks(self, missing: Sequence[int]) -> Iterator[str]:
        if len(self.ranks) <= PEERS:
            yield f"traces of {_many(len(self.ranks), 'rank')}: too few to tell which rank is healthy"
        if len(self.steps) < STEPS:
            yield f"traces of {_many(len(self.steps), 'step')}: too few to tell what is usual"
        talks = [label for label in self.record.labels if label.phase == COMMUNICATION]
        if not talks and (len(self.ranks) > 1 or missing):
            yield "no collective was traced: nothing is known of the network and of waiting"
        if missing:
            yield f"no trace of {_many(len(missing), 'rank')}: one of them may be slower"
        other = self.ranks[self.work.compared < COMPARED].tolist()
        if other and len(self.ranks) > PEERS:
            ranks = f"rank{'' if len(other) == 1 else 's'} {few(other)}"
            yield f"the pace of {ranks} is unknown: too few other ranks run the same kernels as often"

    def least(self, *, compared: bool) -> str:
        """The least slowdown that would have been seen, in words."""
        chance = max([one.between for one in self.series.values()], default=0.0)
        seen = max(LEAST, SPREADS * chance)
        count = f"{len(self.ranks)} ranks in {len(self.steps)} steps"
        words = f"{count} were compared: a rank slower by {seen:.1%} or more would have been named"
        network = "; network speed was not judged: no two process groups can be compared"
        return words + ("" if compared else network)


def _longest(series: ExcessSeries, rest: NDArray[np.bool_]) -> Floats:
    """float64[steps], how much longer the slowest of some ranks took than their median, as a logarithm."""
    ranks = series.excess.T[rest]
    return np.nan_to_num(quantile(ranks, 1.0) - quantile(ranks, 0.5))


def _when(slow: Sequence[int], every: Sequence[int]) -> str:
    """Steps in words."""
    if len(every) < 2:
        return "in the one step that was traced"
    if len(slow) == len(every):
        return f"in all {len(every)} steps"
    first = list(every).index(slow[0]) if slow else 0
    if len(slow) > 2 and list(slow) == list(every[first : first + len(slow)]):
        listed = f"{slow[0]} to {slow[-1]}"
    elif len(slow) > MOST_STEPS:
        listed = f"{', '.join(map(str, slow[:MOST_STEPS]))} and more"
    else:
        listed = " and ".join(one for one in (", ".join(map(str, slow[:-1])), *map(str, slow[-1:])) if one)
    return f"in {len(slow)} of {len(every)} steps ({listed}, counted from {every[0]} to {every[-1]})"


def _many(count: int, what: str) -> str:
    return f"{count} {what}{'' if count == 1 else 's'}"


def _time(ps: float) -> str:
    return f"{ps * 1e-9:.3g} ms" if ps < 1e12 else f"{ps * 1e-12:.3g} s"
