"""The operations of a step, cut into pieces, and the slots of each piece so far."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from railyard.graph import HOST, CollectiveKind, Kind, Stream
from railyard.kit.registry import Registry
from railyard.work.training.passes import CONTENDERS
from railyard.work.training.schedule import Op
from railyard.work.training.slots import NONE

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from railyard.cluster import Cluster
    from railyard.work.training.parallel.data import DataPlan
    from railyard.work.training.parallel.parts import StageParts, StageTraffic
    from railyard.work.training.schedule import Emission
    from railyard.work.training.slots import StepProgram
    from railyard.work.training.spec import Training


# Distance between the reductions of two virtual stages after all pieces: room for two holdings and their traffic.
STRIDE = 16


@dataclass(frozen=True)
class StepBuilder:
    """One optimizer step.

    Attributes:
        parts: Costs of stages and their segments.
        emission: The operations of all pipeline ranks in one order.
        pieces: The operations, cut where data-parallel traffic needs it.
    """

    training: Training
    cluster: Cluster
    parts: StageParts
    emission: Emission
    plan: DataPlan
    pieces: Pieces
    program: StepProgram

    @property
    def tail(self) -> int:
        """A position after all pieces and reductions, before the end of the step."""
        return self.pieces.finish + STRIDE * self.parts.stages


@dataclass(frozen=True)
class Pending:
    """Slots that overlap computation, in the order of their stream; the end of the step waits for them.

    Attributes:
        slots: int64[n].
        stage: int32[n], stage of each.
    """

    slots: NDArray[np.int64]
    stage: NDArray[np.int32]


# Places of a piece's slots in the order of its stage: gathered parameters, what runs beside the computation, the
# computation, collectives on its stream, sends, reductions. `SPAN` is the distance between two pieces.
GATHER, BESIDE, AGAIN, COMPUTE, OPEN, SEND, REDUCE, SPAN = 0, 8, 96, 97, 98, 192, 200, 256

# Rows of the table of losses: each part's passes, one after another.
_PASSES = ("forward", "backward", "weight", "recompute")
_PHASES = {Op.FORWARD: "forward", Op.BACKWARD: "backward", Op.WEIGHT: "weight"}


@dataclass
class Pieces:
    """n pieces in the order of the step; columns as long as that.

    Attributes:
        operation: int64[n], row of the emission.
        stage, virtual_stage, micro_batch, op: As in the emission.
        part: int64[n], row of the parts table.
        first, last: bool[n], whether the piece begins or ends its operation.
        before: int64[n], piece before it on the same stage, -1 at the start.
        full: bool[n], as in the emission.
        joined: bool[n], whether the piece begins an operation that is one chunk with the piece before it.
        together: bool[n], whether its operation is part of such a chunk.
        entry: int64[n], first slot of the piece on the compute stream, not counting gathers.
        compute: int64[n], its computation.
        end: int64[n], last slot on the compute stream.
        overlapped: For each overlapping stream two columns int64[n], the piece's first and last slot on it, `NONE` if
            there is
            none.
    """

    operation: NDArray[np.int64]
    stage: NDArray[np.int32]
    virtual_stage: NDArray[np.int32]
    micro_batch: NDArray[np.int32]
    op: NDArray[np.uint8]
    part: NDArray[np.int64]
    first: NDArray[np.bool_]
    last: NDArray[np.bool_]
    before: NDArray[np.int64]
    full: NDArray[np.bool_]
    joined: NDArray[np.bool_]
    together: NDArray[np.bool_]
    entry: NDArray[np.int64] = field(default_factory=lambda: np.empty(0, np.int64))
    compute: NDArray[np.int64] = field(default_factory=lambda: np.empty(0, np.int64))
    end: NDArray[np.int64] = field(default_factory=lambda: np.empty(0, np.int64))
    overlapped: dict[Stream, tuple[NDArray[np.int64], NDArray[np.int64]]] = field(default_factory=dict)

    def __len__(self) -> int:
        return len(self.stage)

    @property
    def order(self) -> NDArray[np.int64]:
        """int64[n], the position of each piece in the order of slots."""
        return np.arange(len(self), dtype=np.int64) * SPAN

    @property
    def finish(self) -> int:
        """A position after all pieces."""
        return len(self) * SPAN

    def at(self, chosen: NDArray[np.int64]) -> dict[str, Any]:
        """Stage, virtual stage and micro-batch of some pieces, as `StepProgram.add` takes them."""
        return {name: getattr(self, name)[chosen] for name in ("stage", "virtual_stage", "micro_batch")}

    def previous(self, column: NDArray[np.int64]) -> NDArray[np.int64]:
        """For each piece the entry of the piece before it on its stage, `NONE` for the first."""
        return np.where(self.before >= 0, column[self.before], NONE)

    def outside(self, column: NDArray[np.int64]) -> NDArray[np.int64]:
        """The same of the last piece that is not of the same chunk."""
        return np.where(self.joined & (self.before >= 0), self.previous(column)[self.before], self.previous(column))

    def within(self, column: NDArray[np.int64]) -> NDArray[np.int64]:
        """For each piece after a chunk of two the entry of the chunk's first one, else `NONE`."""
        behind = (self.before >= 0) & self.joined[self.before]
        return np.where(behind, self.previous(column)[self.before], NONE)

    def begins(self) -> list[NDArray[np.int64]]:
        """Columns of the slots that must wait for inputs of the piece from elsewhere."""
        return [self.entry, *(first for first, _ in self.overlapped.values())]

    def overlapped_ends(self) -> list[NDArray[np.int64]]:
        """Columns of the slots off the compute stream whose ends are the end of the piece."""
        return [last for _, last in self.overlapped.values()]

    def put_overlapped(self, stream: Stream, where: NDArray[np.int64], slots: NDArray[np.int64]) -> None:
        """Records slots on a stream that overlaps computation, after those already there."""
        none = np.full(len(self), NONE, np.int64)
        first, last = self.overlapped.setdefault(stream, (none, none.copy()))
        first[where] = np.where(first[where] == NONE, slots, first[where])
        last[where] = slots


