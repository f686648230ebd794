"""Queue disciplines, and the interfaces of placement policies and backfill rules."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

import numpy as np
from numpy.typing import NDArray

from railyard.kit.registry import Registry
from railyard.work.operate.free import FreeNodes, PlacementRequest

if TYPE_CHECKING:
    from railyard.work.operate.state import State


Place = Callable[[PlacementRequest, FreeNodes], NDArray[np.int32] | None]
"""From a request and the free nodes to int32[nodes] in rank order, or None if the job waits. It changes nothing."""


@dataclass(frozen=True)
class NodePolicy:
    """A placement policy; creating the record registers it.

    Attributes:
        summary: One sentence on which nodes it chooses.
        source: The scheduler and version whose behavior it reproduces; empty for a bound.
        seeded: Whether the seed matters.
    """

    name: str
    summary: str
    place: Place
    source: str = ""
    seeded: bool = False


policies: Registry[NodePolicy] = Registry("placement policy", package="railyard.work.operate.placement")


NO_NODES = np.empty(0, np.int32)
"""Reserved nodes of rules that reserve only time."""


def first_nodes(room: NDArray[np.bool_], wanted: int) -> NDArray[np.int32] | None:
    """int32[wanted], the first nodes with room; None: too few have."""
    found = np.flatnonzero(room)[:wanted].astype(np.int32)
    return found if len(found) == wanted else None


def nodes_in(
    groups: Iterable[int], members: Sequence[NDArray[np.int32]], room: NDArray[np.bool_], wanted: int
) -> NDArray[np.int32]:
    """int32[wanted or less], the first nodes with room of some groups, group by group."""
    return np.concatenate([NO_NODES, *(members[one][room[members[one]]] for one in groups)])[:wanted]


def placement_policy(name: str, summary: str, *, source: str = "", seeded: bool = False) -> Callable[[Place], Place]:
    """Decorator that registers a placement function; see `NodePolicy`."""

    def add(place: Place) -> Place:
        policies.add(name, NodePolicy(name, summary, place, source, seeded))
        return place

    return add


Key = Callable[["State", int], tuple[float, ...]]
"""Sort key of a job from the state of a run and the job, smallest first. Submission order breaks ties."""


@dataclass(frozen=True)
class Discipline:
    """A queue discipline; creating the record registers it.

    Attributes:
        renews: Whether keys change while jobs wait; they are then recomputed every `renew_us` of the rules.
        preempts: Whether a waiting job may preempt running jobs with larger keys.
    """

    name: str
    summary: str
    key: Key
    renews: bool = False
    preempts: bool = False


class Queue(Protocol):
    """The scheduler as a backfill rule sees it."""

    state: State
    policy: NodePolicy

    def promise_us(self, job: int) -> int:
        """How long a job promises to use its nodes."""

    def promised_us(self, job: int) -> int:
        """When a job would promise to end if it started now."""

    def foreseen(self, job: int) -> tuple[int, int, NDArray[np.int32]]:
        """When a waiting job will start if all promises hold, how many extra nodes will be free then, and its nodes.

        No nodes are named if the job has no placement constraints.
        """


class Gate:
    """Decides in one pass over the queue which jobs that share a set of nodes may still start: here, all of them."""

    def __init__(self, scheduler: Queue) -> None:
        self.scheduler, self.state = scheduler, scheduler.state

    def blocked(self, _job: int) -> bool:
        """Records a job that cannot start now; False ends the pass."""
        return True

    def admits(self, _job: int) -> bool:
        """Whether a job may start now although others ahead of it wait."""
        return True

    def kept(self, _job: int) -> NDArray[np.int32]:
        """Nodes that an admitted job may not use because they are reserved for others before its end."""
        return NO_NODES

    def started(self, _job: int) -> None:
        """Records a job that has started."""


@dataclass(frozen=True)
class Backfill:
    """A backfill rule; creating the record registers it."""

    name: str
    summary: str
    gate: Callable[[Queue], Gate]


disciplines: Registry[Discipline] = Registry("queue discipline")
backfills: Registry[Backfill] = Registry("backfill", package="railyard.work.operate.backfill")


def _discipline(name: str, summary: str, *, renews: bool = False, preempts: bool = False) -> Callable[[Key], Key]:
    def add(key: Key) -> Key:
        disciplines.add(name, Discipline(name, summary, key, renews, preempts))
        return key

    return add


@_discipline("fair-share", "The tenant that recently used least of its share goes first.", renews=True)
def _fair_share(state: State, job: int) -> tuple[float, ...]:
    """Usage divided by share of the job's tenant.

    Slurm's classic fair-share factor 2^(-usage / share) gives the same order. Usage halves every
    `half_life_us` of the rules (Slurm: PriorityDecayHalfLife, 7 days).
    Source: https://slurm.schedmd.com/priority_multifactor.html
    """
    tenant = int(state.jobs.tenant[job])
    return (state.usage[tenant] / state.rules.share_of(state.jobs.tenants[tenant]),)


@_discipline("fifo", "In the order of submission.")
def _fifo(_state: State, _job: int) -> tuple[float, ...]:
    return ()


@_discipline(
    "least-attained",
    "Jobs with little service so far first; they preempt those with much.",
    renews=True,
    preempts=True,
)
def _least_attained(state: State, job: int) -> tuple[float, ...]:
    """Tiresias' discretized two-dimensional least attained service with two queues.

    Source: J. Gu et al., "Tiresias: A GPU Cluster Manager for Distributed Deep Learning", NSDI 2019, section 4.2.
    """
    return (float(state.done_us[job] * state.accelerators[job] >= state.rules.attained_us),)


@_discipline("priority", "Larger priorities first; they preempt smaller ones.", preempts=True)
def _priority(state: State, job: int) -> tuple[float, ...]:
    return (-int(state.jobs.priority[job]),)


@_discipline("shortest", "The fewest remaining accelerator-hours first; a bound, since nobody knows them.")
def _shortest(state: State, job: int) -> tuple[float, ...]:
    return (float(state.left_us(job) * state.accelerators[job]),)
