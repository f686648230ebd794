"""Nodes of a resource flavor in its topology: capacity, usage, and what fits."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

import numpy as np

from railyard.work.operate.kueue.objects import HOSTNAME, Assignment, Fits, total
from railyard.work.operate.kueue.room import Domains, barred, score

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from numpy.typing import NDArray

    from railyard.work.operate.kueue.objects import KubernetesNode, Labels, PodSet, Requests, Toleration
    from railyard.work.operate.kueue.room import Path

_PLENTY = 2**31 - 1


class FlavorNodes:
    """The nodes of a flavor before TAS places anything on them.

    Attributes:
        by_node: Whether a leaf is a node.
        room: int64[leafs] by resource, capacity left by pods that Kueue did not place.
    """

    def __init__(
        self,
        levels: Sequence[str],
        nodes: Iterable[KubernetesNode],
        labels: Labels,
        other: Mapping[str, Requests] | None = None,
    ) -> None:
        """Builds the groups.

        Args:
            levels: Labels of the topology.
            nodes: Nodes of the cluster; those that are not ready or lack a label are excluded.
            labels: Labels of the flavor's nodes.
            other: Usage of pods that Kueue did not place, by node.
        """
        self.levels = tuple(levels)
        self.by_node = bool(levels) and levels[-1] == HOSTNAME
        leafs: dict[Path, list[KubernetesNode]] = {}
        for node in nodes:
            if node.ready and _belongs(node, labels, self.levels):
                path = tuple(node.labels[level] for level in self.levels)
                leafs.setdefault(path[-1:] if self.by_node else path, []).append(node)
        self.nodes = list(leafs.values())
        paths = [tuple(group[0].labels[level] for level in self.levels) for group in self.nodes]
        self.domains = Domains.of(paths, len(self.levels))
        self.number = {key: number for number, key in enumerate(leafs)}
        self.tainted = [number for number, group in enumerate(self.nodes) if self.by_node and group[0].taints]
        self.room: dict[str, NDArray[np.int64]] = {}
        for number, group in enumerate(self.nodes):
            for node in group:
                add(self.room, number, node.room, len(self.nodes))
                add(self.room, number, (other or {}).get(node.name, {}), len(self.nodes), -1)


def add(amounts: dict[str, NDArray[np.int64]], leaf: int, requests: Requests, leafs: int, sign: int = 1) -> None:
    """Adds a request to one of `leafs` leafs, or subtracts it."""
    for resource, value in requests.items():
        if resource not in amounts:
            amounts[resource] = np.zeros(leafs, np.int64)
        amounts[resource][leaf] += sign * value


class Flavor:
    """What pods leave free on the nodes of a flavor.

    Attributes:
        tolerations: Tolerations that the flavor adds to its pods.
        taken: int64[leafs] by resource, usage of pods that TAS placed.
    """

    def __init__(self, ground: FlavorNodes, tolerations: tuple[Toleration, ...] = ()) -> None:
        self.ground, self.tolerations = ground, tolerations
        self.levels, self.by_node, self.domains, self.nodes = (
            ground.levels,
            ground.by_node,
            ground.domains,
            ground.nodes,
        )
        self.taken: dict[str, NDArray[np.int64]] = {}

    def leaf(self, values: Path) -> int | None:
        """The leaf of an assignment's domain; None: its nodes are gone or not ready."""
        return self.ground.number.get(values[-1:] if self.by_node else values)

    def values(self, leaf: int) -> Path:
        """The values by which assignments name a leaf."""
        path = self.domains.paths[-1][leaf]
        return path[-1:] if self.by_node else path

    @property
    def named_levels(self) -> tuple[str, ...]:
        """Labels that `values` belong to."""
        return self.levels[-1:] if self.by_node else self.levels

    def take(self, taken: Mapping[Path, Requests], sign: int = 1) -> None:
        """Adds the usage of pods by domain; domains that no longer exist are skipped."""
        for values, requests in taken.items():
            leaf = self.leaf(values)
            if leaf is not None:
                add(self.taken, leaf, requests, len(self.nodes), sign)

    def left(
        self, resources: Iterable[str], assumed: Mapping[Path, Requests], *, empty: bool = False
    ) -> dict[str, NDArray[np.int64]]:
        """int64[leafs] by resource, free capacity.

        Args:
            resources: The resources to report.
            assumed: Usage of other pods of the same workload that are about to be placed.
            empty: Whether to ignore everything that TAS placed.
        """
        none = np.zeros(len(self.nodes), np.int64)
        found = {
            one: self.ground.room.get(one, none) - (none if empty else self.taken.get(one, none)) for one in resources
        }
        for values, requests in assumed.items():
            leaf = self.leaf(values)
            for resource in found.keys() & requests.keys() if leaf is not None else ():
                found[resource][leaf] -= requests[resource]
        return found

    def holds(self, values: Path, taken: Requests) -> bool:
        """Whether a domain has room for all of this usage."""
        leaf, none = self.leaf(values), np.zeros(len(self.nodes), np.int64)
        return leaf is not None and all(
            self.ground.room.get(one, none)[leaf] - self.taken.get(one, none)[leaf] >= value
            for one, value in taken.items()
            if value
        )

    def fits(
        self,
        workers: PodSet,
        leader: PodSet | None,
        assumed: Mapping[Path, Requests],
        within: Path = (),
        *,
        empty: bool = False,
    ) -> tuple[Fits, dict[str, int]]:
        """Pods that fit on each leaf, and how many leafs each reason excludes.

        Args:
            workers: The pods.
            leader: A leader that goes with the first of them.
            assumed: See `left`.
            within: Path of a group; leafs outside do not count.
            empty: See `left`.
        """
        need, first = total(workers.requests, {"pods": 1}), total(leader.requests if leader else {}, {"pods": 1})
        left = self.left({*need, *first}, assumed, empty=empty)
        out, excluded = self._out(workers, within)
        pods, scarce = _counts(need, left)
        for why, number in Counter(scarce[~out & (pods == 0)].tolist()).items():
            excluded[sorted(need)[why]] = excluded.get(sorted(need)[why], 0) + number
        leads = ((_counts(first, left)[0] > 0) & bool(leader)).astype(np.int64)
        led = _counts(need, {one: amounts - leads * first.get(one, 0) for one, amounts in left.items()})[0]
        pods, led, leads = (np.where(out, 0, one) for one in (pods, led, leads))
        liked = np.zeros(len(pods), np.int64)
        if workers.selection.preferred and self.by_node:
            liked[:] = [score(group[0], workers.selection) for group in self.nodes]
        return Fits(pods, led, leads, np.where(out, 0, liked)), excluded

    def _out(self, workers: PodSet, within: Path) -> tuple[NDArray[np.bool_], dict[str, int]]:
        """bool[leafs], leafs excluded whatever room they have, and how many for each reason."""
        out, excluded = np.zeros(len(self.nodes), np.bool_), dict[str, int]()
        chosen = self.by_node and bool(workers.selection.labels or workers.selection.terms)
        for leaf in range(len(self.nodes)) if chosen else self.ground.tainted:
            why = barred(self.nodes[leaf][0], workers.selection, self.tolerations)
            if why:
                out[leaf] = True
                excluded[why] = excluded.get(why, 0) + 1
        if within:
            outside = ~out & ~self.domains.under(within)
            excluded |= {"topologyDomain": int(outside.sum())} if outside.any() else {}
            out |= outside
        return out, excluded

    def assignment(self, pods: NDArray[np.int64]) -> Assignment:
        """Leafs with pods, in the order of their groups' names."""
        order = np.argsort(self.domains.rank[-1])
        domains = [(self.values(int(leaf)), int(pods[leaf])) for leaf in order if pods[leaf]]
        return Assignment(self.named_levels, tuple(domains))

    def path(self, values: Path) -> Path:
        """Names from the widest level to the leaf of an existing domain."""
        leaf = self.leaf(values)
        return values if leaf is None else self.domains.paths[-1][leaf]

    def merged(self, first: Assignment, second: Assignment) -> Assignment:
        """Both assignments, in name order."""
        pods: dict[Path, int] = {}
        for values, count in (*first.domains, *second.domains):
            pods[values] = pods.get(values, 0) + count
        return Assignment(first.levels, tuple(sorted(pods.items(), key=lambda one: self.path(one[0]))))


def usage(assignment: Assignment, requests: Requests) -> dict[Path, Requests]:
    """Usage of pods by domain, including one pod slot each."""
    each = total(requests, {"pods": 1})
    return {values: {key: value * count for key, value in each.items()} for values, count in assignment.domains}


def _belongs(node: KubernetesNode, labels: Labels, levels: tuple[str, ...]) -> bool:
    return all(node.labels.get(key) == value for key, value in labels.items()) and all(
        level in node.labels for level in levels
    )


def _counts(need: Requests, left: Mapping[str, NDArray[np.int64]]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """How many pods fit on each leaf, and the limiting resource as an index in name order."""
    counts = [
        np.clip(left[one] // need[one], 0, _PLENTY) if need[one] else np.full(len(left[one]), _PLENTY)
        for one in sorted(need)
    ]
    scarce = np.argmin(counts, axis=0)
    return np.min(counts, axis=0), scarce
