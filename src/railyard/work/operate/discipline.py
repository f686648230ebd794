"""Queue disciplines, and what a placement policy and a rule of backfill are."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

import numpy as np
from numpy.typing import NDArray

from railyard.kit.registry import Registry
from railyard.work.operate.free import FreeNodes, PlacementRequest

if TYPE_CHECKING:
    from railyard.work.operate.state import State


Place = Callable[[PlacementRequest, FreeNodes], NDArray[np.int32] | None]
"""Of a request and what is free: int32[nodes wanted] in the order of ranks, or None: it waits. Changes nothing."""


@dataclass(frozen=True)
class NodePolicy:
    """A placement policy; its record is its registration.

    Attributes:
        summary: Which nodes it gives, in one sentence.
        source: Whose behaviour it is, with the version it was compared with; empty for a bound.
        seeded: Whether the seed matters.
    """

    name: str
    summary: str
    place: Place
    source: str = ""
    seeded: bool = False


policies: Registry[NodePolicy] = Registry("placement policy", package="railyard.work.operate.placement")


NO_NODES = np.empty(0, np.int32)
"""What rules keep that promise time and no nodes."""


def placement_policy(name: str, summary: str, *, source: str = "", seeded: bool = False) -> Callable[[Place], Place]:
    """Registers what it decorates; see `NodePolicy`."""

    def add(place: Place) -> Place:
        policies.add(name, NodePolicy(name, summary, place, source, seeded))
        return place

    return add


Key = Callable[["State", int], tuple[float, ...]]
"""Of the state of a run and a job: what it is sorted by, smallest first. Submission breaks ties."""


@dataclass(frozen=True)
class Discipline:
    """A queue discipline; its record is its registration.

    Attributes:
        renews: Whether keys move while jobs wait; they are then taken anew every `renew_us` of the rules.
        preempts: Whether a waiting job may take the place of running ones whose keys are larger.
    """

    name: str
    summary: str
    key: Key
    renews: bool = False
    preempts: bool = False


class Queue(Protocol):
    """What a rule of backfill sees of the scheduler."""

    state: State
    policy: NodePolicy

    def promise_us(self, job: int) -> int:
        """How long a job says that it will have its nodes."""

    def promised_us(self, job: int) -> int:
        """When a job that started now would promise to end."""

    def foreseen(self, job: int) -> tuple[int, int, NDArray[np.int32]]:
        """When a waiting job will start if all promises are kept, how many nodes more will be free then, and its nodes.

        No nodes are named where any will do.
        """


class Gate:
    """Says in one pass over the queue which jobs may still start, of those that may have the same nodes: all."""

    def __init__(self, scheduler: Queue) -> None:
        self.scheduler, self.state = scheduler, scheduler.state

    def blocked(self, _job: int) -> bool:
        """Notes a job that cannot start now; False ends the pass."""
        return True

    def admits(self, _job: int) -> bool:
        """Whether a job may start now although others before it wait."""
        return True

    def kept(self, _job: int) -> NDArray[np.int32]:
        """Nodes that a job which is admitted may not use, since they are promised to others before its end."""
        return NO_NODES

    def started(self, _job: int) -> None:
        """Notes a job that did."""


@dataclass(frozen=True)
class Backfill:
    """A rule of backfill; its record is its registration."""

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


@_discipline("fair-share", "The tenant that used least of its share of late first.", renews=True)
def _fair_share(state: State, job: int) -> tuple[float, ...]:
    """Usage over share of the job's tenant.

    Slurm's classic fair share factor 2^(-usage / share) orders by usage over share too. Usage decays by half every
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


@_discipline("shortest", "The fewest accelerator-hours left first; a bound: nobody knows them.")
def _shortest(state: State, job: int) -> tuple[float, ...]:
    return (float(state.left_us(job) * state.accelerators[job]),)
