"""Task graphs of steps, shared by variants with the same computations."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import partial
from threading import Lock
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np

from railyard.graph.symmetry import SymmetricGraph
from railyard.kit.errors import InputError, Problem
from railyard.model.machine import Machine, MachineColumns
from railyard.work.training import compute as costs
from railyard.work.training.expand import copies_in, expand
from railyard.work.training.parallel import communication, data
from railyard.work.training.parallel import pieces as inner
from railyard.work.training.parallel.circuits import over_circuits
from railyard.work.training.parallel.communication import gather_for_passes, reduce_gradients
from railyard.work.training.parallel.data import segments
from railyard.work.training.parallel.finish import finish
from railyard.work.training.parallel.parts import StageParts, alike, rows_of, stage_parts
from railyard.work.training.parallel.pieces import StepBuilder, compute, cut, launch, loss_table
from railyard.work.training.parameters import check_precision
from railyard.work.training.passes import CONTENDERS, concurrent_passes
from railyard.work.training.schedule import Emission, PipelineSchedule, emit, schedules
from railyard.work.training.slots import Lattice, StepProgram
from railyard.work.training.storage import read_samples, save_state, wait_for_storage
from railyard.work.training.sync.check import check_communication
from railyard.work.training.sync.graph import asked_of
from railyard.work.training.sync.shapes import workers_of

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from numpy.typing import NDArray

    from railyard.catalog import Accelerator
    from railyard.cluster import Cluster
    from railyard.cluster.network import Network
    from railyard.cluster.topology.wiring import TopologySpec
    from railyard.graph import TaskGraph
    from railyard.work.training.parallel.parts import TimesOf
    from railyard.work.training.spec import Layout, Training
    from railyard.work.training.stages import VirtualStage


def build(
    training: Training,
    cluster: Cluster,
    *,
    times_of: TimesOf | None = None,
    checkpoint: bool = False,
    meeting: bool = False,
) -> TaskGraph:
    """The task graph of one optimizer step.

    Tasks are ordered so that none waits for a later one, on its stream or otherwise.

    Args:
        training: The job.
        cluster: The cluster; must have as many ranks as the layout needs.
        times_of: Replaces `compute.stage_times`: (training, accelerator, virtual stage) -> `StageTimes`.
        checkpoint: Whether a checkpoint is taken at the end of this step; the step time of a run is the mean of
            `interval_steps - 1` steps without and one with.
        meeting: Whether workers that step by themselves (local updates) exchange something in this step; the share of
            such steps is `sync.meeting_steps`.

    Raises:
        InputError: The layout does not fit the cluster or the schedule, the device has no units for the precision, or
            the graph is too large for 32-bit indices.
    """
    program = program_of(training, cluster, times_of=times_of, checkpoint=checkpoint, meeting=meeting)
    whole, symmetry = expand(program), copies_in(program)
    return whole if symmetry is None else SymmetricGraph.joined(whole, symmetry)


def program_of(
    training: Training,
    cluster: Cluster,
    *,
    times_of: TimesOf | None = None,
    checkpoint: bool = False,
    meeting: bool = False,
) -> StepProgram:
    """The same before it is replicated over ranks; see `build`."""
    _check(training.layout, cluster.ranks)
    check_precision(training.precision, cluster.accelerator)
    check_communication(training)
    layout = training.layout
    schedule = schedules.get(layout.schedule)
    parts = stage_parts(
        training,
        cluster.accelerator,
        partial(segments, training),
        splits_backward=schedule.splits_backward,
        times_of=times_of,
        host_bps=cluster.server.pcie_bps,
    )
    emission = _emission(layout, schedule, parts)
    asked = asked_of(training)
    lattice = lattice_of(training, cluster)
    parts = over_circuits(parts, training, cluster, lattice)
    ahead = asked is not None and asked.scheduling is not None
    # What is late runs beside everything, whatever the layout overlaps.
    late = asked is not None and asked.asynchronous is not None
    beside = layout.replace(overlap_gradient=True, overlap_parameter=True) if late else layout
    planned = training.replace(layout=beside)
    plan = data.DataPlan.of(planned, lattice, parts, splits_backward=schedule.splits_backward, reduce_ahead=ahead)
    pieces = cut(emission, parts, plan.split(emission))
    program = StepProgram(lattice, parts.stages, layout.micro_batches)
    if times_of is None:
        program.loss = _loss(training, cluster.accelerator, Machine.of(cluster), parts.rows)
    step = StepBuilder(training, cluster, parts, emission, plan, pieces, program)
    _fill(step, checkpoint=checkpoint, meeting=meeting)
    return program


def lattice_of(training: Training, cluster: Cluster) -> Lattice:
    """Where the ranks of a job's groups are."""
    domain = 1 if asked_of(training) is None else cluster.scale_up_domain
    return Lattice(training.layout, workers_of(training), domain)


