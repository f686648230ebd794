"""Objects of Kubernetes and Kueue that decide admission, and the topology requests and assignments of pods."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from decimal import ROUND_CEILING, Decimal
from itertools import pairwise
from typing import TYPE_CHECKING, Any, TypeVar

from railyard.kit.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    import numpy as np
    from numpy.typing import NDArray

T = TypeVar("T")

Requests = dict[str, int]
"""Amounts by resource; CPU in millicores."""
_TEXT = re.compile(r"([+-]?\d+(?:\.\d*)?|[+-]?\.\d+)(?:(Ki|Mi|Gi|Ti|Pi|Ei|n|u|m|k|M|G|T|P|E)|[eE]([+-]?\d+))?")
_FACTOR = {
    **{unit: Decimal(1024) ** power for power, unit in enumerate(("Ki", "Mi", "Gi", "Ti", "Pi", "Ei"), 1)},
    **{
        unit: Decimal(1000) ** power for power, unit in enumerate(("n", "u", "m", "", "k", "M", "G", "T", "P", "E"), -3)
    },
}


def amount(resource: str, quantity: object) -> int:
    """A quantity as Kueue counts it: CPU in millicores, other resources in whole units, rounded up.

    Raises:
        InputError: The text is not a quantity.
    """
    match = _TEXT.fullmatch(str(quantity).strip())
    if not match:
        raise InputError(
            f"no quantity of {resource}", found=repr(quantity), allowed="a number with m, k, M, G, Ki, Mi, Gi or none"
        )
    number, unit, exponent = match.groups()
    value = Decimal(number) * (Decimal(10) ** int(exponent) if exponent else _FACTOR[unit or ""])
    return int((value * 1000 if resource == "cpu" else value).to_integral_value(ROUND_CEILING))


def total(*parts: Requests) -> Requests:
    """The sum of several requests."""
    found: Requests = {}
    for part in parts:
        for resource, value in part.items():
            found[resource] = found.get(resource, 0) + value
    return found


def times(requests: Requests, count: int) -> Requests:
    """A request multiplied by `count`."""
    return {resource: value * count for resource, value in requests.items()}


@dataclass(frozen=True)
class PodAsk:
    """Topology constraints of a set of pods.

    Attributes:
        required: Whether one group of that level must contain all of them.
        anywhere: Whether no level was requested.
        slices: (level, pods per slice), outermost first; empty: single pods.
        leaders: Pods of another kind that go with the first of them; 0 or 1.
        least_free: Whether jobs without a level go to the nodes with the least room (TASProfileMixed).
        balanced: Whether groups get equal shares if a level is preferred (TASBalancedPlacement).
        by_score: Whether groups with preferred nodes come first (TASRespectNodeAffinityPreferred).
    """

    pods: int
    level: int
    required: bool = False
    anywhere: bool = False
    slices: tuple[tuple[int, int], ...] = ()
    leaders: int = 0
    least_free: bool = True
    balanced: bool = False
    by_score: bool = False

    @property
    def size(self) -> int:
        """Pods per outermost slice; 1: single pods."""
        return self.slices[0][1] if self.slices else 1

    @property
    def wanted(self) -> int:
        """Number of slices."""
        return self.pods // self.size

    @property
    def tight(self) -> bool:
        """Whether groups with most room come first and the tightest gets the rest; else those with least room."""
        return not (self.anywhere and self.least_free)

    @property
    def inner(self) -> dict[int, int]:
        """Pods that stay together at each level below the outermost slices."""
        found: dict[int, int] = {}
        for (above, _), (level, size) in pairwise(self.slices):
            found.update(dict.fromkeys(range(above + 1, level + 1), size))
        return found


@dataclass(frozen=True, eq=False)
class Fits:
    """What fits on each leaf.

    Attributes:
        pods: int64[leafs], pods without a leader.
        led: int64[leafs], pods next to a leader.
        leads: int64[leafs], 1 if a leader fits.
        score: int64[leafs], preference score.
    """

    pods: NDArray[np.int64]
    led: NDArray[np.int64]
    leads: NDArray[np.int64]
    score: NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class Given:
    """The pods that each leaf gets.

    Attributes:
        pods: int64[leafs].
        leaders: int64[leafs].
    """

    pods: NDArray[np.int64]
    leaders: NDArray[np.int64]


@dataclass(frozen=True)
class Refusal:
    """Why pods have to wait.

    Attributes:
        fit: How many slices would fit (pods, if there are no slices).
        excluded: Leafs excluded by each reason: a taint, `nodeSelector`, `affinity`, `topologyDomain`, a resource.
        layers: With several slice layers: (slices that fit, slices needed) of each.
    """

    why: str
    fit: int = 0
    wanted: int = 0
    nodes: int = 0
    excluded: dict[str, int] = field(default_factory=dict)
    layers: tuple[tuple[int, int], ...] = ()


Labels = dict[str, str]
HOSTNAME = "kubernetes.io/hostname"


@dataclass(frozen=True)
class Gates:
    """Feature gates of Kueue, see `GATES`; the defaults are those of version 0.20."""

    mixed: bool = True
    balanced: bool = False
    by_score: bool = False
    elastic: bool = False
    keep_pods: bool = True
    overlapping: bool = True
    recompute: bool = True
    recompute_targets: bool = True
    fail_fast: bool = True
    topology: bool = True
    partial: bool = True


GATES = {
    "TASProfileMixed": "mixed",
    "TASBalancedPlacement": "balanced",
    "TASRespectNodeAffinityPreferred": "by_score",
    "ElasticJobsViaWorkloadSlicesWithTAS": "elastic",
    "SkipReassignmentForPodOwnedWorkloads": "keep_pods",
    "TASHandleOverlappingFlavors": "overlapping",
    "TASRecomputeAssignmentWithinSchedulingCycle": "recompute",
    "RecomputeAssignmentUponPreemptionTargetsOverlap": "recompute_targets",
    "TASFailedNodeReplacementFailFast": "fail_fast",
    "TopologyAwareScheduling": "topology",
    "PartialAdmission": "partial",
}
"""Fields of `Gates` by Kueue's gate names."""


