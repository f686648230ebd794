"""Runs that are too large: how finely they are sliced, and what a slice says of the whole.

A slice has an n-th of all bytes and times, and its durations are multiplied by n. What it cannot divide is measured for
each communication alone and taken off before.

What a slice adds to a communication: one of each class alone, in the slice and whole, and the difference.

A slice cannot divide the latency of links, nor the queues and the round trips in which senders adapt. They lengthen a
communication by an amount that is nearly the same whoever else is on the network, so it is measured on an empty
network, both ways, and taken off again. Load balancers and windows keep what they have learnt from one message of a
connection to the next, so the first slices, which do not count, warm them up. Where the budget does not hold a
communication whole, two finer slices of it stand for the whole, and what the coarser one of the two adds is taken off
once more.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from railyard.cluster.memory_pool import TIERS as POOL_TIERS
from railyard.engine.flow import FLOW
from railyard.engine.lowering import lower
from railyard.engine.packet.assembly import assemble
from railyard.engine.packet.fabrics import settings_of
from railyard.engine.packet.lowering import Lowering
from railyard.engine.packet.placing import crossing_hops, sent_share
from railyard.engine.packet.plan import Slicing
from railyard.engine.packet.running import run
from railyard.engine.packet.samples import some_tasks, without
from railyard.graph import Kind, MergedJobs, TaskGraph
from railyard.graph.task_graph import OBLIGATORY
from railyard.kit.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from railyard.cluster import Cluster
    from railyard.cluster.links import LinkTable
    from railyard.collective import CollectivePolicy
    from railyard.engine.packet.assembly import LoweredTraffic
    from railyard.engine.packet.placing import PlacedNetwork
    from railyard.engine.packet.plan import TaskFlows
    from railyard.engine.packet.settings import Settings
    from railyard.graph import Record


HOPS = 4.5
"""Links that a packet and its acknowledgement cross, for the estimate."""

COARSER = 4.0
"""The second of two slices that stand for a whole communication is so many times as coarse as the first."""

LEAST_FINER = 2.0
"""A slice that stands for the whole is at least so many times as fine as the run's; else the estimate has to do."""

LEAST_SLICES, MOST_SLICES, FOR_SLICES = 2, 16, 1 / 3
"""Slices of one communication scatter, and senders adapt from one to the next: how often at least and at most the run's
slice is measured, and for about what share of the budget."""

LEAST_HOPS = 3e7
"""Packets times links that measurements may take however small the run's budget: some five seconds of one core.
With fewer, communications of 64 ranks are not measured whole, and their surplus is not in proportion to the factor."""

ALIKE = 20
"""Communications of one kind whose sizes differ by less than one part in so many are measured once."""


@dataclass(frozen=True)
class Measure:
    """How one communication is measured.

    Attributes:
        factor: Of the finer slice that stands for the whole; 1 for the whole itself.
        times: How often the run's own slice is measured, at least twice; the second half counts.
    """

    factor: float
    times: int


