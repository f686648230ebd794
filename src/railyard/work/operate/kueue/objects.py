"""Objects of Kubernetes and Kueue, as far as they decide who is admitted where."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from railyard.work.operate.kueue.ask import Requests

Labels = dict[str, str]
HOSTNAME = "kubernetes.io/hostname"


@dataclass(frozen=True)
class Gates:
    """Feature gates of Kueue; the defaults are those of 0.20.

    Attributes:
        mixed: TASProfileMixed.
        balanced: TASBalancedPlacement.
        by_score: TASRespectNodeAffinityPreferred.
        elastic: ElasticJobsViaWorkloadSlicesWithTAS.
        keep_pods: SkipReassignmentForPodOwnedWorkloads.
        overlapping: TASHandleOverlappingFlavors.
        recompute: TASRecomputeAssignmentWithinSchedulingCycle.
        recompute_targets: RecomputeAssignmentUponPreemptionTargetsOverlap.
        fail_fast: TASFailedNodeReplacementFailFast.
        topology: TopologyAwareScheduling.
        partial: PartialAdmission.
    """

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
class Node:
    """A node.

    Attributes:
        name: Of the object.
        labels: By key.
        taints: As (key, value, effect).
        room: What can be allocated.
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
class Selection:
    """Which nodes will do for a pod.

    Attributes:
        labels: That a node must have.
        terms: Required node affinity: terms of which one has to match; each a manifest's `nodeSelectorTerm`.
        preferred: Preferred node affinity: (weight, term).
        tolerations: Taints that are borne.
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
        preferred: A level that is tried first.
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
        name: Within the workload.
        count: How many.
        requests: What each takes.
        asks: Of the topology; None: nothing.
        selection: Which nodes will do.
        minimum: Pods with which it would start too; 0: all or none.
    """

    name: str
    count: int
    requests: Requests
    asks: TopologyRequest | None = None
    selection: Selection = field(default_factory=Selection)
    minimum: int = 0


@dataclass(frozen=True)
class Assignment:
    """Where the pods of a set go.

    Attributes:
        levels: Labels that name a domain.
        domains: (values, pods), in the order of ranks.
    """

    levels: tuple[str, ...]
    domains: tuple[tuple[tuple[str, ...], int], ...]

    @property
    def pods(self) -> int:
        """How many."""
        return sum(count for _, count in self.domains)
