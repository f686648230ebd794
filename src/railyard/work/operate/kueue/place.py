"""Places pod sets of a workload on the nodes of a flavor: leaders with workers, replacements, elastic slices."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np

from railyard.work.operate.kueue.flavor import Flavor, usage
from railyard.work.operate.kueue.objects import (
    Assignment,
    Gates,
    Given,
    PodAsk,
    PodSet,
    Refusal,
    Requests,
    TopologyRequest,
    placed_together,
    total,
)
from railyard.work.operate.kueue.search import assign

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from railyard.work.operate.kueue.room import Path, TopologyRoom


@dataclass(frozen=True)
class Wanted:
    """A pod set that needs a place.

    Attributes:
        implied: Whether it gets a place although it did not request a topology.
        previous: Assignment of the old workload slice that this one replaces, smaller or larger.
    """

    pods: PodSet
    implied: bool = False
    previous: Assignment | None = None


Places = dict[str, Assignment | Refusal]
"""The place of each pod set by name, or why it has to wait."""


@dataclass
class PlaceSearch:
    """One placement search on a flavor.

    Attributes:
        assumed: Usage of this workload's pod sets placed so far, by domain; grows.
        empty: Whether to ignore everything that TAS placed.
    """

    flavor: Flavor
    gates: Gates = field(default_factory=Gates)
    assumed: dict[Path, Requests] = field(default_factory=dict)
    empty: bool = False

    def book(self, assignment: Assignment, pods: PodSet) -> None:
        """Adds the usage of an assignment to `assumed`."""
        for values, taken in usage(assignment, pods.requests).items():
            self.assumed[values] = total(self.assumed.get(values, {}), taken)

    def find(
        self, workers: Wanted, leader: PodSet | None = None, within: Path = ()
    ) -> tuple[Assignment, Assignment | None] | Refusal:
        """Finds a place for workers and their leader.

        Args:
            workers: The pods.
            leader: One pod that goes with the first of them.
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


def booked(search: PlaceSearch, places: Sequence[tuple[Wanted | None, Assignment | None]]) -> Places:
    """Assignments by pod set, with their usage added."""
    result: Places = {}
    for one, assignment in places:
        if one is not None and assignment is not None:
            search.book(assignment, one.pods)
            result[one.pods.name] = assignment
    return result


