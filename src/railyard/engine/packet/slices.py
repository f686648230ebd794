"""Runs that are too large: how finely they are sliced, and what a slice says of the whole.

A slice has an n-th of all bytes and times, and its durations are multiplied by n. What it cannot divide is measured for
each communication alone (`alone.py`) and taken off before.
"""

from __future__ import annotations

import math
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from railyard.cluster.memory_pool import TIERS as POOL_TIERS
from railyard.engine.flow import FLOW
from railyard.engine.packet.crossing import crossing_hops, sent_share
from railyard.engine.packet.fabrics import settings_of
from railyard.engine.packet.task_flows import Slicing
from railyard.graph import Kind, Merged
from railyard.kit.errors import InputError

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from railyard.cluster import Cluster
    from railyard.cluster.links import LinkTable
    from railyard.engine.packet.assembly import LoweredTraffic
    from railyard.engine.packet.lowering import Lowering
    from railyard.engine.packet.placing import Placed
    from railyard.engine.packet.task_flows import TaskFlows
    from railyard.graph import Record, TaskGraph

MOST_SLICES = 4096.0
"""Beyond this a slice says nothing: whole collectives would be a packet or two."""

ACKNOWLEDGEMENTS = 0.3
"""Acknowledgements and other control packets for each data packet, for the estimate of hops."""

MODELLED = ("storage read", "storage write", *POOL_TIERS)
"""Tiers that no packet crosses: devices limit the links of their ports, CXL is no network of packets."""


def sliced(
    lowering: Lowering, placed: Placed, whole: Slicing, budgets: tuple[float, int]
) -> tuple[Slicing, list[TaskFlows]]:
    """The finest slicing within the budgets, and its flows.

    Args:
        lowering: Of the graph.
        placed: The network.
        whole: The slicing that leaves everything as it is.
        budgets: Packets times links, and rows of traffic.

    Raises:
        InputError: Nothing fits the budgets.
    """
    most_hops, most_sends = budgets
    hops = _hops(link_load(lowering), lowering.cluster.links, whole)
    if sent_share(lowering.cluster):
        hops += crossing_hops(lowering.cluster, flow_ps(lowering, whole), whole.packet_bytes)
    slicing = replace(whole, factor=max(1.0, hops / most_hops))
    if slicing.factor > MOST_SLICES:
        raise InputError(
            f"the run has {hops:.2g} packet-hops; the budget allows 1 in {slicing.factor:.0f}",
            key="packet.budget_hops",
            found=f"{most_hops:g}",
            allowed=f"at least {hops / MOST_SLICES:.2g}",
            hint="raise the budget, make the job smaller, or use the engine `flow`",
        )
    for _ in range(8):
        blocks = lowering.blocks(placed, slicing)
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


def link_load(lowering: Lowering) -> NDArray[np.float64]:
    """float64[links]: bytes that the flow engine would put on each link and bundle."""
    entities, lowered = lowering.lowered.entities, lowering.lowered
    times = np.bincount(lowered.entity[lowered.entity >= 0], minlength=len(entities))
    entry = np.repeat(np.arange(len(entities)), np.diff(entities.link_ptr))
    moved = (times * entities.volume_bytes)[entry] * entities.link_share
    return np.bincount(entities.link_idx, moved, minlength=len(lowering.cluster.links)).astype(np.float64)


def flow_ps(lowering: Lowering, slicing: Slicing) -> int:
    """How long the slice would take in the flow engine."""
    lowered, graph = lowering.lowered, lowering.graph
    alone = replace(graph, duration_ps=lowering.duration_ps, loss_index=None, loss=None)
    return round(FLOW.run(Merged.of(alone), lowered, lowering.cluster.links).makespan_ps / slicing.factor)


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
