"""Reductions and gathers between replicas as tasks of a step."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from railyard.graph import CollectiveKind, Kind, Stream
from railyard.model.machine import Machine, MachineColumns
from railyard.work.training.alpha_beta import Group, collective_s
from railyard.work.training.parallel.pieces import Pending
from railyard.work.training.passes import CONTENDERS
from railyard.work.training.schedule import Op
from railyard.work.training.sync.closed_form import gather_work
from railyard.work.training.sync.shapes import bundle, table, without_table
from railyard.work.training.sync.wire import KernelWork, Peers, Reduction

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from railyard.work.training.parallel.data import Holding
    from railyard.work.training.parallel.pieces import StepBuilder
    from railyard.work.training.spec import Training
    from railyard.work.training.sync.spec import Communication

# Position of encoding on the compute stream of a piece: after its exposed collectives, before its sends.
CODE = 180
# Places of one holding's collectives behind a piece.
LEGS = 8


def asked_of(training: Training) -> Communication | None:
    """A job's communication methods; None if they change nothing."""
    asked = training.communication
    return None if asked is None or asked.plain else asked


@dataclass(frozen=True)
class _Made:
    """Reductions of one holding by part, all with the same rounds and collectives."""

    by_part: dict[int, Reduction]
    peers: Peers

    def work(self, parts: NDArray[np.int64], *, decoding: bool) -> list[KernelWork]:
        """Work of every piece, with or without what decodes the result."""
        made = [self.by_part[part] for part in parts.tolist()]
        return [one.work if decoding else sum((r.work for r in one.rounds), KernelWork()) for one in made]


def reduce_coded(
    step: StepBuilder,
    holding: Holding,
    chosen: NDArray[np.int64],
    *,
    order: NDArray[np.int64],
    counts: NDArray[np.int64],
    after: NDArray[np.int64],
) -> list[Pending]:
    """The reductions of a holding by the job's compression.

    Encoding runs on the compute stream, after the computation of the piece: kernels that encode in parallel with the
    backward pass slow both down (Agarwal et al. 2022, arXiv 2103.00543). Computation between two collectives is charged
    there too, so that the collectives of a piece run in sequence, overlapping computation. Results are decoded at the
    end of
    the step or, if every micro-batch is reduced, after the piece.

    Args:
        step: The step.
        holding: The parameters.
        chosen: int64[n], pieces after which they are reduced.
        order: int64[n], position of the reduction of each.
        counts: int64[parts], collectives of each part.
        after: int64[n], slots that they wait for in addition to their piece, or `NONE`.
    """
    pieces = step.pieces
    if not len(chosen):
        return []
    made = _made(step, holding, pieces.part[chosen], counts)
    count, each = counts[pieces.part[chosen]], step.plan.reduce_each
    before = made.work(pieces.part[chosen], decoding=each)
    coded = _code(step, chosen, before, count, order=pieces.order[chosen] + CODE)
    pending = _legs(step, holding, chosen, made, order=order, count=count, coded=coded)
    step.program.wait(pending[0].slots, after)
    if each:
        return pending if step.plan.reduce_overlapped else []
    last = [made.by_part[part].after for part in pieces.part[chosen].tolist()]
    behind = np.full(len(chosen), step.tail)
    decoded = _code(step, chosen, last, count, order=behind, awaited=pending[-1].slots)
    return [Pending(decoded, pieces.stage[chosen])]


def _made(step: StepBuilder, holding: Holding, parts: NDArray[np.int64], counts: NDArray[np.int64]) -> _Made:
    asked = asked_of(step.training)
    scheme = None if asked is None else asked.compression
    peers = Peers(holding.ranks, step.program.lattice.local(holding.space), step.plan.sharded)
    if scheme is None:
        return _Made({}, peers)
    found = {}
    for part in np.unique(parts).tolist():
        each = float(holding.parameters[part]) / float(counts[part])
        found[part] = scheme.reduction(bundle(step.training, holding.name, each), peers)
    return _Made(found, peers)


def _code(
    step: StepBuilder,
    chosen: NDArray[np.int64],
    work: list[KernelWork],
    count: NDArray[np.int64],
    *,
    order: NDArray[np.int64],
    awaited: NDArray[np.int64] | None = None,
) -> NDArray[np.int64]:
    """Encoding on the compute stream, one task per piece."""
    device, fraction = step.cluster.accelerator, step.training.software.memory_fraction
    seconds = np.array([one.seconds(device, fraction) for one in work]) * count
    slots = step.program.add(
        "rank",
        Kind.COMPUTE,
        Stream.COMPUTE,
        **step.pieces.at(chosen),
        order=order,
        phase="gradient",
        op="code gradients",
        duration_ps=np.rint(seconds * 1e12).astype(np.int64),
    )
    if awaited is not None:
        step.program.wait(slots, awaited)
    return slots


def _legs(
    step: StepBuilder,
    holding: Holding,
    chosen: NDArray[np.int64],
    made: _Made,
    *,
    order: NDArray[np.int64],
    count: NDArray[np.int64],
    coded: NDArray[np.int64],
) -> list[Pending]:
    """The collectives of every piece, in sequence."""
    pieces, overlapped = step.pieces, step.plan.reduce_overlapped
    parts = pieces.part[chosen].tolist()
    found: list[Pending] = []
    for leg, shape in enumerate(made.by_part[parts[0]].legs):
        sizes = [made.by_part[part].legs[leg].size_bytes for part in parts]
        slots = step.program.add(
            step.program.lattice.within(holding.space, shape.over),
            Kind.COLLECTIVE,
            Stream.GRADIENT if overlapped else Stream.COMPUTE,
            **pieces.at(chosen),
            order=order + leg,
            phase="gradient",
            op=f"reduce {holding.name}, coded",
            size_bytes=np.maximum(1, np.ceil(sizes).astype(np.int64)),
            count=count,
            collective=shape.kind,
            loss_index=CONTENDERS.index("dp") if overlapped else -1,
        )
        step.program.wait(slots, coded)
        found.append(Pending(slots, pieces.stage[chosen]))
    return found


