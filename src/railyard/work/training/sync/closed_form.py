"""Reductions, gathers and meetings of replicas in closed form, for the designs of a table that ask for any."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from railyard.graph import CollectiveKind
from railyard.model.machine import MachineColumns
from railyard.work.training.alpha_beta import Group, collective_s
from railyard.work.training.sync.local import exposed_s, outer_work
from railyard.work.training.sync.shapes import bundle, replica_peers, table, without_table, worker_job, workers_of
from railyard.work.training.sync.wire import KernelWork, Leg, Reduction

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from railyard.model.machine import F, Machine
    from railyard.work.training.columns import Columns
    from railyard.work.training.spec import Training
    from railyard.work.training.stages import PipelineRanks
    from railyard.work.training.sync.spec import Communication
    from railyard.work.training.sync.wire import Peers


@dataclass(frozen=True)
class Design:
    """One design with a communication method."""

    row: int
    job: Training
    training: Training
    asked: Communication
    machine: Machine

    @property
    def domain(self) -> int:
        """Ranks of a scale-up domain."""
        return self.machine.scale_up_domain

    def seconds(self, work: KernelWork) -> float:
        """Time of kernels on its device."""
        return work.seconds(self.machine.accelerator, self.training.software.memory_fraction)

    def leg_s(self, leg: Leg, peers: Peers, stride: int) -> float:
        """Time of one collective."""
        step = stride * peers.local if leg.over == "across" else stride
        return self.collective_s(leg.kind, leg.size_bytes, peers.of(leg.over), step)

    def collective_s(self, kind: CollectiveKind, size_bytes: float, ranks: int, stride: int) -> float:
        """Time of a collective of a number of ranks at a distance."""
        if ranks <= 1 or size_bytes <= 0.0:
            return 0.0
        group = Group(np.array([float(ranks)]), np.array([float(stride)]))
        fraction = np.array([self.training.software.collective_fraction])
        machine = MachineColumns.of([self.machine])
        return float(collective_s(kind, np.array([size_bytes]), group, machine, fraction)[0])

    def reduction_s(self, made: Reduction, peers: Peers, stride: int) -> float:
        """Time of the collectives of a reduction."""
        return sum(self.leg_s(leg, peers, stride) for leg in made.legs)


@dataclass(frozen=True)
class AdaptedDesigns:
    """The designs of a table with a communication method."""

    designs: tuple[Design, ...]

    @classmethod
    def of(cls, trainings: Sequence[Training], machines: Sequence[Machine]) -> AdaptedDesigns:
        """The designs of a table that have a method; the others cost nothing."""
        found = []
        for row, (job, machine) in enumerate(zip(trainings, machines, strict=True)):
            asked = job.communication
            if asked is not None and not asked.plain:
                found.append(Design(row, job, worker_job(job), asked, machine))
        return cls(tuple(found))

    def take(self, rows: NDArray[np.int64]) -> AdaptedDesigns:
        """The designs of some rows of the table, by number."""
        known = {design.row: design for design in self.designs}
        some = ((row, known.get(at)) for row, at in enumerate(rows.tolist()) if known)
        return AdaptedDesigns(tuple(replace(design, row=row) for row, design in some if design is not None))

    def once(self, name: str, parameters: F, layers: F, reduce: F, gather: F) -> tuple[F, F, F]:
        """Seconds to reduce and gather a holding once per step, and to encode it; not overlapped.

        Args:
            name: `dense` or `expert`.
            parameters: Parameters of a rank.
            layers: Number of layers.
            reduce: Seconds of reductions without a method.
            gather: Seconds of gathers without a method.
        """
        reduce, gather, coding = reduce.copy(), gather.copy(), np.zeros_like(reduce)
        for design in self.designs:
            row = design.row
            peers = replica_peers(design.training.layout, name, design.domain)
            if parameters[row] <= 0 or peers.ranks <= 1 or design.training.layout.zero >= 3:
                continue
            reduce[row], spent = _reduce_once(
                design, name, float(parameters[row]), float(layers[row]), peers=peers, plain_s=float(reduce[row])
            )
            coding[row] += spent
            scheme = design.asked.compression
            if scheme is not None and gather[row] > 0 and scheme.parameter_share != 1.0:
                gather[row], spent = _gather(
                    design, float(parameters[row]), float(layers[row]), peers, _stride(design, name)
                )
                coding[row] += spent
        return reduce, gather, coding

    def each(self, name: str, amounts: tuple[F, F], gather: F, again: F, scatter: F) -> tuple[F, F, F, F]:
        """Seconds of one micro-batch under ZeRO-3: gathers for forward and backward, a layer's scatter; all encoding.

        Args:
            name: `dense` or `expert`.
            amounts: Parameters of a rank, and its number of layers.
            gather: Seconds to gather a layer for forward without a method.
            again: The same for backward.
            scatter: Seconds to reduce a layer's gradients without a method.
        """
        parameters, layers = amounts
        gather, again, scatter = gather.copy(), again.copy(), scatter.copy()
        coding = np.zeros_like(gather)
        for design in self.designs:
            row, layout, scheme = design.row, design.training.layout, design.asked.compression
            peers = replica_peers(layout, name, design.domain)
            if scheme is None or layout.zero < 3 or peers.ranks <= 1 or parameters[row] <= 0:
                continue
            stride = _stride(design, name)
            each, count = float(parameters[row] / layers[row]), float(layers[row])
            spent_forward = spent_again = 0.0
            if scheme.parameter_share != 1.0:
                gather[row], spent_forward = _gather(design, each, 1.0, peers, stride)
                again[row], spent_again = gather[row], spent_forward
            if scheme.second_copy:
                inside = design.collective_s(CollectiveKind.ALL_GATHER, 2.0 * each, peers.local, stride)
                again[row], spent_again = inside, 0.0
            made = scheme.reduction(bundle(design.training, name, each), peers)
            scatter[row] = design.reduction_s(made, peers, stride)
            coding[row] = count * (spent_forward + spent_again * layout.reshard + design.seconds(made.work))
        return gather, again, scatter, coding

    def exposed(
        self, columns: Columns, windows: tuple[F, F, F], traffic: tuple[F, F], exposed: tuple[F, F]
    ) -> tuple[F, F]:
        """Exposed seconds of reductions and gathers if updates are late or sent by priority.

        Args:
            columns: The designs.
            windows: Forward and backward under which gathers and reductions of a plain step may run, and all
                micro-batches, in seconds.
            traffic: Reductions and gathers, not overlapped.
            exposed: Their exposed part in a plain step.
        """
        forward, backward, total = windows
        (reduce, gather), (gradient, parameter) = traffic, (exposed[0].copy(), exposed[1].copy())
        for design in self.designs:
            row = design.row
            if design.asked.asynchronous is not None:
                gradient[row] = max(0.0, float(reduce[row] + gather[row] - total[row]))
                parameter[row] = 0.0
            elif design.asked.scheduling is not None and columns.layout.overlap_gradient[row]:
                share = float(columns.software.gradient_overlap[row])
                back = min(share * float(reduce[row]), float(backward[row]))
                left = float(reduce[row]) - back
                gradient[row] = left - min(share * left, float(forward[row]))
        return gradient, parameter

    def meetings(self, pipeline: PipelineRanks, step: F) -> F:
        """Additional seconds of a mean step for synchronizing workers."""
        longer = np.zeros_like(step)
        for design in self.designs:
            updates = design.asked.meets()
            if updates is None:
                continue
            seconds, work = 0.0, KernelWork()
            for name in ("dense", "expert"):
                most = max(float(getattr(kind, name)[design.row]) for kind in pipeline.kinds)
                if most > 0:
                    sent, made = _meeting(design, name, most)
                    seconds, work = seconds + sent, work + made
            longer[design.row] = exposed_s(updates, seconds, float(step[design.row]))
            longer[design.row] += design.seconds(work) / updates.inner_steps
        return longer


def _stride(design: Design, name: str) -> int:
    layout = design.training.layout
    return layout.ep * layout.expert_tp if name == "expert" else layout.tp


def _reduce_once(
    design: Design, name: str, parameters: float, layers: float, *, peers: Peers, plain_s: float
) -> tuple[float, float]:
    """Seconds of one holding's reductions, and of encoding them."""
    stride, asked = _stride(design, name), design.asked
    if asked.compression is not None:
        made = asked.compression.reduction(bundle(design.training, name, parameters / layers), peers)
        return layers * design.reduction_s(made, peers, stride), layers * design.seconds(made.work)
    if asked.sparse is not None and name == "dense":
        rows = table(design.training, asked.sparse, peers)
        rest = design.collective_s(
            CollectiveKind.ALL_REDUCE,
            without_table(design.training, parameters) * design.training.software.gradient_bytes / layers,
            peers.ranks,
            stride,
        )
        return layers * rest + design.reduction_s(rows, peers, stride), design.seconds(rows.work)
    if asked.scheduling is not None:
        size = parameters / layers * design.training.software.gradient_bytes
        pieces = max(1, -(-int(size) // asked.scheduling.piece_bytes))
        each = design.collective_s(CollectiveKind.ALL_REDUCE, size / pieces, peers.ranks, stride)
        return layers * pieces * each, 0.0
    return float(plain_s), 0.0


def _gather(design: Design, parameters: float, layers: float, peers: Peers, stride: int) -> tuple[float, float]:
    """Seconds to gather parameters as sent, and to encode the rank's own and decode all."""
    scheme = design.asked.compression
    assert scheme is not None
    size = parameters / layers * 2.0 * scheme.parameter_share
    each = design.collective_s(CollectiveKind.ALL_GATHER, size, peers.ranks, stride)
    return layers * each, layers * design.seconds(gather_work(parameters / layers, scheme.parameter_share, peers.ranks))


def gather_work(parameters: float, share: float, ranks: int) -> KernelWork:
    """Encoding the rank's own share of gathered parameters and decoding all."""
    shard = parameters / ranks
    return KernelWork((shard + parameters) * 2.0 * (1.0 + share), 0.0, 2.0)


def _meeting(design: Design, name: str, parameters: float) -> tuple[float, KernelWork]:
    """Seconds for workers to exchange all of a holding, and the computation of the outer update."""
    updates, layout = design.asked.meets(), design.training.layout
    assert updates is not None
    peers = replica_peers(layout, name, design.domain)
    shard = parameters / peers.ranks
    apart = layout.tp * layout.cp * layout.dp
    size = shard * updates.bits / 8.0 / updates.fragments
    sent = design.collective_s(CollectiveKind.ALL_REDUCE, size, workers_of(design.job), apart)
    if layout.zero == 0:
        inside = parameters * 4.0 / updates.fragments
        sent += design.collective_s(CollectiveKind.ALL_GATHER, inside, peers.ranks, _stride(design, name))
    return updates.fragments * sent, outer_work(updates, shard)