def cut(emission: Emission, parts: StageParts, split: NDArray[np.bool_]) -> Pieces:
    """The pieces of all operations.

    Args:
        emission: The operations.
        parts: The table of stages and their segments.
        split: bool[operations], operations to cut into the segments of their stage.
    """
    number = np.where(split, parts.segments[emission.virtual_stage], 1)
    operation = np.repeat(np.arange(len(emission), dtype=np.int64), number)
    start = np.cumsum(number) - number
    position = np.arange(len(operation)) - start[operation]
    virtual, op = emission.virtual_stage[operation], emission.op[operation]
    # Backward goes through the segments from the last to the first.
    along = np.where(op == Op.FORWARD, position, number[operation] - 1 - position)
    segment = parts.first_segment[virtual] + along
    stage = emission.stage[operation]
    return Pieces(
        operation=operation,
        stage=stage,
        virtual_stage=virtual,
        micro_batch=emission.micro_batch[operation],
        op=op,
        part=np.where(split[operation], segment, virtual),
        first=position == 0,
        last=position == number[operation] - 1,
        before=_before(stage),
        full=emission.full[operation],
        joined=(position == 0) & emission.joins[operation],
        together=(emission.partners() >= 0)[operation],
    )


def _before(stage: NDArray[np.int32]) -> NDArray[np.int64]:
    """For each piece the one before it on the same stage."""
    order = np.argsort(stage, kind="stable")
    before = np.full(len(stage), -1, np.int64)
    same = stage[order[1:]] == stage[order[:-1]]
    before[order[1:][same]] = order[:-1][same]
    return before


