"""The engine `analytic`: communications as long as alone, times what sharing with others costs on average.

What sharing costs in closed form: the slowdown of communications on one link, and how full hashing makes links.

Functions of arrays of any shape. For one graph the core finds slowdowns over time (`overlap`), by the same constants.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial
from statistics import NormalDist
from typing import TYPE_CHECKING, TypeAlias, TypeVar

import numpy as np
from numpy.typing import NDArray

import railyard._core as _core
from railyard.engine.contract import Jitter, Probes, Progress, engines
from railyard.engine.fluid import FluidEngine
from railyard.engine.symmetric import FirstCopyRun, alone_bps, by_class, constant, fingerprints, of_copy, unmet
from railyard.graph import Kind, Stream
from railyard.kit.quantities import ranges

if TYPE_CHECKING:
    from collections.abc import Callable

    from railyard.cluster.links import Entities, LinkTable
    from railyard.engine.fluid import FaultChanges
    from railyard.engine.lowering import LoweredGraph
    from railyard.graph import MergedJobs, Record
    from railyard.graph.symmetry import GraphCopies


F: TypeAlias = NDArray[np.float64]

LEAST = 1e-3
"""Share of a link that those who ask for more than their fair share get at least, whatever others ask for."""

ROUNDING = 1e-6
"""Demand beyond a link's rate that counts as none: sums of many durations are not exact."""

CROWDED = 100.0
"""Flows on a link on average from which on their number counts as normal."""


def slowdown(demand: F) -> F:
    """Slowdown of communications that share a link, 1 or above.

    Args:
        demand: Shares of the link that they take at full speed, summed.
    """
    return np.where(demand > 1.0 + ROUNDING, demand, 1.0)


def fullest(flows: F, links: F, sets: F) -> F:
    r"""Expected number of flows on the fullest link where flows are hashed onto equal links.

    F flows on L links of one set are multinomial. Their maximum is at most m with the probability (Levin, Annals of
    Statistics 9, 1981, 1123)

        P(max <= m) = F! e^F / F^F  P(n <= m)^L  P(W = F)

    where n is Poisson of mean F / L and W the sum of L such n cut off at m, whose distribution is taken by its first
    four moments (Edgeworth). The expectation is the sum over m of 1 - P(max <= m)^sets. Within 1.2 % of draws from 2
    links and 2 flows on.

    Args:
        flows: Flows that are hashed onto one set; need not be integers, fewer than 1 count as 1.
        links: Equal links of a set, at least 1.
        sets: Sets whose fullest link counts, at least 1.

    Returns:
        Of the broadcast shape; at least `flows / links`.
    """
    flows, links, sets = np.broadcast_arrays(*(np.asarray(each, np.float64) for each in (flows, links, sets)))
    rows = np.stack([np.maximum(flows, 1.0).ravel(), links.ravel(), sets.ravel()])
    known, inverse = np.unique(rows, axis=1, return_inverse=True)  # designs are many, networks few
    found = np.empty(known.shape[1])
    crowded = known[0] > CROWDED * known[1]
    found[crowded], found[~crowded] = _fullest_of_many(*known[:, crowded]), _fullest(*known[:, ~crowded])
    return found[inverse.ravel()].reshape(flows.shape)


def _fullest_of_many(flows: F, links: F, sets: F) -> F:
    """Maximum of as many nearly normal numbers as there are links (Blom 1958), with the skewness of Poisson numbers."""
    mean, number = flows / links, np.maximum(links * sets, 2.0)
    inverse = np.vectorize(NormalDist().inv_cdf, otypes=[np.float64])
    z = inverse((number - 0.375) / (number + 0.25))
    return np.where(links > 1, mean + z * np.sqrt(mean * (1 - 1 / links)) + (z**2 - 1) / 6, flows)


