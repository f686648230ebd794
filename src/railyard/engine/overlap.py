"""How much the communications of one graph slow each other, from when each of them runs.

Every communication of a run occupies its links from the end of its latency to its end. Links with the same users are
one; those whose users fit together, or come one after another by their stream, are left out. On each of the others the
demand over time is a sum of steps, and what a communication meets there is its mean over the time in which it runs.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from railyard.engine.contention import ROUNDING, satisfied, slowdown
from railyard.graph import Kind, Stream

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from railyard.engine.contention import F
    from railyard.engine.lowering import Lowered
    from railyard.graph import TaskGraph

BATCH = 1 << 22
"""Uses of links that are looked at at once; keeps memory in bounds."""

_ODD = np.uint64(0x9E3779B97F4A7C15)


@dataclass(frozen=True)
class Uses:
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

    def part(self, chosen: NDArray[np.bool_] | NDArray[np.int64]) -> Uses:
        """Some of the rows; links are counted anew."""
        link = self.link[chosen]
        numbered = np.cumsum(np.concatenate([[0], np.diff(link) != 0])[: len(link)], dtype=np.int64)
        return Uses(numbered, self.entity[chosen], self.demand[chosen], self.weight[chosen])


def full_speed_bps(lowered: Lowered, rate_bps: F) -> F:
    """float64[m], volume rate of each entity with the network to itself."""
    entities = lowered.entities
    out = entities.rate_cap_bps.copy()
    used = np.flatnonzero(np.diff(entities.link_ptr) > 0)
    if used.size:
        bound = rate_bps[entities.link_idx] / entities.link_share
        out[used] = np.minimum(out[used], np.minimum.reduceat(bound, entities.link_ptr[used]))
    return out


def contended(graph: TaskGraph, lowered: Lowered, rate_bps: F) -> Uses:
    """The uses of links on which communications of this graph may slow each other.

    Args:
        graph: The tasks.
        lowered: Their communications.
        rate_bps: float64[links].
    """
    entities = lowered.entities
    speed = full_speed_bps(lowered, rate_bps)
    entity = np.repeat(np.arange(len(entities)), np.diff(entities.link_ptr))
    flowing = (entities.volume_bytes > 0) & np.isfinite(speed)
    order = np.argsort(entities.link_idx, kind="stable")
    order = order[flowing[entity[order]] & (rate_bps[entities.link_idx[order]] > 0)]
    link, entity = entities.link_idx[order].astype(np.int64), entity[order]
    on_link = entities.link_share[order]
    uses = Uses(link, entity, speed[entity] * on_link / rate_bps[link], entities.fair_weight[entity] * on_link)
    uses = uses.part(np.arange(len(uses)))
    if not len(uses):
        return uses
    return _folded(uses.part(_may_meet(uses, *_queues(graph, lowered))[uses.link]))


def _queues(graph: TaskGraph, lowered: Lowered) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Of each entity: the queue in which all its tasks stand, or one of its own, and how many may run at a time."""
    tasks = np.flatnonzero(lowered.entity >= 0)
    entity = lowered.entity[tasks]
    count = np.bincount(entity, minlength=len(lowered.entities))
    collective = (graph.kind[tasks] == Kind.COLLECTIVE).astype(np.int64)
    queue = (graph.rank[tasks] * 2 + collective) * 256 + graph.stream[tasks]
    free = graph.stream[tasks] == Stream.FREE
    least, most = np.full(len(count), np.iinfo(np.int64).max), np.full(len(count), -1)
    np.minimum.at(least, entity, np.where(free, -1, queue))
    np.maximum.at(most, entity, queue)
    one = (least == most) & (least >= 0)
    return np.where(one, most, -2 - np.arange(len(count))), np.where(one, 1, count)


def _may_meet(uses: Uses, queue: NDArray[np.int64], at_once: NDArray[np.int64]) -> NDArray[np.bool_]:
    """bool[links]: users from several queues ask for more than the link has, all at once."""
    begin = np.flatnonzero(np.concatenate([[True], np.diff(uses.link) != 0]))
    asked = np.add.reduceat(uses.demand * at_once[uses.entity], begin)
    users = queue[uses.entity]
    several = np.minimum.reduceat(users, begin) != np.maximum.reduceat(users, begin)
    alone_often = np.maximum.reduceat(at_once[uses.entity], begin) > 1
    found: NDArray[np.bool_] = (asked > 1 + ROUNDING) & (several | alone_often)
    return found


def _folded(uses: Uses) -> Uses:
    """One link for all those with the same users."""
    if not len(uses):
        return uses
    begin = np.flatnonzero(np.concatenate([[True], np.diff(uses.link) != 0]))
    mark = (uses.entity.astype(np.uint64) + np.uint64(1)) * _ODD ^ uses.demand.view(np.uint64)
    mark = (mark ^ (mark >> np.uint64(29))) * _ODD
    mark = (mark ^ (mark >> np.uint64(32))) * _ODD
    _, first = np.unique(np.add.reduceat(mark, begin), return_index=True)
    kept = np.zeros(len(begin), np.bool_)
    kept[first] = True
    return uses.part(kept[uses.link])


