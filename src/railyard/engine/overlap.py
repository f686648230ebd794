"""How much the communications of one graph slow each other, from when each of them runs.

Every communication of a run occupies its links from the end of its latency to its end. Links whose users fit together,
or run one after another on their stream, are left out. On each other link the demand over time is a step function, and
a communication is slowed by the mean of the slowdown over the time in which it runs: the core finds it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from railyard import _core
from railyard.engine.contention import LEAST, ROUNDING
from railyard.graph import Kind, Stream

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from railyard.engine.contention import F
    from railyard.engine.lowering import Lowered
    from railyard.graph import TaskGraph


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
    return uses.part(_may_meet(uses, *_queues(graph, lowered))[uses.link])


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


def stretches(uses: Uses, spans: Spans, *, slowed: bool) -> F:
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