def losses(training: Training, accelerator: Accelerator, machine: Machine) -> NDArray[np.float64]:
    """Slowdown of a step's computations by overlapping communications: `TaskGraph.loss` of its graph.

    This is all that a network changes in the graph of a step.

    Returns:
        float64[2 * parts, len(CONTENDERS)], the parts' forward passes, then their backward passes.
    """
    return _loss(training, accelerator, machine, rows_of(training, partial(segments, training))[1])


def _loss(
    training: Training, accelerator: Accelerator, machine: Machine, rows: Sequence[VirtualStage]
) -> NDArray[np.float64]:
    """Slowdown of every part's passes by overlapping collectives."""
    columns, passes = costs.passes_of(training, accelerator)
    slowed = concurrent_passes(columns, MachineColumns.of([machine]))
    known: dict[tuple[int, int, bool, bool], tuple[list[float], list[float]]] = {}
    for row in rows:
        if alike(row) not in known:
            layers = (row.layers, row.moe_layers, float(row.embedding), float(row.head))
            alone = passes.stage(*layers)
            loss = slowed.loss(alone, layers)
            known[alike(row)] = (
                [float(loss.forward[name][0]) for name in CONTENDERS],
                [float(loss.backward[name][0]) for name in CONTENDERS],
            )
    table = np.array([known[alike(row)] for row in rows])
    return loss_table(table[:, 0], table[:, 1])


def _fill(step: StepBuilder, *, checkpoint: bool, meeting: bool) -> None:
    """Puts everything that a step does into its program."""
    compute(step.program, step.pieces, step.parts)
    launch(step.program, step.pieces, step.parts)
    inner.attach(step.program, step.pieces, step.parts.traffic)
    communication.connect(
        step.program, step.pieces, step.emission, costs.p2p_bytes(step.training, step.cluster.accelerator)
    )
    gather_for_passes(step)
    reads = read_samples(step)
    end = finish(step, reduce_gradients(step), meeting=meeting)
    wait_for_storage(step, reads, save_state(step, end, checkpoint=checkpoint))


def _emission(layout: Layout, schedule: PipelineSchedule, parts: StageParts) -> Emission:
    paired = schedule.paired if layout.overlap_expert and layout.ep > 1 else None
    sequences = (paired or schedule.sequences)(layout.pp, layout.vp, layout.micro_batches)
    chunks = 2 if schedule.mirrored else layout.vp
    return emit(sequences, chunks, parts.pass_ps[: parts.stages], mirrored=schedule.mirrored)


def _check(layout: Layout, ranks: int) -> None:
    """Divisions without which there is no graph; what does not fit in memory is `layout.check_fit`'s business."""
    experts, stage = layout.ep * layout.expert_tp, layout.tp * layout.cp * layout.dp
    batch = layout.dp * layout.micro_batch
    problems = [
        Problem(message, key=key, found=str(found), allowed=allowed)
        for wrong, message, key, found, allowed in (
            (layout.ranks != ranks, "the layout takes another number of ranks than the cluster has", "parallelism",
             layout.ranks, f"{ranks}"),
            (stage % experts != 0, "expert parallelism does not divide the ranks of a stage", "parallelism.ep",
             experts, f"a divisor of {stage}"),
            (layout.replicas % layout.shard_ranks != 0, "the FSDP shard group does not divide the replicas",
             "parallelism.fsdp_shard", layout.shard_ranks, f"a divisor of {layout.replicas}"),
            (layout.global_batch % batch != 0 or layout.global_batch < batch,
             "the global batch is not a whole number of micro-batches on each replica", "global_batch",
             layout.global_batch, f"a multiple of {batch}"),
        )
        if wrong
    ]  # fmt: skip
    if problems:
        raise InputError.many(problems)