def compute(program: StepProgram, pieces: Pieces, parts: StageParts) -> None:
    """Puts the computation of every piece on its stage's compute stream, preceded by its recomputation."""
    slots = np.full(len(pieces), NONE, np.int64)
    for op, phase in _PHASES.items():
        chosen = np.flatnonzero(pieces.op == op)
        part = pieces.part[chosen]
        duration = parts.time_ps[part, op] + pieces.full[chosen] * parts.time_ps[part, Op.WEIGHT]
        slots[chosen] = _computation(program, pieces, chosen, duration_ps=duration, phase=phase, place=COMPUTE)
    again = np.flatnonzero((pieces.op == Op.BACKWARD) & (parts.recompute_ps[pieces.part] > 0))
    entry = slots.copy()
    duration = parts.recompute_ps[pieces.part[again]]
    entry[again] = _computation(program, pieces, again, duration_ps=duration, phase="recompute", place=AGAIN)
    pieces.compute, pieces.entry, pieces.end = slots, entry, slots.copy()


def loss_table(forward: NDArray[np.float64], backward: NDArray[np.float64]) -> NDArray[np.float64]:
    """float64[parts * passes, contenders]: losses of all passes of all parts, of [parts, contenders] each way."""
    return np.stack([forward, backward, backward, forward], axis=1).reshape(-1, forward.shape[1])


def loss_row(part: NDArray[np.int64], number: int) -> NDArray[np.int64]:
    """The row of that table that a part's pass has."""
    return part * len(_PASSES) + number


def _computation(
    program: StepProgram,
    pieces: Pieces,
    chosen: NDArray[np.int64],
    *,
    duration_ps: NDArray[np.int64],
    phase: str,
    place: int,
) -> NDArray[np.int64]:
    return program.add(
        "rank",
        Kind.COMPUTE,
        Stream.COMPUTE,
        **pieces.at(chosen),
        order=pieces.order[chosen] + place,
        phase=phase,
        op="compute",
        duration_ps=duration_ps,
        loss_index=loss_row(pieces.part[chosen], _PASSES.index(phase)),
    )


def launch(program: StepProgram, pieces: Pieces, parts: StageParts) -> None:
    """Puts the host's launches of every pass that waits for them on its stage's host."""
    part, both = pieces.part, pieces.full
    device = parts.time_ps[part, pieces.op] + both * parts.time_ps[part, Op.WEIGHT]
    device = device + (pieces.op == Op.BACKWARD) * parts.recompute_ps[part]
    host = parts.host_ps[part, pieces.op] + both * parts.host_ps[part, Op.WEIGHT]
    slow = np.flatnonzero(host > device)
    if not slow.size:
        return
    slots = program.add(
        "rank",
        Kind.COMPUTE,
        Stream.HOST,
        **pieces.at(slow),
        order=pieces.order[slow] + BESIDE,
        phase=HOST,
        op="launch",
        duration_ps=host[slow],
    )
    pieces.put_overlapped(Stream.HOST, slow, slots)


_OPS = {"forward": Op.FORWARD, "backward": Op.BACKWARD, "recompute": Op.BACKWARD}


@dataclass(frozen=True)
class Inner:
    """A way to split a layer over ranks.

    Attributes:
        group: Class of its communicators.
        stream: Stream of the hidden share of its collectives.
        summary: What is split and what is exchanged.
    """

    group: str
    stream: Stream
    summary: str
    source: str


inners: Registry[Inner] = Registry("split of a layer")


def attach(program: StepProgram, pieces: Pieces, traffic: tuple[StageTraffic, ...]) -> None:
    """Puts the collectives of all pieces on their streams; groups of one rank exchange nothing."""
    real = [t for t in traffic if program.lattice.communicator_size(t.group) > 1]
    for number, one in enumerate(real):
        _open(program, pieces, one, OPEN + number)
    for number, one in enumerate(real):
        paired = one.group == "ep"
        if paired:
            _uncovered(program, pieces, one, OPEN + len(real) + number)
        _hidden(program, pieces, one, BESIDE + number, where=pieces.together if paired else None)
    for first, _ in pieces.overlapped.values():
        program.wait(first, pieces.outside(pieces.end))
    for last in pieces.overlapped_ends():
        program.wait(pieces.entry, np.where(pieces.joined, NONE, pieces.previous(last)))
        program.wait(pieces.entry, pieces.within(last))