@dataclass(frozen=True, eq=False)
class IdleNetwork:
    """Runs single communications on an empty network."""

    cluster: Cluster
    placed: PlacedNetwork
    settings: Settings
    policy: CollectivePolicy

    def surplus_ps(self, graph: TaskGraph, task: int, slicing: Slicing, measure: Measure) -> float:
        """What a slice adds to a task, in the slice's time.

        Args:
            graph: The task's.
            task: Its number.
            slicing: The slice.
            measure: What to run.
        """
        factor, often = measure.factor, measure.times
        fine = replace(slicing, factor=factor, coarser=1.0)
        coarse = replace(fine, factor=COARSER * factor)
        took = self._took_ps(graph, task, [*[slicing] * often, coarse, fine, *([coarse] if factor > 1 else [])])
        slice_ps = float(np.mean([took_ps for took_ps, _ in took[often // 2 : often]]))
        whole_ps, *coarser = [full_ps for _, full_ps in took[often + 1 :]]
        for longer_ps in coarser:
            whole_ps -= (longer_ps - whole_ps) * (factor - 1) / ((COARSER - 1) * factor)
        return slice_ps - whole_ps / slicing.factor

    def _took_ps(self, graph: TaskGraph, task: int, slicings: Sequence[Slicing]) -> list[tuple[float, float]]:
        """Slices of one task, one after another: how long each takes, and the whole task by it, ps."""
        chain = repeated(graph, task, len(slicings))
        lowering = Lowering(
            chain, self.cluster, lower(chain, self.cluster, self.policy), self.policy, chain.duration_ps
        )
        blocks = [
            some_tasks(block, np.array([number]))
            for number, slicing in enumerate(slicings)
            for block in lowering.blocks(self.placed, slicing)
        ]
        traffic = assemble(lowering, self.placed, blocks, slicings[-1], np.zeros(len(chain), np.int64))
        result = run(self.placed.network, traffic.traffic, self.settings)
        took = (result.end_ps[traffic.end] - result.start_ps[traffic.begin]).tolist()
        surplus = traffic.surplus_ps.tolist()
        return [(took[at], slicing.factor * (took[at] - surplus[at])) for at, slicing in enumerate(slicings)]


def repeated(graph: TaskGraph, task: int, times: int) -> TaskGraph:
    """A graph of one task so many times, one after another."""
    one = {name: getattr(graph, name)[task] for name in OBLIGATORY}
    return TaskGraph.of(
        graph.ranks,
        **(one | {"rank": np.full(times, one["rank"])}),
        dep_ptr=np.concatenate([[0], np.arange(times)]),
        dep_idx=np.arange(times - 1, dtype=np.int32),
        labels=graph.labels,
        communicators=graph.communicators,
    )


@dataclass(frozen=True)
class _Group:
    """Blocks that are measured once.

    Attributes:
        blocks: Their numbers, the one that is measured first.
        hops: Packets times links of one whole communication.
        weight: Time of all of them in the estimate, ps.
    """

    blocks: tuple[int, ...]
    hops: float
    weight: float


def measured(
    bench: IdleNetwork, lowering: Lowering, blocks: list[TaskFlows], slicing: Slicing, budget_hops: float
) -> list[TaskFlows]:
    """The blocks with what the slice adds to each, as finely as the budget allows.

    Args:
        bench: Runs one alone.
        lowering: The graph.
        blocks: Flows of its communications.
        slicing: Of the run.
        budget_hops: Packets times links that may go into this.
    """
    if slicing.factor == 1 and slicing.coarser == 1:
        return blocks
    groups = _groups(lowering, blocks, slicing)
    out = list(blocks)
    for group, measure in zip(groups, _measures(groups, budget_hops, slicing), strict=True):
        if 1 < measure.factor > slicing.factor / LEAST_FINER:
            continue
        first = blocks[group.blocks[0]]
        surplus_ps = bench.surplus_ps(lowering.graph, int(first.tasks[0]), slicing, measure)
        for number in group.blocks:
            share = _bytes(blocks[number]) / _bytes(first)
            out[number] = replace(blocks[number], surplus_ps=surplus_ps * share)
    return out


def _bytes(block: TaskFlows) -> float:
    return float(block.size_bytes[: block.rows].sum())


def _groups(lowering: Lowering, blocks: Sequence[TaskFlows], slicing: Slicing) -> list[_Group]:
    entity, volume = lowering.lowered.entity, lowering.lowered.entities
    alike: dict[tuple[str, int, int], list[int]] = {}
    for number, block in enumerate(blocks):
        size = round(float(np.log(max(_bytes(block), 1.0))) * ALIKE)
        alike.setdefault((block.label, block.rows, size), []).append(number)
    groups = []
    for numbers in alike.values():
        moved = _bytes(blocks[numbers[0]]) * slicing.factor
        weight = sum(float(volume.even_ps[entity[blocks[at].tasks[0]]]) * len(blocks[at].tasks) for at in numbers)
        groups.append(_Group(tuple(numbers), moved / slicing.packet_bytes * HOPS, weight))
    return groups


def _measures(groups: Sequence[_Group], budget_hops: float, slicing: Slicing) -> list[Measure]:
    """How finely each group's communication is measured, so that all together fit the budget.

    What is left of the error grows with the factor, and counts by the time that the group takes: the sum over groups
    is least where hops are shared out by the root of a whole one's hops times that time. One that gets half of what it
    takes gets all, which needs no second slice.
    """
    whole = np.array([group.hops for group in groups])
    share = np.sqrt(whole * np.array([group.weight for group in groups]))
    times = _times(whole, share, FOR_SLICES * budget_hops * slicing.factor)
    left = budget_hops - float(times @ whole) / slicing.factor
    factor = np.full(len(groups), np.inf)
    for group in np.argsort(-share / whole):
        given = left * share[group] / share[np.isinf(factor)].sum()
        needed = whole[group] * (1 + 1 / COARSER)
        if given < needed / 2 or left < needed:
            factor[group] = max(whole[group] * (1 + 2 / COARSER) / max(given, 1.0), 1.0)
        else:
            factor[group] = 1.0
        left -= min(needed, given) if factor[group] > 1 else needed
    return [Measure(one, often) for one, often in zip(factor.tolist(), times.tolist(), strict=True)]


def _times(whole: NDArray[np.float64], share: NDArray[np.float64], hops: float) -> NDArray[np.int64]:
    """int64[groups], how often the run's slice of each is measured.

    The scatter of a mean counts by the time that the group takes: the variance of the sum is least where each group is
    measured in proportion to that time over the root of what one measurement costs.

    Args:
        whole: Hops of a whole communication.
        share: Root of these hops times the time that the group takes.
        hops: What all measurements may take together, in hops of whole communications.
    """
    often = (share / whole) ** 2 * np.sqrt(whole)
    often *= hops / float(often @ whole)
    return np.clip(np.rint(often), LEAST_SLICES, MOST_SLICES).astype(np.int64)


MOST_FACTOR = 4096.0
"""Beyond this a slice says nothing: whole collectives would be a packet or two."""

ACKNOWLEDGEMENTS = 0.3
"""Acknowledgements and other control packets for each data packet, for the estimate of hops."""

MODELLED = ("storage read", "storage write", *POOL_TIERS)
"""Tiers that no packet crosses: devices limit the links of their ports, CXL is no network of packets."""


def sliced(
    lowering: Lowering,
    placed: PlacedNetwork,
    whole: Slicing,
    budgets: tuple[float, int],
    skipped: NDArray[np.bool_] | None = None,
) -> tuple[Slicing, list[TaskFlows]]:
    """The finest slicing within the budgets, and its flows.

    Args:
        lowering: Of the graph.
        placed: The network.
        whole: The slicing that leaves everything as it is.
        budgets: Packets times links, and rows of traffic.
        skipped: bool[tasks], communications that are not sent.

    Raises:
        InputError: Nothing fits the budgets.
    """
    most_hops, most_sends = budgets
    hops = _hops(link_load(lowering, skipped), lowering.cluster.links, whole)
    if sent_share(lowering.cluster):
        hops += crossing_hops(lowering.cluster, flow_ps(lowering, whole), whole.packet_bytes)
    slicing = replace(whole, factor=max(1.0, hops / most_hops))
    if slicing.factor > MOST_FACTOR:
        raise InputError(
            f"the run has to simulate {hops:.2g} packet-hops; the budget allows 1 in {slicing.factor:.0f}",
            key="packet.budget_hops",
            found=f"{most_hops:g}",
            allowed=f"at least {hops / MOST_FACTOR:.2g}",
            hint="raise the budget, make the job smaller, or use the engine `flow`",
        )
    for _ in range(8):
        blocks = lowering.blocks(placed, slicing)
        if skipped is not None:
            blocks = without(blocks, skipped)
        sends = sum(len(block.source) for block in blocks)
        if sends <= most_sends:
            return slicing, blocks
        slicing = replace(slicing, coarser=slicing.coarser * max(1.5, 1.1 * sends / most_sends))
    raise InputError(
        f"the communications of the step are at least {sends} sends",
        key="packet.budget_sends",
        found=most_sends,
        allowed=f"at least {sends}",
        hint="raise the budget (about 400 bytes a send), make the job smaller, or use the engine `flow`",
    )


def hops_in(record: Record, cluster: Cluster) -> float:
    """Packets of all kinds times the links that they would cross, of a step that the flow engine ran."""
    settings = settings_of(cluster, cluster.fabric)
    slicing = Slicing(packet_bytes=settings.mtu_bytes - settings.header_bytes)
    return _hops(record.table("links")["bytes"].astype(np.float64), cluster.links, slicing)


def _hops(carried: NDArray[np.float64], links: LinkTable, slicing: Slicing) -> float:
    """Packets of all kinds times the links that they cross, from the bytes of every link: float64[links]."""
    return float(carried[~modelled(links, slicing)].sum()) / slicing.packet_bytes * (1 + ACKNOWLEDGEMENTS)


def modelled(links: LinkTable, slicing: Slicing) -> NDArray[np.bool_]:
    """bool[links], links that no packet crosses: the cost model says what they carry."""
    tiers = MODELLED if slicing.packets else (*MODELLED, "scale-up")
    return np.isin(links.tiers, tiers)[links.tier]


def link_load(lowering: Lowering, skipped: NDArray[np.bool_] | None = None) -> NDArray[np.float64]:
    """float64[links]: bytes that the flow engine would put on each link and bundle, without those of skipped tasks."""
    entities, lowered = lowering.lowered.entities, lowering.lowered
    sent = lowered.entity >= 0 if skipped is None else (lowered.entity >= 0) & ~skipped
    times = np.bincount(lowered.entity[sent], minlength=len(entities))
    entry = np.repeat(np.arange(len(entities)), np.diff(entities.link_ptr))
    moved = (times * entities.volume_bytes)[entry] * entities.link_share
    return np.bincount(entities.link_idx, moved, minlength=len(lowering.cluster.links)).astype(np.float64)


def by_flow(lowering: Lowering) -> Record:
    """The step in the flow engine."""
    lowered, graph = lowering.lowered, lowering.graph
    alone = replace(graph, duration_ps=lowering.duration_ps, loss_index=None, loss=None)
    return FLOW.run(MergedJobs.of(alone), lowered, lowering.cluster.links)


def flow_ps(lowering: Lowering, slicing: Slicing) -> int:
    """How long the slice would take in the flow engine."""
    return round(by_flow(lowering).makespan_ps / slicing.factor)


def fits_budget(lowering: Lowering, whole: Slicing, most_hops: float, skipped: NDArray[np.bool_] | None = None) -> bool:
    """Whether the packets of a step stay within so many packets times links."""
    return _hops(link_load(lowering, skipped), lowering.cluster.links, whole) <= most_hops


def durations_ps(
    graph: TaskGraph, traffic: LoweredTraffic, result: Record, slicing: Slicing, duration_ps: NDArray[np.int64]
) -> NDArray[np.int64]:
    """int64[n], how long each task takes in the whole run."""
    took = (result.end_ps[traffic.end] - result.start_ps[traffic.begin]).astype(np.float64)
    scaled = np.rint(slicing.factor * np.maximum(took - traffic.surplus_ps, 0)).astype(np.int64)
    if graph.delay_ps is not None:
        scaled = np.maximum(scaled - graph.delay_ps, 0)
    return np.where(graph.kind == Kind.COMPUTE, duration_ps, scaled)


def notes(slicing: Slicing) -> list[str]:
    """What a slice leaves out, for people."""
    found = []
    if slicing.factor > 1:
        found.append(
            f"{1 - 1 / slicing.factor:.1%} of the packets: the run simulates a slice, in which bytes and times are "
            f"divided by {slicing.factor:.3g} and multiplied again"
        )
    if slicing.coarser > 1:
        found.append(f"the fine grain of collectives: {math.ceil(slicing.coarser)} times as many steps make one send")
    return found
