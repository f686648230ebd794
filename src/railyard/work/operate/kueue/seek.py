"""The search for places of one pod set, and its leader, on the nodes of a flavor."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np

from railyard.work.operate.kueue.ask import Ask, Given, Refusal, Requests, total
from railyard.work.operate.kueue.flavor import Flavor, usage
from railyard.work.operate.kueue.objects import Assignment, Gates, PodSet, TopologyRequest
from railyard.work.operate.kueue.search import assign

if TYPE_CHECKING:
    from collections.abc import Sequence

    from railyard.work.operate.kueue.domains import Path
    from railyard.work.operate.kueue.room import Room


@dataclass(frozen=True)
class Wanted:
    """A pod set that wants a place.

    Attributes:
        pods: The set.
        implied: Whether a place is sought though nothing was asked of the topology.
        previous: Where the smaller or larger slice of the workload runs that this one takes over from.
    """

    pods: PodSet
    implied: bool = False
    previous: Assignment | None = None


@dataclass
class Search:
    """One search on a flavor.

    Attributes:
        flavor: The nodes.
        gates: Of Kueue.
        assumed: What the pod sets of this workload are about to take, by domain; grows.
        empty: Whether to look as if TAS had placed nothing.
    """

    flavor: Flavor
    gates: Gates = field(default_factory=Gates)
    assumed: dict[Path, Requests] = field(default_factory=dict)
    empty: bool = False

    def book(self, assignment: Assignment, pods: PodSet) -> None:
        """Counts what pods are about to take."""
        for values, taken in usage(assignment, pods.requests).items():
            self.assumed[values] = total(self.assumed.get(values, {}), taken)

    def find(
        self, workers: Wanted, leader: PodSet | None = None, within: Path = ()
    ) -> tuple[Assignment, Assignment | None] | Refusal:
        """Where workers and their leader go.

        Args:
            workers: The pods.
            leader: One pod that goes beside the first of them.
            within: Path of a group to stay in.
        """
        ask = ask_of(self.flavor, workers, leader, self.gates)
        if isinstance(ask, Refusal):
            return ask
        fits, excluded = self.flavor.fits(workers.pods, leader, self.assumed, within, empty=self.empty)
        if not self.flavor.nodes:
            return Refusal("no nodes of the flavor are ready and have all labels of the topology")
        found = assign(self.flavor.domains, fits, ask)
        if isinstance(found, Given):
            led = self.flavor.assignment(found.leaders) if leader else None
            return self.flavor.assignment(found.pods), led
        return _refusal(*found, nodes=len(self.flavor.nodes), excluded=excluded)


def booked(
    search: Search, places: Sequence[tuple[Wanted | None, Assignment | None]]
) -> dict[str, Assignment | Refusal]:
    """The places by name, counted as taken."""
    result: dict[str, Assignment | Refusal] = {}
    for one, assignment in places:
        if one is not None and assignment is not None:
            search.book(assignment, one.pods)
            result[one.pods.name] = assignment
    return result


def ask_of(flavor: Flavor, workers: Wanted, leader: PodSet | None, gates: Gates) -> Ask | Refusal:
    """What is asked of the flavor's topology, or why it cannot be."""
    asks, levels = workers.pods.asks or TopologyRequest(), flavor.levels
    layers = asks.layers
    if any(size <= 0 for _, size in layers[:1]):
        return Refusal("slices are asked for without their size")
    key = asks.required or asks.preferred or _level_of(asks, workers, levels)
    if not key:
        return Refusal("no level of the topology is asked for")
    unknown = next((name for name in (key, *(name for name, _ in layers)) if name not in levels), None)
    if unknown:
        return Refusal(f"the topology has no level `{unknown}`")
    slices = tuple((levels.index(name), size) for name, size in layers)
    level = levels.index(key)
    why = _unnested(levels, level, slices)
    if why:
        return Refusal(why)
    anywhere = asks.unconstrained or workers.implied or asks.slices_only
    return Ask(
        workers.pods.count,
        level,
        bool(asks.required),
        anywhere,
        slices,
        int(leader is not None),
        gates.mixed,
        gates.balanced,
        gates.by_score,
    )


def _unnested(levels: tuple[str, ...], level: int, slices: tuple[tuple[int, int], ...]) -> str:
    """Why slices do not lie within one another; empty: they do."""
    if slices and level > slices[0][0]:
        return f"slices at `{levels[slices[0][0]]}` are wider than the level `{levels[level]}` that holds them"
    for (above, larger), (below, smaller) in pairwise(slices):
        if below <= above:
            return f"slices at `{levels[below]}` are not narrower than those at `{levels[above]}`"
        if larger % smaller:
            return f"slices of {larger} pods cannot be made of slices of {smaller}"
    return ""


def _level_of(asks: TopologyRequest, workers: Wanted, levels: tuple[str, ...]) -> str:
    if asks.layers:
        return levels[0]
    return levels[-1] if asks.unconstrained or workers.implied else ""


def _refusal(room: Room, fit: int, *, nodes: int, excluded: dict[str, int]) -> Refusal:
    ask = room.ask
    unit = "slices" if ask.size > 1 else "pods"
    layers = tuple(_layer(room, level, size) for level, size in ask.slices) if len(ask.slices) > 1 else ()
    return Refusal(f"{fit} of {ask.wanted} {unit} fit", fit, ask.wanted, nodes, excluded, layers)


def _layer(room: Room, level: int, size: int) -> tuple[int, int]:
    """Slices of a layer that fit in the best group of the level asked for, and how many are wanted."""
    best = room.sorted(room.ask.level, room.domains.groups(room.ask.level))[0]
    groups = np.array([best])
    for above in range(room.ask.level, level):
        groups = np.concatenate([room.domains.children[above][one] for one in groups])
    return int((room.pods[level][groups] // size).sum()), room.ask.pods // size


def shrunk(wanted: Wanted, count: int, asks: TopologyRequest | None = None) -> Wanted:
    """The same with another number of pods, and perhaps another request."""
    pods = replace(wanted.pods, count=count, asks=asks if asks is not None else wanted.pods.asks)
    return Wanted(pods, wanted.implied)