def _chosen(pieces: Pieces, traffic: StageTraffic, count: NDArray[np.int64]) -> NDArray[np.int64]:
    return np.flatnonzero((pieces.op == _OPS[traffic.phase]) & (count[pieces.part] > 0))


def _add(
    program: StepProgram,
    pieces: Pieces,
    traffic: StageTraffic,
    chosen: NDArray[np.int64],
    place: int,
    *,
    hidden: bool,
    stream: Stream = Stream.COMPUTE,
) -> NDArray[np.int64]:
    """Slots of the exchanges that a pass waits for, or of those that it may hide."""
    part = pieces.part[chosen]
    size, count = (traffic.hidden_bytes, traffic.hidden_count) if hidden else (traffic.open_bytes, traffic.open_count)
    return program.add(
        traffic.group,
        Kind.COLLECTIVE,
        stream,
        **pieces.at(chosen),
        order=pieces.order[chosen] + place,
        phase=traffic.phase,
        op=CollectiveKind(traffic.kind).name.lower().replace("_", "-"),
        size_bytes=size[part],
        count=count[part],
        collective=traffic.kind,
        loss_index=CONTENDERS.index(traffic.group) if stream != Stream.COMPUTE else -1,
    )


def _open(program: StepProgram, pieces: Pieces, traffic: StageTraffic, place: int) -> None:
    chosen = _chosen(pieces, traffic, traffic.open_count)
    pieces.end[chosen] = _add(program, pieces, traffic, chosen, place, hidden=False)


def _uncovered(program: StepProgram, pieces: Pieces, traffic: StageTraffic, place: int) -> None:
    """Exchanges that would overlap another micro-batch are exposed if a pass has none to overlap with."""
    chosen = _chosen(pieces, traffic, traffic.hidden_count)
    chosen = chosen[~pieces.together[chosen]]
    pieces.end[chosen] = _add(program, pieces, traffic, chosen, place, hidden=True)


def _hidden(
    program: StepProgram, pieces: Pieces, traffic: StageTraffic, place: int, *, where: NDArray[np.bool_] | None = None
) -> None:
    chosen = _chosen(pieces, traffic, traffic.hidden_count)
    chosen = chosen if where is None else chosen[where[chosen]]
    if chosen.size:
        stream = inners.get(traffic.group).stream
        slots = _add(program, pieces, traffic, chosen, place, hidden=True, stream=stream)
        pieces.put_overlapped(stream, chosen, slots)


CONTEXT = inners.add(
    "cp",
    Inner(
        group="cp",
        stream=Stream.CONTEXT,
        summary="Sequences over ranks; all-gather of keys and values in each layer, reduce-scatter of their gradients",
        source="Liu et al., Ring Attention (arXiv 2310.01889); Llama 3 (arXiv 2407.21783), section 3.3.2",
    ),
)


EXPERT = inners.add(
    "ep",
    Inner(
        group="ep",
        stream=Stream.EXPERT,
        summary="Experts over ranks; all-to-all of tokens to their experts and back in each layer with experts",
        source="Lepikhin et al., GShard (arXiv 2006.16668); overlap: DeepSeek-V3 (arXiv 2412.19437), section 3.2",
    ),
)


TENSOR = inners.add(
    "tp",
    Inner(
        group="tp",
        stream=Stream.TENSOR,
        summary="Matrix columns over ranks; all-gather and reduce-scatter, or all-reduce, of activations in each layer",
        source="Shoeybi et al., Megatron-LM (2019); Korthikanti et al., Sequence Parallelism (arXiv 2205.05198)",
    ),
)
