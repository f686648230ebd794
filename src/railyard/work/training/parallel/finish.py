"""What ends a step: gradients that stages share, the norm of all gradients, the optimizer, gathers of parameters."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from railyard.graph import CollectiveKind, Kind, Stream
from railyard.kit.errors import InputError
from railyard.kit.quantities import format_size
from railyard.work.training import compute as costs
from railyard.work.training.parallel.communication import gather_behind_optimizer
from railyard.work.training.passes import CONTENDERS
from railyard.work.training.slots import NONE
from railyard.work.training.sync.graph import asked_of
from railyard.work.training.sync.local import outer_work

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from railyard.cluster import Cluster
    from railyard.work.training.offload import Offload
    from railyard.work.training.parallel.pieces import Pending, StepBuilder
    from railyard.work.training.spec import Training


# In front of everything else of a step.
_START = -4


@dataclass(frozen=True)
class _Leg:
    """Position of a meeting's collectives: at the end of the step, or from its start, overlapping everything."""

    here: NDArray[np.int64]
    order: int
    overlapped: bool

    def add(
        self, step: StepBuilder, space: str, size: NDArray[np.int64], kind: CollectiveKind, op: str
    ) -> NDArray[np.int64]:
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
    return min(1.0, updates.fragments * max(1.0, updates.overlap) / updates.inner_steps)


def meet(step: StepBuilder, order: int) -> None:
    """The synchronization of workers in this step: all of it at the end, or a step's share of it, overlapped."""
    asked = asked_of(step.training)
    updates = None if asked is None else asked.meets()
    if updates is None:
        return
    lattice = step.program.lattice
    overlapped = updates.overlap > 0
    share = meeting_share(updates.fragments, updates.overlap, updates.inner_steps)
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


# What the buffers held is stored, and the first parts loaded in its place, from the beginning of the step on.


def update_in_parts(
    step: StepBuilder,
    offload: Offload,
    order: int,
    work: tuple[NDArray[np.float64], NDArray[np.int64]],
    awaited: list[NDArray[np.int64]],
) -> NDArray[np.int64]:
    """Adds loads, updates and stores.

    Args:
        step: With all passes.
        offload: What lies elsewhere.
        order: Of the updates.
        work: Parameters that one rank of every stage updates, float64[pp], and how long that takes, int64[pp] in ps.
        awaited: What loads wait for that have no buffer yet, int64[pp] each.

    Returns:
        int64[pp], the last update of every stage.

    Raises:
        InputError: The cluster has no memory pool, or one without room.
    """
    parameters, update_ps = work
    size = np.ceil(parameters * step.training.software.state_bytes(step.training.layout.zero))
    check_room(step.cluster, size * (1.0 - offload.resident))
    part_bytes = np.ceil(size / offload.parts).astype(np.int64)
    part_ps = np.rint(update_ps / offload.parts).astype(np.int64)
    ahead = offload.buffers if offload.overlap else 0
    # What frees the buffer of each part.
    free = [[_moves(step, Kind.STORE, _START, part_bytes)] for _ in range(ahead)] or [awaited]
    updates = awaited[-1]
    for part in range(offload.parts):
        loads = _moves(step, Kind.LOAD, _START if part < ahead else order, part_bytes)
        for one in free[part]:
            step.program.wait(loads, one)
        updates = _add(step, Kind.COMPUTE, Stream.COMPUTE, order, "update", duration_ps=part_ps)
        step.program.wait(updates, loads)
        if part < offload.parts - ahead:
            stores = _moves(step, Kind.STORE, order, part_bytes)
            step.program.wait(stores, updates)
            free.append([stores])
    return updates


def _moves(step: StepBuilder, kind: Kind, order: int, size_bytes: NDArray[np.int64]) -> NDArray[np.int64]:
    """Loads or stores of a part."""
    stream, op = (Stream.LOAD, "load state") if kind == Kind.LOAD else (Stream.STORE, "store state")
    return _add(step, kind, stream, order, op, size_bytes=size_bytes)