@dataclass(frozen=True)
class Spans:
    """When entities run; one row a task that flows, sorted by entity.

    Attributes:
        ptr: int64[entities + 1], the rows of each entity.
        start_ps: int64[k], end of the latency.
        end_ps: int64[k], after the start.
    """

    ptr: NDArray[np.int64]
    start_ps: NDArray[np.int64]
    end_ps: NDArray[np.int64]

    @classmethod
    def of(cls, lowered: Lowered, start_ps: NDArray[np.int64], end_ps: NDArray[np.int64]) -> Spans:
        """The spans of a run."""
        entity = lowered.entity
        latency = np.append(lowered.entities.latency_ps, 0)[entity]
        flows = (entity >= 0) & (end_ps > start_ps + latency)
        task = np.flatnonzero(flows)
        task = task[np.argsort(entity[task], kind="stable")]
        ptr = np.concatenate([[0], np.cumsum(np.bincount(entity[task], minlength=len(lowered.entities)))])
        return cls(ptr, start_ps[task] + latency[task], end_ps[task])

    @property
    def length_ps(self) -> NDArray[np.int64]:
        """How long each runs."""
        return self.end_ps - self.start_ps


def stretches(uses: Uses, spans: Spans, *, slowed: bool) -> F:
    """float64[entities]: how many times longer each takes than with the network to itself, meanwhile.

    The mean over its tasks, each as slow as on the worst of its links. Where spans are those of a run without
    contention, a part of a span is a part of the work, and slowdowns are averaged; where work is slowed already, a part
    of a span is a part of the time, and speeds are.

    Args:
        uses: Contended links.
        spans: When entities run.
        slowed: Whether contention is in the spans.
    """
    worst = np.ones(len(spans.start_ps))
    tasks = np.diff(spans.ptr)[uses.entity]
    for begin, end in _batches(uses, tasks):
        part = uses.part(np.arange(begin, end))
        row = np.repeat(np.arange(len(part)), tasks[begin:end])
        within = np.arange(len(row)) - np.repeat(np.cumsum(tasks[begin:end]) - tasks[begin:end], tasks[begin:end])
        span = spans.ptr[part.entity[row]] + within
        np.maximum.at(worst, span, _met(part, row, spans.start_ps[span], spans.end_ps[span], slowed=slowed))
    length = spans.length_ps.astype(np.float64)
    entity = np.repeat(np.arange(len(spans.ptr) - 1), np.diff(spans.ptr))
    time, work = (length, length / worst) if slowed else (length * worst, length)
    total, alone = (np.bincount(entity, each, minlength=len(spans.ptr) - 1) for each in (time, work))
    mean: F = np.divide(total, alone, out=np.ones(len(total)), where=total > alone * (1 + ROUNDING))
    return mean


def _batches(uses: Uses, tasks: NDArray[np.int64]) -> list[tuple[int, int]]:
    """Ranges of rows with whole links, none with many more than `BATCH` tasks."""
    if not len(uses):
        return []
    number = (np.cumsum(tasks) - tasks) // BATCH
    first = np.concatenate([[True], np.diff(uses.link) != 0])
    of_link = number[np.flatnonzero(first)][uses.link]
    cuts = np.flatnonzero(np.concatenate([[True], np.diff(of_link) != 0, [True]]))
    return list(zip(cuts[:-1].tolist(), cuts[1:].tolist(), strict=True))


def _met(
    uses: Uses, row: NDArray[np.int64], start_ps: NDArray[np.int64], end_ps: NDArray[np.int64], *, slowed: bool
) -> F:
    """float64[k]: slowdown of each span on its link."""
    steps = _Steps.of(uses.link[row], start_ps, end_ps)
    demand, weight = uses.demand[row], uses.weight[row]
    pleased = satisfied(demand, weight / np.maximum(steps.mean(steps.level(weight)), weight))
    slow = slowdown(steps.level(np.where(pleased, 0.0, demand)), steps.level(np.where(pleased, demand, 0.0)))
    mean = 1.0 / steps.mean(1.0 / slow) if slowed else steps.mean(slow)
    found: F = np.where(pleased, 1.0, np.maximum(mean, 1.0))
    return found


@dataclass(frozen=True)
class _Steps:
    """Starts and ends of spans in the order of links and time.

    Attributes:
        order: int64[2k], starts (first half) and ends as they come.
        place: int64[2k], where each of them stands in that order.
        wait_ps: int64[2k], time to the next of the same link; 0 for the last.
    """

    order: NDArray[np.int64]
    place: NDArray[np.int64]
    wait_ps: NDArray[np.int64]

    @classmethod
    def of(cls, link: NDArray[np.int64], start_ps: NDArray[np.int64], end_ps: NDArray[np.int64]) -> _Steps:
        time = np.concatenate([start_ps, end_ps])
        links = np.concatenate([link, link])
        order = np.lexsort((time, links))
        place = np.empty(len(order), np.int64)
        place[order] = np.arange(len(order))
        wait = np.append(np.diff(time[order]), 0)
        return cls(order, place, np.where(np.append(np.diff(links[order]), 1) == 0, wait, 0))

    def level(self, amount: F) -> F:
        """float64[2k], the sum of the amounts of those that run, after each step."""
        change = np.concatenate([amount, -amount])[self.order]
        level: F = np.maximum(np.cumsum(change), 0.0)
        return level

    def mean(self, level: F) -> F:
        """float64[k], mean of a level over each span."""
        spans = len(self.order) // 2
        total = np.concatenate([[0.0], np.cumsum(level * self.wait_ps)])
        first, last = self.place[:spans], self.place[spans:]
        length = np.concatenate([[0], np.cumsum(self.wait_ps)])
        mean: F = (total[last] - total[first]) / (length[last] - length[first])
        return mean