def _fullest(flows: F, links: F, sets: F) -> F:
    mean = flows / links
    fewer, expected, below = _TruncatedPoisson.none(mean), np.zeros_like(flows), np.zeros_like(flows)
    terms = np.floor(mean + 12.0 * np.sqrt(mean)) + 20.0  # of each row, so that rows know nothing of each other
    for most in range(int(np.max(terms, initial=0.0))):
        fewer = fewer.and_one_more(most, mean)
        below = np.maximum(below, fewer.at_most(flows, links))
        below = np.where(most >= flows, 1.0, np.where(most * links < flows * (1 - 1e-9), 0.0, below))
        expected = expected + np.where(most < terms, 1.0 - below**sets, 0.0)
    return np.where(links > 1, expected, flows)


@dataclass(frozen=True)
class _TruncatedPoisson:
    """Poisson numbers cut off: the sums of k^i P(n = k) for i from 0 to 4, and the logarithm of the last P(n = k)."""

    sums: tuple[F, ...]
    log_last: F

    @classmethod
    def none(cls, mean: F) -> _TruncatedPoisson:
        return cls((np.zeros_like(mean),) * 5, -mean)

    def and_one_more(self, number: int, mean: F) -> _TruncatedPoisson:
        log_last = self.log_last if number == 0 else self.log_last + np.log(mean / number)
        term = np.exp(log_last)
        sums = tuple(total + float(number) ** power * term for power, total in enumerate(self.sums))
        return _TruncatedPoisson(sums, log_last)

    def at_most(self, flows: F, links: F) -> F:
        """P(max <= m) of one set."""
        share = np.maximum(self.sums[0], 1e-300)
        first, second, third, fourth = (total / share for total in self.sums[1:])
        variance = second - first**2
        spread = np.sqrt(np.maximum(variance, 1e-12))
        skew = (third - 3 * first * second + 2 * first**3) / spread**3 / np.sqrt(links)
        excess = ((fourth - 4 * first * third + 6 * first**2 * second - 3 * first**4) / spread**4 - 3) / links
        x = (flows - links * first) / (np.sqrt(links) * spread)
        correction = (
            1
            + skew / 6 * (x**3 - 3 * x)
            + excess / 24 * (x**4 - 6 * x**2 + 3)
            + skew**2 / 72 * (x**6 - 15 * x**4 + 45 * x**2 - 15)
        )
        log_normal = -(x**2) / 2 - np.log(np.sqrt(2 * np.pi * links) * spread)
        found = np.exp(np.minimum(links * np.log(share) + log_normal + _log_stirling(flows), 50.0)) * correction
        return np.where(variance > 1e-12, np.clip(found, 0.0, 1.0), 0.0)


def _log_stirling(flows: F) -> F:
    """log(F! e^F / F^F), within 0.1 % from 1 on."""
    found: F = np.log(2 * np.pi * flows) / 2 + 1 / (12 * flows) - 1 / (360 * flows**3)
    return found


@dataclass(frozen=True)
class LinkUses:
    """Entities on links; one row an entity on a link, sorted by link.

    Attributes:
        link: int64[n], counted from 0 without gaps.
        entity: int64[n].
        demand: float64[n], share of the link's rate that the entity takes at full speed.
        weight: float64[n], in max-min sharing of that link.
    """

    link: NDArray[np.int64]
    entity: NDArray[np.int64]
    demand: F
    weight: F

    def __len__(self) -> int:
        return len(self.link)

    def part(self, chosen: NDArray[np.bool_] | NDArray[np.int64]) -> LinkUses:
        """Some of the rows, with links renumbered."""
        link = self.link[chosen]
        numbered = np.cumsum(np.concatenate([[0], np.diff(link) != 0])[: len(link)], dtype=np.int64)
        return LinkUses(numbered, self.entity[chosen], self.demand[chosen], self.weight[chosen])