def _add(step: StepBuilder, kind: Kind, stream: Stream, order: int, op: str, **columns: Any) -> NDArray[np.int64]:
    stages = np.arange(step.training.layout.pp)
    orders = np.full(len(stages), order)
    return step.program.add("rank", kind, stream, stage=stages, order=orders, phase="optimizer", op=op, **columns)


def check_room(cluster: Cluster, rank_bytes: NDArray[np.float64]) -> None:
    """Refuses state for which the memory pool has no room.

    Args:
        cluster: With the pool.
        rank_bytes: float64[pp], of one rank of every stage; stages fill servers one after another.

    Raises:
        InputError: There is no pool, or no room.
    """
    pool = cluster.memory_pool
    if pool is None:
        raise InputError("`offload` needs a memory pool in the cluster", key="offload")
    held = np.repeat(rank_bytes, cluster.ranks // len(rank_bytes))
    most = float(held.sum()) / pool.units
    if pool.unit.size:
        server = np.bincount(np.arange(cluster.ranks) // cluster.ranks_per_server, held) / pool.unit.shape[1]
        most = float(np.bincount(pool.unit[: len(server)].ravel(), np.repeat(server, pool.unit.shape[1])).max())
    if most > pool.capacity_bytes:
        raise InputError(
            "the state does not fit in the memory pool",
            key="offload",
            found=f"{format_size(int(most))} for one of its units",
            allowed=f"at most {format_size(pool.capacity_bytes)}",
        )


# The square of the gradients' norm, summed over all ranks in 32 bits, tells each how to scale them.
NORM_BYTES = 4


def finish(step: StepBuilder, pending: list[Pending], *, meeting: bool = False) -> NDArray[np.int64]:
    """Adds the end of the step.

    Args:
        step: With all passes and reductions.
        pending: Slots that still overlap computation.
        meeting: Whether workers that step by themselves exchange something in this step.

    Returns:
        int64[pp], the last slot of every stage.
    """
    order = step.tail
    _shared_embedding(step, order, pending)
    _split_norms(step, order + 1)
    clip = _gradient_norm(step, order + 2)
    end = _optimizer(step, order + 3, [] if clip is None else [np.broadcast_to(clip, step.training.layout.pp)])
    if clip is not None:
        for awaited in (*_latest(step, pending), *_overlapped(step)):
            step.program.wait(clip, awaited)
    if meeting:
        meet(step, order + 5)
    gather_behind_optimizer(step, order + 7)
    return end


def behind(step: StepBuilder) -> int:
    """A place behind the end of the step, for what storage still does."""
    return step.tail + 12 + 2 * step.parts.stages


def _latest(step: StepBuilder, pending: list[Pending]) -> list[NDArray[np.int64]]:
    """For each kind of pending slots the last one of every stage; int64[pp] each."""
    columns = []
    for kind in pending:
        latest = np.full(step.training.layout.pp, NONE, np.int64)
        latest[kind.stage] = kind.slots  # ascending, so the last one stays
        columns.append(latest)
    return columns


def _overlapped(step: StepBuilder) -> list[NDArray[np.int64]]:
    """Overlapping collectives of the last piece of every stage; int64[pp] each."""
    last = np.zeros(step.training.layout.pp, np.int64)
    last[step.pieces.stage] = np.arange(len(step.pieces))
    return [column[last] for column in step.pieces.overlapped_ends()]


def _shared_embedding(step: StepBuilder, order: int, pending: list[Pending]) -> None:
    """The first and the last stage hold one embedding where input and output share it: they sum its gradients."""
    model, layout = step.training.model, step.training.layout
    if not model.tied_embeddings or layout.pp == 1:
        return
    slot = step.program.add(
        "embedding",
        Kind.COLLECTIVE,
        Stream.COMPUTE,
        stage=0,
        order=order,
        phase="gradient",
        op="reduce shared embedding",
        size_bytes=-(-model.vocab * model.hidden * step.training.software.gradient_bytes // layout.tp),
    )
    for latest in _latest(step, pending):
        step.program.wait(slot, latest[[0]])
        step.program.wait(slot, latest[[-1]])


def _split_norms(step: StepBuilder, order: int) -> None:
    """Under sequence parallelism each tp rank has seen some of the tokens: gradients of the norms are summed."""
    model, layout = step.training.model, step.training.layout
    if layout.tp == 1 or not layout.sequence_parallel:
        return
    stages = np.arange(step.parts.stages)
    layers = np.bincount(stages % layout.pp, step.parts.layers[stages], layout.pp).astype(np.int64)
    holding = np.flatnonzero(layers)
    each = model.norms_per_layer * model.norm_parameters() * step.training.software.gradient_bytes
    step.program.add(
        "tp",
        Kind.COLLECTIVE,
        Stream.COMPUTE,
        stage=holding,
        order=np.full(len(holding), order),
        phase="gradient",
        op="reduce norms",
        size_bytes=layers[holding] * each,
    )


def _gradient_norm(step: StepBuilder, order: int) -> NDArray[np.int64] | None:
    if step.program.lattice.communicator_size("world") == 1:
        return None
    return step.program.add(
        "world",
        Kind.COLLECTIVE,
        Stream.COMPUTE,
        stage=0,
        order=order,
        phase="gradient",
        op="gradient norm",
        size_bytes=NORM_BYTES,
        collective=CollectiveKind.ALL_REDUCE,
    )


def _optimizer(step: StepBuilder, order: int, clip: list[NDArray[np.int64]]) -> NDArray[np.int64]:
    """The update of what each rank holds, or of what it keeps elsewhere, and the host's fixed time of a step.

    The buffer of gradients is passed over twice more, for its norm and to clear it. `optimizer_ps` counts parameters,
    so those bytes are put as the parameters whose update moves as many.
    """
    training, pp = step.training, step.training.layout.pp
    updated, software = updated_parameters(step), training.software
    buffer = updated if training.layout.zero >= 2 else _parameters(step, 1, 1)
    moved = updated + 2.0 * buffer * software.gradient_bytes / software.optimizer_bytes
    update = [costs.optimizer_ps(training, step.cluster.accelerator, count) for count in moved.tolist()]
    took = np.array(update, np.int64)
    if training.offload is None:
        slots = _on_all(step, order, "update", took)
    else:
        awaited = [*clip, _last_computed(step)]
        slots = update_in_parts(step, training.offload, order, (updated, took), awaited)
    if training.software.step_ps:
        slots = _on_all(step, order + 1, "host", np.full(pp, training.software.step_ps))
    return slots


def _last_computed(step: StepBuilder) -> NDArray[np.int64]:
    """int64[pp], the last computation of every stage's passes."""
    last = np.zeros(step.training.layout.pp, np.int64)
    last[step.pieces.stage] = step.pieces.compute
    return last


def _on_all(step: StepBuilder, order: int, op: str, duration_ps: NDArray[np.int64]) -> NDArray[np.int64]:
    pp = step.training.layout.pp
    return step.program.add(
        "rank",
        Kind.COMPUTE,
        Stream.COMPUTE,
        stage=np.arange(pp),
        order=np.full(pp, order),
        phase="optimizer",
        op=op,
        duration_ps=duration_ps,
    )


def updated_parameters(step: StepBuilder) -> NDArray[np.float64]:
    """float64[pp]: parameters that one rank of every stage updates, after sharding."""
    shards = {holding.name: holding.ranks for holding in step.plan.holdings} if step.plan.sharded else {}
    return _parameters(step, shards.get("dense", 1), shards.get("expert", 1))


def distinct_parameters(step: StepBuilder) -> NDArray[np.float64]:
    """float64[pp]: parameters of a stage, shared out evenly over the ranks that hold the same ones."""
    layout = step.training.layout
    return _parameters(step, layout.dp * layout.cp, layout.edp)


def _parameters(step: StepBuilder, dense_ranks: int, expert_ranks: int) -> NDArray[np.float64]:
    stages = np.arange(step.parts.stages)
    rank, pp = stages % step.training.layout.pp, step.training.layout.pp
    dense = np.bincount(rank, step.parts.trained_dense[stages], pp) / dense_ranks
    expert = np.bincount(rank, step.parts.trained_expert[stages], pp) / expert_ranks
    return np.asarray(dense + expert, np.float64)
