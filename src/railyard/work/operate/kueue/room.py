"""Room below every group of a topology: pods and slices that fit, with and without a leader."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from railyard.work.operate.kueue.objects import Fits, KubernetesNode, Labels, NodeSelection, PodAsk, Toleration


_STOPS = {"NoSchedule", "NoExecute"}
"""Taint effects that keep pods away; PreferNoSchedule does not."""


def barred(node: KubernetesNode, selection: NodeSelection, tolerations: tuple[Toleration, ...]) -> str:
    """What excludes pods from a node: a taint, `nodeSelector` or `affinity`; empty: nothing.

    Args:
        node: The node.
        selection: Node constraints of the pods.
        tolerations: Tolerations of the flavor, in addition to those of the pods.
    """
    taint = unborne(node.taints, (*selection.tolerations, *tolerations))
    if taint:
        return taint
    if any(node.labels.get(key) != value for key, value in selection.labels.items()):
        return "nodeSelector"
    if selection.terms and not any(_term(term, node.labels, node.name) for term in selection.terms):
        return "affinity"
    return ""


def unborne(taints: tuple[tuple[str, str, str], ...], tolerations: tuple[Toleration, ...]) -> str:
    """The first taint that keeps pods away and that no toleration matches, as `key=value:effect`."""
    for taint in taints:
        if taint[2] in _STOPS and not any(one.bears(taint) for one in tolerations):
            key, value, effect = taint
            return f"{key}={value}:{effect}" if value else f"{key}:{effect}"
    return ""


def score(node: KubernetesNode, selection: NodeSelection) -> int:
    """Sum of the weights of the preferred terms that a node matches."""
    return sum(weight for weight, term in selection.preferred if weight and _term(term, node.labels, node.name))


def matches(labels: Labels, terms: tuple[dict[str, Any], ...], keys: set[str]) -> bool:
    """Whether labels match one of the terms; only expressions on these keys count."""
    kept = [
        {"matchExpressions": [one for one in term.get("matchExpressions", ()) if one["key"] in keys]} for term in terms
    ]
    return any(not term["matchExpressions"] or _term(term, labels, "") for term in kept)


def matches_labels(selector: dict[str, Any], labels: Labels) -> bool:
    """Whether labels match a label selector: `matchLabels` and `matchExpressions`."""
    wanted = selector.get("matchLabels") or {}
    expressions = selector.get("matchExpressions") or ()
    return all(labels.get(key) == value for key, value in wanted.items()) and all(
        _expression(one, labels) for one in expressions
    )


def _term(term: dict[str, Any], labels: Labels, name: str) -> bool:
    expressions = [(one, labels) for one in term.get("matchExpressions") or ()]
    expressions += [(one, {"metadata.name": name}) for one in term.get("matchFields") or ()]
    return bool(expressions) and all(_expression(one, found) for one, found in expressions)


def _expression(one: dict[str, Any], labels: Labels) -> bool:
    values, found = [str(value) for value in one.get("values") or ()], labels.get(one["key"])
    operator = str(one["operator"])
    if operator in ("Exists", "DoesNotExist"):
        return (found is not None) == (operator == "Exists")
    if operator in ("In", "NotIn"):
        return (found in values) == (operator == "In")
    if found is None or not found.lstrip("-").isdigit():
        return False
    return int(found) > int(values[0]) if operator == "Gt" else int(found) < int(values[0])


Path = tuple[str, ...]
"""Names from the widest level down to a group."""


@dataclass(frozen=True, eq=False)
class Domains:
    """Groups of every level, the leafs last.

    Attributes:
        paths: One tuple per level: the path of each group.
        parent: One int32[groups] per level: the group above.
        children: One tuple per level of int64 arrays: the groups below each.
        rank: One int64[groups] per level: position of each in name order.
    """

    paths: tuple[tuple[Path, ...], ...]
    parent: tuple[NDArray[np.int32], ...]
    children: tuple[tuple[NDArray[np.int64], ...], ...]
    rank: tuple[NDArray[np.int64], ...]

    @staticmethod
    def of(paths: Sequence[Path], levels: int) -> Domains:
        """Builds the groups from the path of each leaf; leafs keep their order, and each occurs once."""
        kept, parent, children, rank = [], [], [], []
        above: dict[Path, int] = {(): 0}
        for level in range(1, levels + 1):
            here = {path: number for number, path in enumerate(dict.fromkeys(path[:level] for path in paths))}
            parent.append(np.array([above[path[:-1]] for path in here], np.int32))
            order = {path: place for place, path in enumerate(sorted(here))}
            rank.append(np.array([order[path] for path in here], np.int64))
            kept.append(tuple(here))
            above = here
        for level in range(levels - 1):
            order_by = np.argsort(parent[level + 1], kind="stable")
            cuts = np.cumsum(np.bincount(parent[level + 1], minlength=len(parent[level])))[:-1]
            children.append(tuple(np.split(order_by, cuts)))
        return Domains(tuple(kept), tuple(parent), tuple(children), tuple(rank))

    @property
    def lowest(self) -> int:
        """The level of leafs."""
        return len(self.parent) - 1

    def groups(self, level: int) -> NDArray[np.int64]:
        """int64, all groups of a level."""
        return np.arange(len(self.parent[level]))

    @cached_property
    def leaf_of(self) -> dict[str, int]:
        """Leafs by the last name of their paths, the first of equals."""
        found: dict[str, int] = {}
        for number, path in enumerate(self.paths[-1] if self.paths else ()):
            found.setdefault(path[-1], number)
        return found

    def under(self, path: Path) -> NDArray[np.bool_]:
        """bool[leafs], leafs in the group of this path (all if it is empty)."""
        size = len(path)
        return np.array([leaf[:size] == path for leaf in self.paths[-1]], np.bool_)


Counts = list["NDArray[np.int64]"]
"""One int64[groups] per level."""
_NEVER = np.iinfo(np.int64).max


class TopologyRoom:
    """What fits below every group, and during a placement what each group has been assigned.

    Attributes:
        slice_level: The level at which slices are counted.
        inner: Pods that stay together at each level below the slice level.
        slices: Slices that fit; zero below the slice level.
        led: Pods that fit next to a leader.
        slices_led: Slices that fit next to a leader.
        leaders: 1 if a leader fits.
        score: Preference score of the nodes below.
    """

    def __init__(self, domains: Domains, fits: Fits, ask: PodAsk) -> None:
        self.domains, self.ask = domains, ask
        self.slice_level = ask.slices[0][0] if ask.slices else domains.lowest
        self.inner = ask.inner
        self.pods, self.slices, self.led, self.slices_led, self.leaders, self.score = (
            [np.zeros(len(parent), np.int64) for parent in domains.parent] for _ in range(6)
        )
        for counts, found in (
            (self.pods, fits.pods),
            (self.led, fits.led),
            (self.leaders, fits.leads),
            (self.score, fits.score),
        ):
            counts[-1][:] = found
        self.roll_up()

    def copy(self) -> TopologyRoom:
        """A copy for trials."""
        twin = TopologyRoom.__new__(TopologyRoom)
        twin.domains, twin.ask, twin.slice_level, twin.inner = self.domains, self.ask, self.slice_level, self.inner
        for name in ("pods", "slices", "led", "slices_led", "leaders", "score"):
            setattr(twin, name, [counts.copy() for counts in getattr(self, name)])
        return twin

    def roll_up(self) -> None:
        """Sums leaf counts level by level; pods that do not fill an inner slice do not count."""
        for level in range(self.domains.lowest, -1, -1):
            if level < self.domains.lowest:
                self._sum(level)
            if level == self.slice_level:
                self.slices[level] = self.pods[level] // self.ask.size
                self.slices_led[level] = self.led[level] // self.ask.size

    def _sum(self, level: int) -> None:
        below, size = level + 1, self.inner.get(level + 1, 1)
        parent = self.domains.parent[below]
        pods = self.pods[below] // size * size
        for counts, found in ((self.pods, pods), (self.slices, self.slices[below]), (self.score, self.score[below])):
            counts[level] = np.zeros(len(counts[level]), np.int64)
            np.add.at(counts[level], parent, found)
        if not self.ask.leaders:
            self.led[level], self.slices_led[level] = self.pods[level].copy(), self.slices[level].copy()
            return
        self.leaders[level] = np.zeros(len(self.leaders[level]), np.int64)
        np.maximum.at(self.leaders[level], parent, self.leaders[below])
        cost = pods - self.led[below] // size * size
        slice_cost = self.slices[below] - self.slices_led[below]
        self.led[level] = self._less(level, self.pods[level], cost)
        self.slices_led[level] = self._less(level, self.slices[level], slice_cost)

    def _less(self, level: int, whole: NDArray[np.int64], cost: NDArray[np.int64]) -> NDArray[np.int64]:
        """What is left of a group if the leader goes to the child that loses least; 0: no child can take it."""
        able = np.flatnonzero(self.leaders[level + 1])
        least = np.full(len(whole), _NEVER)
        np.minimum.at(least, self.domains.parent[level + 1][able], cost[able])
        return np.where(least == _NEVER, 0, whole - np.where(least == _NEVER, 0, least))

    def sorted(self, level: int, groups: NDArray[np.int64]) -> list[int]:
        """Groups by most slices (fewest if no level was requested), then fewest leftover pods, then name."""
        return self._sorted(level, groups, self.slices[level][groups], self.pods[level][groups])

    def sorted_led(self, level: int, groups: NDArray[np.int64]) -> list[int]:
        """The same with a leader; groups that can take one come first."""
        if not self.ask.leaders:
            return self.sorted(level, groups)
        return self._sorted(
            level, groups, self.slices_led[level][groups], self.led[level][groups], -self.leaders[level][groups]
        )

    def _sorted(
        self,
        level: int,
        groups: NDArray[np.int64],
        slices: NDArray[np.int64],
        pods: NDArray[np.int64],
        first: NDArray[np.int64] | None = None,
    ) -> list[int]:
        keys = [self.domains.rank[level][groups], pods, -slices if self.ask.tight else slices]
        if self.ask.by_score:
            keys.append(-self.score[level][groups])
        if first is not None:
            keys.append(first)
        found: list[int] = groups[np.lexsort(keys)].tolist()
        return found

    def tightest(self, level: int, order: list[int], room: NDArray[np.int64], wanted: int, leaders: int) -> int:
        """The group with the least sufficient room among the most preferred, the first of equals; else the first."""
        if self.ask.by_score:
            best = self.score[level][order[0]]
            end = next((place for place, group in enumerate(order) if self.score[level][group] != best), len(order))
            order = order[:end]
        able = self.leaders[level]
        fits = [group for group in order if room[group] >= wanted and able[group] >= leaders]
        return min(fits, key=lambda group: int(room[group])) if fits else order[0]
