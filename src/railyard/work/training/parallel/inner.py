"""Collectives inside a stage, between the layers of one micro-batch: what tensor, context and expert share.

The open share runs on the compute stream, behind the computation of its piece: one task for all layers of the piece.
The hidden share runs on a stream of its own, beside the computation: it starts when the piece may start, and the next
piece, or the stage that this one sends to, waits for its end. In a chunk of two passes both hide under both.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from railyard.graph import CollectiveKind, Kind, Stream
from railyard.kit.registry import Registry
from railyard.work.training.contention import CONTENDERS
from railyard.work.training.parallel.pieces import BESIDE, OPEN
from railyard.work.training.program import NONE
from railyard.work.training.schedule import Op

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from railyard.work.training.parallel.parts import StageTraffic
    from railyard.work.training.parallel.pieces import Pieces
    from railyard.work.training.program import Program


_OPS = {"forward": Op.FORWARD, "backward": Op.BACKWARD, "recompute": Op.BACKWARD}


@dataclass(frozen=True)
class Inner:
    """A way of splitting a layer over ranks.

    Attributes:
        group: Class of its communicators.
        stream: Where the hidden share of its collectives runs.
        summary: What is split and what is exchanged.
        source: Where it is described.
    """

    group: str
    stream: Stream
    summary: str
    source: str


inners: Registry[Inner] = Registry("split of a layer")


def attach(program: Program, pieces: Pieces, traffic: tuple[StageTraffic, ...]) -> None:
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
    program: Program,
    pieces: Pieces,
    traffic: StageTraffic,
    chosen: NDArray[np.int64],
    *,
    stream: Stream,
    place: int,
    size: NDArray[np.int64],
    count: NDArray[np.int64],
) -> NDArray[np.int64]:
    return program.add(
        traffic.group,
        Kind.COLLECTIVE,
        stream,
        stage=pieces.stage[chosen],
        order=pieces.order[chosen] + place,
        phase=traffic.phase,
        op=CollectiveKind(traffic.kind).name.lower().replace("_", "-"),
        virtual_stage=pieces.virtual_stage[chosen],
        micro_batch=pieces.micro_batch[chosen],
        size_bytes=size[pieces.part[chosen]],
        count=count[pieces.part[chosen]],
        collective=traffic.kind,
        loss_index=CONTENDERS.index(traffic.group) if stream != Stream.COMPUTE else -1,
    )


def _open(program: Program, pieces: Pieces, traffic: StageTraffic, place: int) -> None:
    chosen = _chosen(pieces, traffic, traffic.open_count)
    size, count = traffic.open_bytes, traffic.open_count
    pieces.end[chosen] = _add(
        program, pieces, traffic, chosen, stream=Stream.COMPUTE, place=place, size=size, count=count
    )


def _uncovered(program: Program, pieces: Pieces, traffic: StageTraffic, place: int) -> None:
    """What would hide under another micro-batch is open where a pass has none beside it."""
    chosen = _chosen(pieces, traffic, traffic.hidden_count)
    chosen = chosen[~pieces.together[chosen]]
    size, count = traffic.hidden_bytes, traffic.hidden_count
    pieces.end[chosen] = _add(
        program, pieces, traffic, chosen, stream=Stream.COMPUTE, place=place, size=size, count=count
    )


def _hidden(
    program: Program, pieces: Pieces, traffic: StageTraffic, place: int, *, where: NDArray[np.bool_] | None = None
) -> None:
    chosen = _chosen(pieces, traffic, traffic.hidden_count)
    chosen = chosen if where is None else chosen[where[chosen]]
    if not chosen.size:
        return
    stream = inners.get(traffic.group).stream
    size, count = traffic.hidden_bytes, traffic.hidden_count
    slots = _add(program, pieces, traffic, chosen, stream=stream, place=place, size=size, count=count)
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