@dataclass(frozen=True)
class KubernetesNode:
    """A Kubernetes node.

    Attributes:
        ready: Whether it is ready and schedulable.
    """

    name: str
    labels: Labels
    taints: tuple[tuple[str, str, str], ...]
    room: Requests
    ready: bool = True


@dataclass(frozen=True)
class Toleration:
    """A toleration of taints; an empty field matches anything."""

    key: str = ""
    operator: str = "Equal"
    value: str = ""
    effect: str = ""

    def bears(self, taint: tuple[str, str, str]) -> bool:
        """Whether it matches a taint."""
        key, value, effect = taint
        if (self.effect and self.effect != effect) or (self.key and self.key != key):
            return False
        return self.operator == "Exists" or (bool(self.key) and self.value == value)


@dataclass(frozen=True)
class NodeSelection:
    """Node constraints of a pod.

    Attributes:
        terms: Required node affinity: `nodeSelectorTerm`s, one of which must match.
    """

    labels: Labels = field(default_factory=dict)
    terms: tuple[dict[str, Any], ...] = ()
    preferred: tuple[tuple[int, dict[str, Any]], ...] = ()
    tolerations: tuple[Toleration, ...] = ()


@dataclass(frozen=True)
class TopologyRequest:
    """Topology request of a pod set.

    Attributes:
        required: A level at which one group must contain all pods.
        unconstrained: Whether any nodes are acceptable.
        layers: (level, pods per slice), outermost first.
        group: Name of pod sets that are placed together: a leader and its workers.
    """

    required: str = ""
    preferred: str = ""
    unconstrained: bool = False
    layers: tuple[tuple[str, int], ...] = ()
    group: str = ""

    @property
    def slices_only(self) -> bool:
        """Whether slices are the only constraint."""
        return bool(self.layers) and not (self.required or self.preferred)


@dataclass(frozen=True)
class PodSet:
    """A set of pods of one kind.

    Attributes:
        asks: Topology request; None: none.
        minimum: Fewest pods to start with; 0: all or none.
    """

    name: str
    count: int
    requests: Requests
    asks: TopologyRequest | None = None
    selection: NodeSelection = field(default_factory=NodeSelection)
    minimum: int = 0


def placed_together(parts: Iterable[T], pods: Callable[[T], PodSet]) -> list[list[T]]:
    """Parts of a workload by the group in which their pod sets are placed; a set without a group is one by itself."""
    groups: dict[str, list[T]] = {}
    for number, part in enumerate(parts):
        asks = pods(part).asks
        groups.setdefault(asks.group if asks and asks.group else f"\0{number}", []).append(part)
    return list(groups.values())


@dataclass(frozen=True)
class Assignment:
    """The domains that a pod set is assigned to.

    Attributes:
        domains: (values, pods), in rank order.
    """

    levels: tuple[str, ...]
    domains: tuple[tuple[tuple[str, ...], int], ...]

    @property
    def pods(self) -> int:
        """Number of pods."""
        return sum(count for _, count in self.domains)