def contended(entities: Entities, queues: Queues, rate_bps: F) -> LinkUses:
    """The uses of links on which communications may slow each other.

    Args:
        entities: The communications.
        queues: The queue of each communication.
        rate_bps: float64[links].
    """
    speed = alone_bps(entities, rate_bps)
    entity = np.repeat(np.arange(len(entities)), np.diff(entities.link_ptr))
    flowing = (entities.volume_bytes > 0) & np.isfinite(speed)
    order = np.argsort(entities.link_idx, kind="stable")
    order = order[flowing[entity[order]] & (rate_bps[entities.link_idx[order]] > 0)]
    link, entity = entities.link_idx[order].astype(np.int64), entity[order]
    on_link = entities.link_share[order]
    uses = LinkUses(link, entity, speed[entity] * on_link / rate_bps[link], entities.fair_weight[entity] * on_link)
    uses = uses.part(np.arange(len(uses)))
    if not len(uses):
        return uses
    return uses.part(_may_meet(uses, queues)[uses.link])


@dataclass(frozen=True, eq=False)
class CopyUses:
    """The contended uses by communications of all copies.

    Attributes:
        symmetry: The copies.
        uses: Entities in the order of `symmetry.requests`.
        request: int64[entities], the different communication of the first copy that each is like.
    """

    symmetry: GraphCopies
    uses: LinkUses
    request: NDArray[np.int64]

    @classmethod
    def of(cls, symmetry: GraphCopies, every: Entities, rate_bps: F) -> CopyUses:
        """The uses of links of the cluster by `every`, the communications of all copies."""
        counts, task = np.diff(symmetry.request_ptr), np.flatnonzero(symmetry.request >= 0)
        key = symmetry.request[task].astype(np.int64) * 256 + symmetry.graph.stream[task]
        pairs, times = np.unique(key, return_counts=True)
        request, stream = np.divmod(pairs, 256)
        row, asked = ranges(symmetry.request_ptr[request], counts[request]), symmetry.requests
        stream, times = (np.repeat(column, counts[request]) for column in (stream, times))
        queues = Queues.of(len(every), row, kind=asked.kind[row], rank=asked.rank[row], stream=stream, times=times)
        return cls(symmetry, contended(every, queues, rate_bps), np.repeat(np.arange(len(counts)), counts))

    @property
    def of_first(self) -> LinkUses:
        """The uses of one link of each class, with the communications of the first copy in place of all.

        Links are of one class when equal communications of any copies ask for the same of them.
        """
        _, first = np.unique(self._classes(self.uses), return_index=True)
        one = self.uses.part(np.isin(self.uses.link, first))
        return replace(one, entity=self.request[one.entity])

    def alike(self, start_ps: NDArray[np.int64], end_ps: NDArray[np.int64]) -> bool:
        """Whether the communications of every copy meet the same; times by task of `symmetry.graph`.

        What all copies share and ran while none of their own communications did need not be alike: `of_first` has every
        class of its links.
        """
        apart = unmet(self.symmetry, start_ps, end_ps)
        uses = self.uses.part(~apart[self.request[self.uses.entity]])
        met = np.zeros(len(self.request), np.uint64)
        np.add.at(met, uses.entity, fingerprints(self._classes(uses)[uses.link], uses.demand))
        return constant(met, self.symmetry.request_ptr)

    def _classes(self, uses: LinkUses) -> NDArray[np.uint64]:
        """uint64[links], equal for links of one class."""
        users = fingerprints(fingerprints(self.request[uses.entity], uses.demand), uses.weight)
        begin = np.flatnonzero(np.diff(uses.link, prepend=-1))
        found: NDArray[np.uint64] = np.add.reduceat(users, begin) if len(begin) else users
        return found


