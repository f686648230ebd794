"""Meetings of workers that step by themselves, as tasks of the steps in which something is sent."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from railyard.graph import CollectiveKind, Kind, Stream
from railyard.work.training.contention import CONTENDERS
from railyard.work.training.program import NONE
from railyard.work.training.sync.graph import asked_of
from railyard.work.training.sync.local import outer_work

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from railyard.work.training.parallel.pieces import Step
    from railyard.work.training.spec import Training

# In front of everything else of a step.
_START = -4


@dataclass(frozen=True)
class _Leg:
    """Where collectives of a meeting stand: at the end of the step, or from its beginning beside everything."""

    here: NDArray[np.int64]
    order: int
    overlapped: bool

    def add(self, step: Step, space: str, size: NDArray[np.int64], kind: CollectiveKind, op: str) -> NDArray[np.int64]:
        """Adds one collective a stage."""
        return step.program.add(
            space,
            Kind.COLLECTIVE,
            Stream.OUTER if self.overlapped else Stream.COMPUTE,
            stage=self.here,
            order=np.full(len(self.here), _START if self.overlapped else self.order),
            phase="gradient",
            op=op,
            size_bytes=np.maximum(size, 1),
            collective=kind,
            loss_index=CONTENDERS.index("dp") if self.overlapped else -1,
        )


def meeting_share(fragments: int, overlap_steps: float, inner_steps: int) -> float:
    """Share of the parameters that is sent in a step in which something is sent.

    A fragment is sent over `overlap_steps` steps, at least one; where fragments follow one another faster than that,
    several are under way at once.
    """
    steps = max(1.0, overlap_steps)
    return max(1.0 / fragments / steps, 1.0 / inner_steps)


def meeting_steps(training: Training) -> float:
    """Share of the steps in which something is sent between workers; 0 where all replicas meet in every step."""
    asked = asked_of(training)
    updates = None if asked is None else asked.meets()
    if updates is None:
        return 0.0
    return min(1.0, updates.fragments * max(1.0, updates.overlap_steps) / updates.inner_steps)


def meet(step: Step, order: int) -> None:
    """The meeting of workers in this step: all of it at the end, or a step's share of it beside the computation."""
    asked = asked_of(step.training)
    updates = None if asked is None else asked.meets()
    if updates is None:
        return
    lattice = step.program.lattice
    overlapped = updates.overlap_steps > 0
    share = meeting_share(updates.fragments, updates.overlap_steps, updates.inner_steps)
    stages, pp = np.arange(step.parts.stages), step.training.layout.pp
    every = np.arange(pp)
    work = np.zeros(pp)
    ends: list[NDArray[np.int64]] = []
    for name, space, parameters in (("dense", "dp", step.parts.dense), ("expert", "edp", step.parts.expert)):
        ranks = lattice.communicator_size(space)
        parameters_of = np.bincount(stages % pp, parameters[stages], pp) * share
        here = np.flatnonzero(parameters_of)
        if not len(here):
            continue
        size = np.ceil(parameters_of[here] / ranks * updates.bits / 8.0).astype(np.int64)
        leg = _Leg(here, order, overlapped=overlapped)
        sent = leg.add(step, f"{space}.outer", size, CollectiveKind.ALL_REDUCE, f"meet {name}")
        if step.training.layout.zero == 0 and ranks > 1:
            full = np.ceil(parameters_of[here] * 4.0).astype(np.int64)
            sent = leg.add(step, space, full, CollectiveKind.ALL_GATHER, f"gather {name}")
        last = np.full(pp, NONE, np.int64)
        last[here] = sent
        ends.append(last)
        work += parameters_of / ranks
    device, fraction = step.cluster.accelerator, step.training.software.memory_fraction
    seconds = np.array([outer_work(updates, one).seconds(device, fraction) for one in work.tolist()])
    slots = step.program.add(
        "rank",
        Kind.COMPUTE,
        Stream.COMPUTE,
        stage=every,
        order=np.full(pp, order + 1),
        phase="optimizer",
        op="outer update",
        duration_ps=np.rint(seconds * 1e12).astype(np.int64),
    )
    for last in ends:
        step.program.wait(slots, last)
