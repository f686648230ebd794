"""Objects of Kubernetes and Kueue that decide who is admitted where; what pods ask of a topology and are given."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from decimal import ROUND_CEILING, Decimal
from itertools import pairwise
from typing import TYPE_CHECKING, Any

from railyard.kit.errors import InputError

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray


Requests = dict[str, int]
"""Amounts by resource; CPU in thousandths of a core."""
_TEXT = re.compile(r"([+-]?\d+(?:\.\d*)?|[+-]?\.\d+)(?:(Ki|Mi|Gi|Ti|Pi|Ei|n|u|m|k|M|G|T|P|E)|[eE]([+-]?\d+))?")
_FACTOR = {
    **{unit: Decimal(1024) ** power for power, unit in enumerate(("Ki", "Mi", "Gi", "Ti", "Pi", "Ei"), 1)},
    **{
        unit: Decimal(1000) ** power for power, unit in enumerate(("n", "u", "m", "", "k", "M", "G", "T", "P", "E"), -3)
    },
}


def amount(resource: str, quantity: object) -> int:
    """A quantity as Kueue counts it: thousandths of CPU, whole units of the others, rounded up.

    Raises:
        InputError: It is no quantity.
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
    """The sum of several."""
    found: Requests = {}
    for part in parts:
        for resource, value in part.items():
            found[resource] = found.get(resource, 0) + value
    return found


def times(requests: Requests, count: int) -> Requests:
    """So many times as much."""
    return {resource: value * count for resource, value in requests.items()}


@dataclass(frozen=True)
class PodAsk:
    """What a set of pods asks.

    Attributes:
        required: Whether one group of that level has to hold all of them.
        anywhere: Whether no level was asked for.
        slices: (level, pods of a slice), from the outermost; empty: single pods.
        leaders: Pods of another kind that go where the first of them go; 0 or 1.
        least_free: Whether jobs without a level go to the nodes with least room (TASProfileMixed).
        balanced: Whether groups get equal shares where a level is preferred (TASBalancedPlacement).
        by_score: Whether groups whose nodes are preferred come first (TASRespectNodeAffinityPreferred).
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
        """Pods of the outermost slice; 1: single pods."""
        return self.slices[0][1] if self.slices else 1

    @property
    def wanted(self) -> int:
        """How many slices."""
        return self.pods // self.size

    @property
    def tight(self) -> bool:
        """Whether groups with most room come first, and the tightest for the last part; else those with least."""
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
    """What would fit on each leaf.

    Attributes:
        pods: int64[leafs], pods.
        led: int64[leafs], pods beside a leader.
        leads: int64[leafs], 1 where a leader fits.
        score: int64[leafs], how much each is preferred.
    """

    pods: NDArray[np.int64]
    led: NDArray[np.int64]
    leads: NDArray[np.int64]
    score: NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class Given:
    """What a set of pods gets.

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
        fit: How many slices (pods, where there are none) would fit.
        excluded: How many of them by what: a taint, `nodeSelector`, `affinity`, `topologyDomain`, a resource.
        layers: Of several layers of slices: (slices that fit, slices wanted) of each.
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
    """Feature gates of Kueue, see `GATES`; the defaults are those of 0.20."""

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
"""Fields of `Gates` by Kueue's names."""


@dataclass(frozen=True)
class KubernetesNode:
    """A node.

    Attributes:
        ready: Whether it is ready and takes pods.
    """

    name: str
    labels: Labels
    taints: tuple[tuple[str, str, str], ...]
    room: Requests
    ready: bool = True


@dataclass(frozen=True)
class Toleration:
    """A taint that pods bear; empty fields: any."""

    key: str = ""
    operator: str = "Equal"
    value: str = ""
    effect: str = ""

    def bears(self, taint: tuple[str, str, str]) -> bool:
        """Whether it is this taint."""
        key, value, effect = taint
        if (self.effect and self.effect != effect) or (self.key and self.key != key):
            return False
        return self.operator == "Exists" or (bool(self.key) and self.value == value)


@dataclass(frozen=True)
class NodeSelection:
    """Which nodes will do for a pod.

    Attributes:
        terms: Required node affinity: terms of which one has to match; each a manifest's `nodeSelectorTerm`.
    """

    labels: Labels = field(default_factory=dict)
    terms: tuple[dict[str, Any], ...] = ()
    preferred: tuple[tuple[int, dict[str, Any]], ...] = ()
    tolerations: tuple[Toleration, ...] = ()


@dataclass(frozen=True)
class TopologyRequest:
    """What a pod set asks of the topology.

    Attributes:
        required: A level one group of which holds all pods.
        unconstrained: Whether any nodes will do.
        layers: (level, pods of a slice) from the outermost.
        group: Name of pod sets that are placed together: a leader and its workers.
    """

    required: str = ""
    preferred: str = ""
    unconstrained: bool = False
    layers: tuple[tuple[str, int], ...] = ()
    group: str = ""

    @property
    def slices_only(self) -> bool:
        """Whether slices are all that is asked."""
        return bool(self.layers) and not (self.required or self.preferred)


@dataclass(frozen=True)
class PodSet:
    """Pods of one kind.

    Attributes:
        asks: Of the topology; None: nothing.
        minimum: Pods with which it would start too; 0: all or none.
    """

    name: str
    count: int
    requests: Requests
    asks: TopologyRequest | None = None
    selection: NodeSelection = field(default_factory=NodeSelection)
    minimum: int = 0


@dataclass(frozen=True)
class Assignment:
    """Where the pods of a set go.

    Attributes:
        domains: (values, pods), in the order of ranks.
    """

    levels: tuple[str, ...]
    domains: tuple[tuple[tuple[str, ...], int], ...]

    @property
    def pods(self) -> int:
        """How many."""
        return sum(count for _, count in self.domains)