def gathered(step: StepBuilder, holding: Holding, op: NDArray[np.uint8] | None) -> tuple[float, str]:
    """Bytes of a gathered parameter relative to 16 bits, and the ranks over which it is gathered.

    Args:
        step: The step.
        holding: The parameters.
        op: The operations that they are gathered for, all alike; None where none waits.
    """
    asked = asked_of(step.training)
    if asked is None or asked.compression is None:
        return 1.0, holding.space
    scheme = asked.compression
    inside = step.program.lattice.local(holding.space) > 1
    if scheme.second_copy and inside and op is not None and len(op) and bool((op == Op.BACKWARD).all()):
        return 1.0, step.program.lattice.within(holding.space, "inside")
    return scheme.parameter_share, holding.space


def decode_gathered(
    step: StepBuilder,
    holding: Holding,
    chosen: NDArray[np.int64],
    slots: NDArray[np.int64],
    *,
    share: float,
    place: int,
) -> None:
    """Decoding of gathered parameters, on the compute stream before the pass that needs them."""
    if share == 1.0 or not len(chosen):
        return
    pieces = step.pieces
    device, fraction = step.cluster.accelerator, step.training.software.memory_fraction
    each = [gather_work(float(n), share, holding.ranks) for n in holding.parameters[pieces.part[chosen]].tolist()]
    seconds = np.array([work.seconds(device, fraction) for work in each])
    decoded = step.program.add(
        "rank",
        Kind.COMPUTE,
        Stream.COMPUTE,
        **pieces.at(chosen),
        order=pieces.order[chosen] + place,
        phase="parameter",
        op="decode parameters",
        duration_ps=np.rint(seconds * 1e12).astype(np.int64),
    )
    step.program.wait(decoded, slots)


def sparse_sizes(step: StepBuilder, holding: Holding, sizes: NDArray[np.int64]) -> NDArray[np.int64]:
    """Gradient bytes of every part, without those of a table whose rows are sent."""
    asked = asked_of(step.training)
    if asked is None or asked.sparse is None or holding.name != "dense":
        return sizes
    found = sizes.copy()
    each = step.training.software.gradient_bytes
    for part in (0, int(step.parts.first_segment[0])):
        found[part] = round(without_table(step.training, float(holding.parameters[part])) * each)
    return np.maximum(found, 1)


def reduce_rows(
    step: StepBuilder, holding: Holding, chosen: NDArray[np.int64], order: NDArray[np.int64]
) -> list[Pending]:
    """The gather of touched rows after the piece that ends with the embedding; their sum ends the step."""
    asked, pieces = asked_of(step.training), step.pieces
    if asked is None or asked.sparse is None or holding.name != "dense":
        return []
    tables = (0, int(step.parts.first_segment[0]))
    here = np.flatnonzero(np.isin(pieces.part[chosen], tables))
    if not len(here):
        return []
    made = table(step.training, asked.sparse, Peers(holding.ranks, 1, sharded=False))
    where, count = chosen[here], np.ones(len(here), np.int64)
    coded = _code(step, where, [made.rounds[0].work] * len(where), count, order=pieces.order[where] + CODE)
    done = _Made({int(part): made for part in pieces.part[where]}, Peers(holding.ranks, 1, sharded=False))
    sent = _legs(step, holding, where, done, order=order[here] + 1, count=count, coded=coded)
    behind = np.full(len(where), step.tail)
    added = _code(step, where, [made.after] * len(where), count, order=behind, awaited=sent[-1].slots)
    return [Pending(added, pieces.stage[where])]


def priority_share(step: StepBuilder, holding: Holding) -> tuple[float, int]:
    """Share of each layer's gradients that is sent under backward, and the size of a piece; 1 and 0 without priority.

    With equal layers, pieces that are preempted by more urgent ones leave the same share of every layer behind: what
    the network cannot carry while backward runs. The rest is sent under the next forward pass, first layers first.
    """
    asked = asked_of(step.training)
    if asked is None or asked.scheduling is None or not step.plan.reduce_overlapped:
        return 1.0, 0
    stages, layout = step.parts.stages, step.training.layout
    passes = step.parts.pass_ps[:stages, Op.BACKWARD] + step.parts.pass_ps[:stages, Op.WEIGHT]
    backward_s = float((passes + step.parts.recompute_ps[:stages]).max())
    most = float(holding.parameters[:stages].max()) * step.training.software.gradient_bytes
    stride = layout.ep * layout.expert_tp if holding.name == "expert" else layout.tp
    group = Group(np.array([float(holding.ranks)]), np.array([float(stride)]))
    machine = MachineColumns.of([Machine.of(step.cluster)])
    fraction = np.array([step.training.software.collective_fraction])
    sent_s = float(collective_s(CollectiveKind.ALL_REDUCE, np.array([most]), group, machine, fraction)[0])
    return min(1.0, backward_s * 1e-12 / max(sent_s, 1e-12)), asked.scheduling.piece_bytes