_HASHED = frozenset({"ecmp", "flowlet"})


def hashes(cluster: Cluster) -> bool:
    """Whether a network of the job hashes paths between switches."""
    return any(_hashed(network) for network in (cluster.back_end, cluster.storage) if network is not None)


def _hashed(network: Network) -> bool:
    several = any(tier.kind != "access" for tier in network.tiers)
    return several and network.fabric.load_balancing in _HASHED


def redrawn(cluster: Cluster, shift: int) -> Cluster:
    """The cluster with every network's hash seed increased by `shift`; the same cluster if nothing is hashed."""
    if shift == 0 or not hashes(cluster):
        return cluster
    return cluster.with_networks(lambda network: replace(network, seed=network.seed + shift))


T = TypeVar("T")
# Tables of a few rows: one a network that is tried.
_MOST_LOSSES = 64
# Of graphs that variants choose their layouts by; about 100 bytes a task.
_MOST_TASKS = 2_000_000


@dataclass
class Graphs:
    """Task graphs, built once for all variants with the same computations: fabrics do not change what runs.

    The slowdown of computation by communication depends on the network, and is filled in for each.

    Attributes:
        most: Number of graphs that are kept whatever their size.
        tasks: Maximum tasks of all graphs kept until `forget`.
    """

    most: int = 4
    tasks: int = _MOST_TASKS
    _graphs: list[tuple[tuple[Any, ...], TaskGraph]] = field(default_factory=list)
    _losses: list[tuple[tuple[Any, ...], NDArray[np.float64]]] = field(default_factory=list)
    _lock: Lock = field(default_factory=Lock)
    _steps: list[tuple[tuple[Any, ...], dict[str, float]]] = field(default_factory=list)
    _stepping: Lock = field(default_factory=Lock)

    def once(
        self, training: Training, cluster: Cluster, conditions: tuple[Any, ...], run: Callable[[], dict[str, float]]
    ) -> dict[str, float]:
        """What `run` finds of a step that no network influences, once for all variants that compute the same."""
        with self._stepping:
            return _kept(self._steps, (*_alike(training, cluster), *conditions), run)

    def of(self, training: Training, cluster: Cluster, *, checkpoint: bool = False, meeting: bool = False) -> TaskGraph:
        """The graph of one step.

        Raises:
            InputError: The layout does not fit the cluster.
        """
        alike, machine = _alike(training, cluster), Machine.of(cluster)

        def built() -> TaskGraph:
            graph = build(training, cluster, checkpoint=checkpoint, meeting=meeting)
            if graph.loss is not None:
                self._losses.append(((*alike, machine), graph.loss))
            return graph

        with self._lock:
            graph = _kept(self._graphs, (*alike, checkpoint, meeting), built)
            while len(self._graphs) > self.most and sum(len(kept) for _, kept in self._graphs) > self.tasks:
                del self._graphs[0]
            if graph.loss is None:
                return graph
            loss = _kept(self._losses, (*alike, machine), lambda: losses(training, cluster.accelerator, machine))
            del self._losses[:-_MOST_LOSSES]
            return replace(graph, loss=loss)

    def forget(self) -> None:
        """Drops all but the last few graphs."""
        with self._lock:
            del self._graphs[: -self.most]


def _kept(table: list[tuple[tuple[Any, ...], T]], key: tuple[Any, ...], make: Callable[[], T]) -> T:
    """The entry of a table under a key; made if missing."""
    for known, value in table:
        if known == key:
            return value
    table.append((key, make()))
    return table[-1][1]


def _alike(training: Training, cluster: Cluster) -> tuple[Any, ...]:
    """Key that is equal for jobs with the same computations."""
    return (
        training,
        cluster.accelerator,
        cluster.server,
        cluster.ranks,
        cluster.storage is None,
        cluster.spec.memory_pool,
        _circuits(cluster),
    )


def _circuits(cluster: Cluster) -> TopologySpec | None:
    """The topology whose circuits between servers change what exchanges of experts take; None: it has none."""
    circuits = cluster.back_end.wiring.circuits
    return None if circuits is None or circuits.servers is None else cluster.spec.back_end.topology
