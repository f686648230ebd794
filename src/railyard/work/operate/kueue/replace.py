"""Another node in place of one that was lost: in the group that the request, or a broken slice, allows."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from railyard.work.operate.kueue.ask import Refusal
from railyard.work.operate.kueue.objects import Assignment, TopologyRequest
from railyard.work.operate.kueue.seek import shrunk

if TYPE_CHECKING:
    from railyard.work.operate.kueue.domains import Path
    from railyard.work.operate.kueue.seek import Search, Wanted

Layer = tuple[str, int]


def replacement(
    search: Search, wanted: Wanted, existing: Assignment, unhealthy: str
) -> tuple[Assignment, Assignment] | Refusal:
    """Where the set runs with the lost pods elsewhere, and the part of it that is new.

    Args:
        search: On the flavor.
        wanted: The pod set.
        existing: Where it runs.
        unhealthy: The node that is lost.
    """
    flavor, asks = search.flavor, wanted.pods.asks or TopologyRequest()
    kept = tuple(one for one in existing.domains if one[0][-1] != unhealthy)
    lost = existing.pods - sum(count for _, count in kept)
    left = Assignment(existing.levels, kept)
    gone = next((values for values, _ in kept if flavor.leaf(values) is None), None)
    if gone:
        return Refusal(f"another node of the workload, `{gone[-1]}`, is gone too")
    within = _within(search, wanted, left, lost)
    if asks.layers and within and lost % asks.layers[0][1]:
        asks = _of_broken(asks, lost)
    found = search.find(shrunk(wanted, lost, asks), None, within)
    if isinstance(found, Refusal):
        return found
    if not found[0].domains:
        return Refusal(f"no node in place of `{unhealthy}`")
    return flavor.merged(found[0], left), found[0]


def _of_broken(asks: TopologyRequest, lost: int) -> TopologyRequest:
    """Slices of the innermost layer that the lost pods fill; none, where they fill none."""
    kept: Layer | None = next((layer for layer in reversed(asks.layers) if lost % layer[1] == 0), None)
    return replace(asks, layers=(kept,) if kept else ())


def _within(search: Search, wanted: Wanted, left: Assignment, lost: int) -> Path:
    """Path of the group in which the replacement has to lie; empty: any."""
    flavor, asks = search.flavor, wanted.pods.asks or TopologyRequest()
    if not left.domains:
        return ()
    if asks.layers and lost % asks.layers[0][1]:
        broken = next(layer for layer in reversed(asks.layers) if lost % layer[1])
        return _incomplete(search, left, lost, broken if len(asks.layers) > 1 else asks.layers[0])
    if not asks.required or asks.required not in flavor.levels:
        return ()
    return flavor.path(left.domains[0][0])[: flavor.levels.index(asks.required) + 1]


def _incomplete(search: Search, left: Assignment, lost: int, layer: Layer) -> Path:
    """The first group of a layer in which the lost pods complete a slice."""
    flavor, (name, size) = search.flavor, layer
    if name not in flavor.levels:
        return ()
    depth, pods = flavor.levels.index(name) + 1, dict[tuple[str, ...], int]()
    for values, count in left.domains:
        path = flavor.path(values)[:depth]
        pods[path] = pods.get(path, 0) + count
    return next((path for path, count in pods.items() if (count + lost) % size == 0), ())
