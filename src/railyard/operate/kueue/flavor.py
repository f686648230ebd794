"""Nodes of a resource flavor in its topology: what they have, what is taken, what fits."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from railyard.operate.kueue.ask import Fits
from railyard.operate.kueue.domains import Domains
from railyard.operate.kueue.nodes import barred, score
from railyard.operate.kueue.objects import HOSTNAME, Assignment
from railyard.operate.kueue.quantity import total

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from numpy.typing import NDArray

    from railyard.operate.kueue.domains import Path
    from railyard.operate.kueue.objects import Labels, Node, PodSet, Toleration
    from railyard.operate.kueue.quantity import Requests

_PLENTY = 2**31 - 1


class Flavor:
    """The nodes of a flavor, and what pods leave of them.

    Attributes:
        levels: Labels of the topology, widest first.
        domains: Its groups.
        nodes: Those of each leaf.
        by_node: Whether a leaf is a node.
        taken: Of leafs, by pods that TAS placed.
    """

    def __init__(
        self,
        levels: Sequence[str],
        nodes: Iterable[Node],
        labels: Labels,
        tolerations: tuple[Toleration, ...] = (),
        other: Mapping[str, Requests] | None = None,
    ) -> None:
        """Makes the groups.

        Args:
            levels: Labels of the topology.
            nodes: Of the cluster; those that are not ready, or lack a label, do not belong here.
            labels: That the flavor's nodes have.
            tolerations: That the flavor gives to its pods.
            other: What pods that Kueue did not place take, by node.
        """
        self.levels, self.tolerations = tuple(levels), tolerations
        self.by_node = bool(levels) and levels[-1] == HOSTNAME
        leafs: dict[Path, list[Node]] = {}
        for node in nodes:
            if node.ready and _belongs(node, labels, self.levels):
                path = tuple(node.labels[level] for level in self.levels)
                leafs.setdefault(path[-1:] if self.by_node else path, []).append(node)
        self.nodes = list(leafs.values())
        paths = [tuple(group[0].labels[level] for level in self.levels) for group in self.nodes]
        self.domains = Domains.of(paths, len(self.levels))
        self._leaf = {key: number for number, key in enumerate(leafs)}
        self._room = [self._free(group, other or {}) for group in self.nodes]
        self.taken: list[Requests] = [{} for _ in self.nodes]

    @staticmethod
    def _free(group: list[Node], other: Mapping[str, Requests]) -> Requests:
        used = [{key: -value for key, value in other.get(node.name, {}).items()} for node in group]
        return total(*(node.room for node in group), *used)

    def leaf(self, values: Path) -> int | None:
        """The leaf of a domain of an assignment; None: its nodes are gone, or not ready."""
        return self._leaf.get(values[-1:] if self.by_node else values)

    def values(self, leaf: int) -> Path:
        """The values by which assignments name a leaf."""
        path = self.domains.paths[-1][leaf]
        return path[-1:] if self.by_node else path

    @property
    def named_levels(self) -> tuple[str, ...]:
        """Labels of `values`."""
        return self.levels[-1:] if self.by_node else self.levels

    def take(self, taken: Mapping[Path, Requests], sign: int = 1) -> None:
        """Books what pods take of domains; domains that are no more are left out."""
        for values, requests in taken.items():
            leaf = self.leaf(values)
            if leaf is not None:
                part = {key: sign * value for key, value in requests.items()}
                self.taken[leaf] = total(self.taken[leaf], part)

    def left(self, leaf: int, assumed: Mapping[Path, Requests], *, empty: bool = False) -> Requests:
        """What is left of a leaf.

        Args:
            leaf: Its number.
            assumed: What other pods of the same workload are about to take.
            empty: Whether to look at it as if TAS had placed nothing.
        """
        used = [] if empty else [self.taken[leaf]]
        used.append(assumed.get(self.values(leaf), {}))
        return total(self._room[leaf], *({key: -value for key, value in one.items()} for one in used))

    def holds(self, values: Path, taken: Requests) -> bool:
        """Whether a domain has room for all of this."""
        leaf = self.leaf(values)
        left = {} if leaf is None else self.left(leaf, {})
        return leaf is not None and all(left.get(key, 0) >= value for key, value in taken.items() if value)

    def fits(
        self,
        workers: PodSet,
        leader: PodSet | None,
        assumed: Mapping[Path, Requests],
        within: Path = (),
        *,
        empty: bool = False,
    ) -> tuple[Fits, dict[str, int]]:
        """What fits on each leaf, and how many leafs are left out by what.

        Args:
            workers: The pods.
            leader: That goes beside the first of them.
            assumed: See `left`.
            within: Path of a group outside of which nothing counts.
            empty: See `left`.
        """
        count = len(self.nodes)
        pods, led, leads, liked = (np.zeros(count, np.int64) for _ in range(4))
        excluded: dict[str, int] = {}
        inside = self.domains.under(within) if within else np.ones(count, np.bool_)
        need = total(workers.requests, {"pods": 1})
        for leaf in range(count):
            why = self._barred(leaf, workers) or ("" if inside[leaf] else "topologyDomain")
            if not why:
                left = self.left(leaf, assumed, empty=empty)
                pods[leaf], scarce = _count(need, left)
                why = "" if pods[leaf] else scarce
                if leader and _count(total(leader.requests, {"pods": 1}), left)[0]:
                    leads[leaf] = 1
                    taken = total(leader.requests, {"pods": 1})
                    left = total(left, {key: -value for key, value in taken.items()})
                led[leaf] = _count(need, left)[0]
                liked[leaf] = score(self.nodes[leaf][0], workers.selection) if self.by_node else 0
            if why:
                excluded[why] = excluded.get(why, 0) + 1
        return Fits(pods, led, leads, liked), excluded

    def _barred(self, leaf: int, workers: PodSet) -> str:
        return barred(self.nodes[leaf][0], workers.selection, self.tolerations) if self.by_node else ""

    def assignment(self, pods: NDArray[np.int64]) -> Assignment:
        """Leafs that have pods, in the order of the names of their groups."""
        order = np.argsort(self.domains.rank[-1])
        domains = [(self.values(int(leaf)), int(pods[leaf])) for leaf in order if pods[leaf]]
        return Assignment(self.named_levels, tuple(domains))

    def path(self, values: Path) -> Path:
        """Names from the widest level to the leaf of a domain that there is."""
        leaf = self.leaf(values)
        return values if leaf is None else self.domains.paths[-1][leaf]

    def merged(self, first: Assignment, second: Assignment) -> Assignment:
        """Both, in the order of names."""
        pods: dict[Path, int] = {}
        for values, count in (*first.domains, *second.domains):
            pods[values] = pods.get(values, 0) + count
        return Assignment(first.levels, tuple(sorted(pods.items(), key=lambda one: self.path(one[0]))))


def usage(assignment: Assignment, requests: Requests) -> dict[Path, Requests]:
    """What pods take of each domain, a place for a pod among it."""
    each = total(requests, {"pods": 1})
    return {values: {key: value * count for key, value in each.items()} for values, count in assignment.domains}


def _belongs(node: Node, labels: Labels, levels: tuple[str, ...]) -> bool:
    return all(node.labels.get(key) == value for key, value in labels.items()) and all(
        level in node.labels for level in levels
    )


def _count(need: Requests, left: Requests) -> tuple[int, str]:
    """How many fit, and the resource that limits them, the first by name of equals."""
    counts = [
        (min(max(left.get(key, 0) // value, 0), _PLENTY) if value else _PLENTY, key) for key, value in need.items()
    ]
    fewest, scarce = min(counts)
    return fewest, scarce
