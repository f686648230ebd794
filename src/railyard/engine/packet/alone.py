"""What a slice adds to a communication: one of each class alone, in the slice and whole, and the difference.

A slice cannot divide the latency of links, and a coarser plan fills its pipelines more slowly. Both lengthen a
communication by an amount that is the same whoever else is on the network, so it is measured on an empty one, both
ways, and taken off again.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from railyard.engine.lowering import lower
from railyard.engine.packet.assembly import assemble
from railyard.engine.packet.lowering import Lowering
from railyard.engine.packet.running import run
from railyard.graph import TaskGraph

if TYPE_CHECKING:
    from railyard.cluster import Cluster
    from railyard.collective import CollectivePolicy
    from railyard.engine.packet.placing import Placed
    from railyard.engine.packet.settings import Settings
    from railyard.engine.packet.task_flows import Slicing, TaskFlows

LEAST_FINER = 4.0
"""Where flows are hashed, no estimate knows where a communication's own flows meet: one is measured in a slice of its
own, as fine as the budget allows but so many times as fine as that of the run at least."""

HOPS = 4.5
"""Links that a packet and its acknowledgement cross, for the estimate."""


class IdleNetwork:
    """Runs single communications on an empty network."""

    def __init__(self, cluster: Cluster, placed: Placed, settings: Settings, policy: CollectivePolicy) -> None:
        self.cluster = cluster
        self.placed = placed
        self.settings = settings
        self.policy = policy

    def took_ps(self, graph: TaskGraph, task: int, slicing: Slicing) -> int:
        """How long a task of a graph takes by itself."""
        return self._ran(graph, task, slicing)[0]

    def full_ps(self, graph: TaskGraph, task: int, slicing: Slicing) -> float:
        """How long it would take unsliced, by a slice of it and what the estimate says that this slice adds."""
        took_ps, surplus_ps = self._ran(graph, task, slicing)
        return slicing.factor * (took_ps - surplus_ps)

    def _ran(self, graph: TaskGraph, task: int, slicing: Slicing) -> tuple[int, float]:
        alone = single(graph, task)
        lowering = Lowering(
            alone, self.cluster, lower(alone, self.cluster, self.policy), self.policy, alone.duration_ps
        )
        blocks = lowering.blocks(self.placed, slicing)
        traffic = assemble(lowering, self.placed, blocks, slicing, np.zeros(1, np.int64))
        result = run(self.placed.network, traffic.traffic, self.settings)
        return int(result.end_ps[traffic.end[0]] - result.start_ps[traffic.begin[0]]), blocks[0].surplus_ps


def single(graph: TaskGraph, task: int) -> TaskGraph:
    """A graph of one task."""
    names = ("kind", "rank", "peer", "duration_ps", "size_bytes", "count", "collective", "stream", "label")
    columns = {name: getattr(graph, name)[task : task + 1] for name in names}
    return TaskGraph(
        ranks=graph.ranks,
        dep_ptr=np.zeros(2, np.int64),
        labels=graph.labels,
        communicators=graph.communicators,
        **columns,
    )


def measured(  # noqa: PLR0917
    bench: IdleNetwork,
    lowering: Lowering,
    blocks: list[TaskFlows],
    slicing: Slicing,
    budget_hops: float,
    coarsest: float = 1.0,
) -> list[TaskFlows]:
    """The blocks with what the slice adds to each, as far as the budget goes; those that matter most come first.

    Args:
        bench: Runs one alone.
        lowering: The graph.
        blocks: Flows of its communications.
        slicing: Of the run.
        budget_hops: Packets times links that may go into this.
        coarsest: Where the budget does not hold a communication unsliced, one sliced up to so far stands for it.
    """
    if slicing.factor == 1 and slicing.coarser == 1:
        return blocks
    entity, volume = lowering.lowered.entity, lowering.lowered.entities
    left = budget_hops
    out = list(blocks)
    weight = [float(volume.even_ps[entity[block.tasks[0]]]) * len(block.tasks) for block in blocks]
    for at in sorted(range(len(blocks)), key=lambda index: -weight[index]):
        block = blocks[at]
        moved = float(block.size_bytes[: block.rows].sum()) * slicing.factor
        hops = moved / slicing.packet_bytes * (1 + slicing.factor) / slicing.factor * HOPS
        if hops > left * max(1.0, coarsest):
            continue
        thinner = max(1.0, hops / left)
        left -= hops / thinner
        task = int(block.tasks[0])
        full = replace(slicing, factor=thinner, coarser=1.0)
        took_ps = bench.took_ps(lowering.graph, task, slicing)
        out[at] = replace(block, surplus_ps=took_ps - bench.full_ps(lowering.graph, task, full) / slicing.factor)
    return out
