"""Modules and cable ends in the ports of a network: where each is, and what it draws."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from railyard.cluster.names import ends_of, sockets

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from railyard.catalog import Cable
    from railyard.cluster.plan import NetworkPlan


TWIN = 2
"""Links of a cage served by one module with two engines and two connectors."""


def plugs(plan: NetworkPlan) -> list[dict[Cable, NDArray[np.int64]]]:
    """For each tier and each part (module, laser or end of a cable), the nodes that hold its pieces.

    An end has a module of its own, or one with the other link of a shared cage. A cage with links of two tiers counts
    for the first of them. Links that share a cable count once.
    """
    both = _shared(plan) if any(run.twin is not None for run in plan.runs) else np.empty(0, np.int64)
    node, tier = ends_of(plan).astype(np.int64), plan.wiring.tier[0::2]
    seen: dict[str, NDArray[np.int64]] = {}
    found: list[dict[Cable, NDArray[np.int64]]] = []
    for index, run in enumerate(plan.runs):
        links = np.flatnonzero(tier == index)[:: run.lanes]
        ends = np.concatenate([links, links + len(tier)])
        parts: dict[Cable, NDArray[np.int64]] = {}
        if run.cable is None:
            pass
        elif run.upper is not None:
            parts = {run.cable: node[links], run.upper: node[links + len(tier)]}
        elif run.twin is None:
            parts = {run.cable: node[ends]}
        else:
            shared = both[ends] >= 0
            cages, first = np.unique(both[ends[shared]], return_index=True)
            before = seen.get(run.twin.name, cages[:0])
            seen[run.twin.name] = np.union1d(before, cages)
            parts = {run.cable: node[ends[~shared]], run.twin: node[ends[shared][first[~np.isin(cages, before)]]]}
        if run.lasers is not None and run.far is not None:
            parts[run.lasers] = np.sort(parts[run.far])[:: run.lasers.ports]
        found.append({part: nodes for part, nodes in parts.items() if len(nodes)})
    return found


def modules(plan: NetworkPlan) -> NDArray[np.object_]:
    """Name of the module at each link end, in the order of `ends_of`; a shared cage has one; empty: a cable."""
    both, tier = _shared(plan), np.tile(plan.wiring.tier[0::2], 2)
    upper = np.arange(len(both)) >= len(both) // 2
    found = np.full(len(both), "", object)
    for index, run in enumerate(plan.runs):
        if run.cable is None or run.far is None or run.cable.kind != "optic":
            continue
        mine = tier == index
        found[mine & ~upper], found[mine & upper] = run.cable.name, run.far.name
        if run.twin is not None:
            found[mine & (both >= 0)] = run.twin.name
    return found


def plugged_w(plan: NetworkPlan) -> NDArray[np.float64]:
    """float64[nodes], most power of what is plugged into each NIC and switch."""
    watts = np.zeros(plan.wiring.nodes)
    for tier in plugs(plan):
        for part, nodes in tier.items():
            np.add.at(watts, nodes, part.power_w.high)
    return watts


def _shared(plan: NetworkPlan) -> NDArray[np.int64]:
    """int64[ends], in the order of `ends_of`: number of a cage shared by two links; -1 elsewhere."""
    node, found = ends_of(plan).astype(np.int64), sockets(plan)
    number = np.where(found.lanes == TWIN, node * (1 + int(found.cage.max(initial=0))) + found.cage, -1)
    ports = plan.wiring.port_of
    if plan.nic_cages * TWIN == ports.shape[1]:
        first = int(number.max(initial=0)) + 1
        pair = np.full(plan.wiring.nodes, -1, np.int64)
        pair[ports] = first + np.arange(ports.size).reshape(ports.shape) // TWIN
        number = np.where(node < plan.wiring.ports, pair[node], number)
    return number


def free_halves(plan: NetworkPlan) -> int:
    """Free halves of shared leaf cages next to a link: a further link needs no module there."""
    node, number = ends_of(plan), _shared(plan)
    leafs = [group for group in plan.wiring.groups if group.tier == 1]
    at_leaf = np.zeros(plan.wiring.nodes, np.bool_)
    for group in leafs:
        at_leaf[group.first : group.first + group.count] = True
    _, taken = np.unique(number[at_leaf[node] & (number >= 0)], return_counts=True)
    return int(np.count_nonzero(taken == 1))