@dataclass(frozen=True)
class Queues:
    """Queues of communications.

    Attributes:
        queue: int64[entities], the queue of all tasks of each, or one of its own.
        at_once: int64[entities], how many of its tasks may run at a time.
    """

    queue: NDArray[np.int64]
    at_once: NDArray[np.int64]

    @classmethod
    def of(
        cls,
        entities: int,
        entity: NDArray[np.integer],
        *,
        kind: NDArray[np.uint8],
        rank: NDArray[np.int32],
        stream: NDArray[np.integer],
        times: NDArray[np.int64] | None = None,
    ) -> Queues:
        """Queues of entities from their tasks; `times`: how many tasks each row stands for, one without it."""
        count = np.bincount(entity, times, entities).astype(np.int64)
        queue = (rank.astype(np.int64) * 2 + (kind == Kind.COLLECTIVE)) * 256 + stream
        free = stream == Stream.FREE
        least, most = np.full(len(count), np.iinfo(np.int64).max), np.full(len(count), -1)
        np.minimum.at(least, entity, np.where(free, -1, queue))
        np.maximum.at(most, entity, queue)
        one = (least == most) & (least >= 0)
        return cls(np.where(one, most, -2 - np.arange(len(count))), np.where(one, 1, count))


def _may_meet(uses: LinkUses, queues: Queues) -> NDArray[np.bool_]:
    """bool[links]: users from several queues ask for more than the link has, all at once."""
    queue, at_once = queues.queue, queues.at_once
    begin = np.flatnonzero(np.concatenate([[True], np.diff(uses.link) != 0]))
    asked = np.add.reduceat(uses.demand * at_once[uses.entity], begin)
    users = queue[uses.entity]
    several = np.minimum.reduceat(users, begin) != np.maximum.reduceat(users, begin)
    alone_often = np.maximum.reduceat(at_once[uses.entity], begin) > 1
    found: NDArray[np.bool_] = (asked > 1 + ROUNDING) & (several | alone_often)
    return found


@dataclass(frozen=True)
class Spans:
    """Runs of entities; one row a task that flows, sorted by entity.

    Attributes:
        ptr: int64[entities + 1], the rows of each entity.
        start_ps: int64[k], end of the latency.
        end_ps: int64[k], after the start.
    """

    ptr: NDArray[np.int64]
    start_ps: NDArray[np.int64]
    end_ps: NDArray[np.int64]

    @classmethod
    def of(cls, lowered: LoweredGraph, start_ps: NDArray[np.int64], end_ps: NDArray[np.int64]) -> Spans:
        """The spans of a run."""
        entity = lowered.entity
        latency = np.append(lowered.entities.latency_ps, 0)[entity]
        flows = (entity >= 0) & (end_ps > start_ps + latency)
        task = np.flatnonzero(flows)
        task = task[np.argsort(entity[task], kind="stable")]
        ptr = np.concatenate([[0], np.cumsum(np.bincount(entity[task], minlength=len(lowered.entities)))])
        return cls(ptr, start_ps[task] + latency[task], end_ps[task])


def stretches(uses: LinkUses, spans: Spans, *, slowed: bool) -> F:
    """float64[entities]: how many times longer each takes than with the network to itself.

    A communication takes the mean over its tasks, each as slow as on the worst of its links. Where spans are those of a
    run without contention, a part of a span is a part of the work, and slowdowns are averaged; where spans contain
    contention, a part of a span is a part of the time, and speeds are averaged.

    Args:
        uses: Contended links.
        spans: When entities run.
        slowed: Whether contention is in the spans.
    """
    found: F = _core.stretches(
        link=uses.link,
        entity=uses.entity,
        demand=uses.demand,
        weight=uses.weight,
        ptr=spans.ptr,
        start_ps=spans.start_ps,
        end_ps=spans.end_ps,
        slowed=slowed,
        least=LEAST,
        rounding=ROUNDING,
    ).stretch
    return found


ROUNDS = 4
"""Runs after the one without contention: loads move with what they slow.

Over 18 draws of six jobs whose steps contention makes up to 2.3 times longer, 4 are within 10 % of `flow` and 3 within
11 %.
"""