def ask_of(flavor: Flavor, workers: Wanted, leader: PodSet | None, gates: Gates) -> PodAsk | Refusal:
    """The constraints on the flavor's topology, or why they cannot be met."""
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
    return PodAsk(
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
    """Why slice layers are not nested; empty: they are."""
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


def _refusal(room: TopologyRoom, fit: int, *, nodes: int, excluded: dict[str, int]) -> Refusal:
    ask = room.ask
    unit = "slices" if ask.size > 1 else "pods"
    layers = tuple(_layer(room, level, size) for level, size in ask.slices) if len(ask.slices) > 1 else ()
    return Refusal(f"{fit} of {ask.wanted} {unit} fit", fit, ask.wanted, nodes, excluded, layers)


def _layer(room: TopologyRoom, level: int, size: int) -> tuple[int, int]:
    """Slices of a layer that fit in the best group of the requested level, and how many are needed."""
    best = room.sorted(room.ask.level, room.domains.groups(room.ask.level))[0]
    groups = np.array([best])
    for above in range(room.ask.level, level):
        groups = np.concatenate([room.domains.children[above][one] for one in groups])
    return int((room.pods[level][groups] // size).sum()), room.ask.pods // size


def shrunk(wanted: Wanted, count: int, asks: TopologyRequest | None = None) -> Wanted:
    """The same pod set with another number of pods, and optionally another request."""
    pods = replace(wanted.pods, count=count, asks=asks if asks is not None else wanted.pods.asks)
    return Wanted(pods, wanted.implied)


def resized(search: PlaceSearch, workers: Wanted, leader: Wanted | None) -> Places | None:
    """Where the pods of the new slice go; None: a node of the old slice is gone, so all pods are placed again.

    Args:
        search: Search on the flavor.
        workers: The pods, with their current assignment.
        leader: The leader that goes with them, with its current assignment.
    """
    before, led = workers.previous, leader.previous if leader else None
    if before is None or any(_gone(search, one) for one in (before, led) if one):
        return None
    if workers.pods.count > before.pods:
        return _grown(search, workers, leader, before)
    return booked(search, [(workers, first(before, workers.pods.count)), (leader, led)])


def _gone(search: PlaceSearch, assignment: Assignment) -> bool:
    return any(search.flavor.leaf(values) is None for values, _ in assignment.domains)


def first(assignment: Assignment, pods: int) -> Assignment:
    """The first `pods` pods of an assignment."""
    kept = []
    for values, count in assignment.domains:
        if pods > 0:
            kept.append((values, min(count, pods)))
        pods -= count
    return Assignment(assignment.levels, tuple(kept))


def _grown(search: PlaceSearch, workers: Wanted, leader: Wanted | None, before: Assignment) -> Places:
    led = leader.previous if leader else None
    booked(search, [(workers, before), (leader, led)])
    new_leader = leader.pods if leader and led is None else None
    found = search.find(shrunk(workers, workers.pods.count - before.pods), new_leader)
    if isinstance(found, Refusal):
        return {workers.pods.name: found}
    booked(search, [(workers, found[0]), (leader, found[1])])
    result: Places = {workers.pods.name: search.flavor.merged(found[0], before)}
    place = led or found[1]
    if leader and place:
        result[leader.pods.name] = place
    return result


Layer = tuple[str, int]


def replacement(
    search: PlaceSearch, wanted: Wanted, existing: Assignment, unhealthy: str
) -> tuple[Assignment, Assignment] | Refusal:
    """The assignment with the lost pods moved, and the part of it that is new."""
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
        return Refusal(f"no replacement for `{unhealthy}`")
    return flavor.merged(found[0], left), found[0]


def _of_broken(asks: TopologyRequest, lost: int) -> TopologyRequest:
    """Innermost slices that the lost pods fill; none if they fill no whole slice."""
    kept: Layer | None = next((layer for layer in reversed(asks.layers) if lost % layer[1] == 0), None)
    return replace(asks, layers=(kept,) if kept else ())


def _within(search: PlaceSearch, wanted: Wanted, left: Assignment, lost: int) -> Path:
    """Path of the group in which the replacement must lie; empty: any."""
    flavor, asks = search.flavor, wanted.pods.asks or TopologyRequest()
    if not left.domains:
        return ()
    if asks.layers and lost % asks.layers[0][1]:
        broken = next(layer for layer in reversed(asks.layers) if lost % layer[1])
        return _incomplete(search, left, lost, broken if len(asks.layers) > 1 else asks.layers[0])
    if not asks.required or asks.required not in flavor.levels:
        return ()
    return flavor.path(left.domains[0][0])[: flavor.levels.index(asks.required) + 1]


def _incomplete(search: PlaceSearch, left: Assignment, lost: int, layer: Layer) -> Path:
    """The first group of a layer in which the lost pods complete a slice."""
    flavor, (name, size) = search.flavor, layer
    if name not in flavor.levels:
        return ()
    depth, pods = flavor.levels.index(name) + 1, dict[tuple[str, ...], int]()
    for values, count in left.domains:
        path = flavor.path(values)[:depth]
        pods[path] = pods.get(path, 0) + count
    return next((path for path, count in pods.items() if (count + lost) % size == 0), ())


@dataclass(frozen=True)
class RunningPods:
    """A running workload that has lost a node.

    Attributes:
        one_pod: Whether it is a single pod, which cannot move.
    """

    places: Mapping[str, Assignment]
    unhealthy: str
    one_pod: bool = False


def place(search: PlaceSearch, wanted: Sequence[Wanted], running: RunningPods | None = None) -> Places:
    """The place of each pod set by name; stops at the first that has to wait.

    Args:
        search: The placement search.
        wanted: Pod sets in workload order; those of a group are placed together.
        running: The workload, if it is running and a node has to be replaced.
    """
    result: Places = {}
    for group in placed_together(wanted, lambda one: one.pods):
        result |= _replaced(search, group, running) if running else _group(search, group)
        if any(isinstance(one, Refusal) for one in result.values()):
            return result
    return result


def _group(search: PlaceSearch, group: list[Wanted]) -> Places:
    workers, leader = group[0], group[1] if len(group) > 1 else None
    if leader and leader.pods.count > workers.pods.count:
        workers, leader = leader, workers
    if search.gates.elastic and workers.previous:
        found = resized(search, workers, leader)
        if found is not None:
            return found
    placed = search.find(workers, leader.pods if leader else None)
    if isinstance(placed, Refusal):
        return {one.pods.name: placed for one in group}
    return booked(search, [(workers, placed[0]), (leader, placed[1])])


def _replaced(search: PlaceSearch, group: list[Wanted], running: RunningPods) -> Places:
    result: Places = {}
    for one in group:
        existing = running.places.get(one.pods.name)
        if existing is None:
            continue
        if running.one_pod and search.gates.keep_pods:
            result[one.pods.name] = existing
            continue
        found = replacement(search, one, existing, running.unhealthy)
        if isinstance(found, Refusal):
            return {**result, one.pods.name: found}
        result[one.pods.name], instead = found
        search.book(instead, one.pods)
    return result