@dataclass(frozen=True)
class AnalyticEngine(FluidEngine):
    """Runs a graph without contention, stretches what met, and runs it again."""

    def played(
        self,
        merged: MergedJobs,
        lowered: LoweredGraph,
        links: LinkTable,
        changes: FaultChanges,
        *,
        seed: int,
        probes: Probes,
        jitter: Jitter,
        progress: Progress | None,
    ) -> Record:
        """Runs a graph with the changes of state that faults make; see `FluidEngine.played`."""
        play = partial(
            super().played, merged, links=links, changes=changes, seed=seed, jitter=jitter, progress=progress
        )
        communicates = np.flatnonzero(lowered.entity >= 0)
        kind, rank, stream = (getattr(merged.graph, name)[communicates] for name in ("kind", "rank", "stream"))
        queues = Queues.of(len(lowered.entities), lowered.entity[communicates], kind=kind, rank=rank, stream=stream)
        uses = contended(lowered.entities, queues, links.rate_bps)
        return _settled(
            uses, lowered, probes, lambda stretch, seen: play(_stretched(lowered, links, stretch), probes=seen)
        )

    def first_copy(
        self,
        symmetry: GraphCopies,
        lowered: LoweredGraph,
        links: LinkTable,
        *,
        probes: Probes,
        progress: Callable[[int, int], None],
    ) -> FirstCopyRun | None:
        """Runs the first copy; see `symmetric.first_copy`."""
        found = by_class(symmetry, lowered, links)
        if found is None:
            return None
        met = CopyUses.of(symmetry, found.every.entities, links.rate_bps)

        def play(stretch: F, seen: Probes) -> _core.Result:
            slower = replace(found, alone_bps=found.alone_bps / stretch)
            result = of_copy(symmetry, slower, contention=False, probes=seen, progress=progress)
            if result.cycle or result.stalled or not met.alike(result.start_ps, result.end_ps):
                raise CopiesDifferError
            return result

        try:
            return FirstCopyRun(found, _settled(met.of_first, found.lowered, probes, play))
        except CopiesDifferError:
            return None


class CopiesDifferError(Exception):
    """Copies do not do the same."""


Run = TypeVar("Run", "Record", _core.Result)


def _settled(uses: LinkUses, lowered: LoweredGraph, probes: Probes, play: Callable[[F, Probes], Run]) -> Run:
    """The run in which communications are as slow as those that they meet make them.

    Args:
        uses: Contended links.
        lowered: The communications.
        probes: Samples to record.
        play: Runs all with communications that take so many times longer.
    """
    stretch, before, nothing = np.ones(len(lowered.entities)), None, Probes()
    for _ in range(ROUNDS if len(uses) else 0):
        run = play(stretch, nothing)
        found = stretches(uses, Spans.of(lowered, run.start_ps, run.end_ps), slowed=before is not None)
        if np.all(found == 1.0):
            if not (probes.samples or probes.windows or probes.full):
                return run
            break
        # Who is delayed out of the way of others comes back into it in the next run: halfway, runs settle.
        before = stretch = found if before is None else np.sqrt(found * before)
    return play(stretch, probes)  # what is recorded of links takes a fifth of a run: of the last alone


def _stretched(lowered: LoweredGraph, links: LinkTable, stretch: F) -> LoweredGraph:
    """The same with entities that cannot go faster than their stretch lets them."""
    speed = alone_bps(lowered.entities, links.rate_bps) / stretch
    cap = np.where(stretch > 1.0, speed, lowered.entities.rate_cap_bps)
    return replace(lowered, entities=replace(lowered.entities, rate_cap_bps=cap))


ANALYTIC = engines.add(
    "analytic",
    AnalyticEngine(
        name="analytic",
        summary=(
            "Every communication at the speed it has with the network to itself, times the mean slowdown by those that"
            " it shares links with; order and waiting are exact."
        ),
        contention=False,
        left_out=(
            "the order within contention: a communication is slowed by the mean of what it meets, all its repetitions"
            " alike; what one loses no other gains",
            "other paths around dead links share them as the designed ones do",
            "what a degraded link costs beyond its own communications: their slowdown by others is that at full rate",
            "packets and queues: there is no loss, no pause and no queueing delay",
            "jitter of communications: only computations vary",
        ),
    ),
)
