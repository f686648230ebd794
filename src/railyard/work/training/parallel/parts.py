"""Costs of virtual stages, whole and cut into segments: the table behind every slot.

A part is a virtual stage or some consecutive layers of it. Stages are cut where traffic can start or must arrive
between
two layers: gradients reduced during backward, parameters gathered during forward.
"""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from functools import partial
from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np

from railyard.work.training import compute as costs
from railyard.work.training.compute import StageCosts
from railyard.work.training.schedule import Op
from railyard.work.training.stages import virtual_stages

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    from railyard.catalog import Accelerator
    from railyard.graph import CollectiveKind
    from railyard.work.training.compute import StageParameters, StageTimes
    from railyard.work.training.spec import Training
    from railyard.work.training.stages import VirtualStage

    TimesOf = Callable[[Training, Accelerator, VirtualStage], StageTimes]


@dataclass(frozen=True)
class StageTraffic:
    """Collectives of one kind and group in one pass, over all parts.

    Attributes:
        group: `tp`, `cp` or `ep`.
        phase: `forward`, `backward` or `recompute`.
        open_bytes, open_count: int64[parts], size of one collective on the compute stream, and their number in
            sequence.
        hidden_bytes, hidden_count: int64[parts], the same for those that overlap computation.
    """

    group: str
    kind: CollectiveKind
    phase: str
    open_bytes: NDArray[np.int64]
    open_count: NDArray[np.int64]
    hidden_bytes: NDArray[np.int64]
    hidden_count: NDArray[np.int64]


@dataclass(frozen=True)
class StageParts:
    """Rows 0 to `virtual stages - 1` are whole stages; the segments follow, stage after stage.

    Attributes:
        segments: int64[virtual stages], how many segments each stage is cut into, in layer order.
        first_segment: int64[virtual stages], row of the first one.
        time_ps: int64[parts, 3], by `Op`; without recomputation. The whole backward pass is in `BACKWARD` unless the
            schedule
            splits it.
        recompute_ps: int64[parts].
        host_ps: int64[parts, 3], launch time of the host for the same; recomputation is in `BACKWARD`.
        layers: int64[parts], transformer layers.
        dense, expert: int64[parts], parameters of one rank before any sharding.
        trained_dense, trained_expert: int64[parts], the trained ones among them.
        rows: Virtual stage or segment of each part.
    """

    segments: NDArray[np.int64]
    first_segment: NDArray[np.int64]
    time_ps: NDArray[np.int64]
    recompute_ps: NDArray[np.int64]
    host_ps: NDArray[np.int64]
    layers: NDArray[np.int64]
    dense: NDArray[np.int64]
    expert: NDArray[np.int64]
    trained_dense: NDArray[np.int64]
    trained_expert: NDArray[np.int64]
    traffic: tuple[StageTraffic, ...]
    rows: tuple[VirtualStage, ...] = ()

    @property
    def stages(self) -> int:
        """Number of virtual stages."""
        return len(self.segments)

    @property
    def pass_ps(self) -> NDArray[np.int64]:
        """int64[parts, 3], passes alone: the longer of computation and host, without recomputation."""
        return np.maximum(self.time_ps, self.host_ps)


def stage_parts(
    training: Training,
    accelerator: Accelerator,
    segments: Callable[[VirtualStage, StageParameters], int],
    *,
    splits_backward: bool,
    times_of: TimesOf | None = None,
    host_bps: float = np.inf,
) -> StageParts:
    """The table of a job.

    Args:
        training: The job.
        accelerator: On which it runs.
        segments: Number of segments of a virtual stage; limited to its layers.
        splits_backward: Whether the schedule has separate operations for weight gradients.
        times_of: Replaces `compute.stage_times`, for measured or assumed times.
        host_bps: Bandwidth between an accelerator and its host, each way.
    """
    number, rows = rows_of(training, segments)
    ask = (
        StageCosts.of(training, accelerator, host_bps).times
        if times_of is None
        else partial(times_of, training, accelerator)
    )
    times = _remembered(ask, rows)
    parameters_of = [costs.stage_parameters(training, row) for row in rows]
    time_ps, host_ps = np.zeros((2, len(rows), len(Op)), np.int64)
    for row, time in enumerate(times):
        back, weight = time.backward_input_ps, time.backward_weight_ps
        later = time.host_backward_ps * weight // max(back + weight, 1)
        time_ps[row, [Op.FORWARD, Op.BACKWARD, Op.WEIGHT]] = time.forward_ps, back, weight
        host_ps[row, [Op.FORWARD, Op.BACKWARD, Op.WEIGHT]] = time.host_forward_ps, time.host_backward_ps - later, later
    if not splits_backward:
        for table in (time_ps, host_ps):
            table[:, Op.BACKWARD] += table[:, Op.WEIGHT]
            table[:, Op.WEIGHT] = 0
    return StageParts(
        segments=number,
        first_segment=len(number) + np.cumsum(number) - number,
        time_ps=time_ps,
        recompute_ps=np.array([time.recompute_ps for time in times], np.int64),
        host_ps=host_ps,
        layers=np.array([row.layers for row in rows], np.int64),
        dense=np.array([part.dense for part in parameters_of], np.int64),
        expert=np.array([part.expert for part in parameters_of], np.int64),
        trained_dense=np.array([part.trained_dense for part in parameters_of], np.int64),
        trained_expert=np.array([part.trained_expert for part in parameters_of], np.int64),
        traffic=_traffic(times, again=training.layout.recompute == "full"),
        rows=tuple(rows),
    )


def rows_of(
    training: Training, segments: Callable[[VirtualStage, StageParameters], int]
) -> tuple[NDArray[np.int64], list[VirtualStage]]:
    """Number of segments of each virtual stage, and the stages followed by their segments."""
    stages = virtual_stages(training.model, training.layout)
    cut = [_cut(training, stage, segments(stage, costs.stage_parameters(training, stage))) for stage in stages]
    return np.array([len(pieces) for pieces in cut], np.int64), [
        *stages,
        *(piece for pieces in cut for piece in pieces),
    ]


def _cut(training: Training, stage: VirtualStage, segments: int) -> list[VirtualStage]:
    """A stage cut into stretches of layers as equal as possible; the ends stay with the first and the last."""
    segments = max(1, min(segments, stage.layers))
    bounds = [stage.first_layer + stage.layers * i // segments for i in range(segments + 1)]
    return [
        dataclasses.replace(
            stage,
            first_layer=low,
            layers=high - low,
            moe_layers=sum(training.model.has_experts(layer) for layer in range(low, high)),
            embedding=stage.embedding and i == 0,
            head=stage.head and i == segments - 1,
        )
        for i, (low, high) in enumerate(pairwise(bounds))
    ]


def _remembered(ask: Callable[[VirtualStage], StageTimes], rows: list[VirtualStage]) -> list[StageTimes]:
    """Times of every row; parts with the same layers are computed once."""
    known: dict[tuple[int, int, bool, bool], StageTimes] = {}
    for row in rows:
        key = alike(row)
        if key not in known:
            known[key] = ask(row)
    return [known[alike(row)] for row in rows]


def alike(stage: VirtualStage) -> tuple[int, int, bool, bool]:
    """Key that is equal for two parts of the same cost."""
    return stage.layers, stage.moe_layers, stage.embedding, stage.head


def _traffic(times: list[StageTimes], *, again: bool) -> tuple[StageTraffic, ...]:
    """Collectives of all parts, merged by kind, group and pass.

    Of a collective that is pipelined with computation, the hidden share overlaps. The bytes of the open share
    ride on the collectives that are wholly open, if there are any: a last chunk costs its bytes, but no start. Else so
    large a share of the collectives is open, so that each starts once (but for a part of one layer, which has both).
    """
    keys = sorted({(c.group, c.kind, c.phase) for time in times for c in time.collectives})
    found = []
    for group, kind, phase in keys:
        columns = np.zeros((4, len(times)), np.int64)
        for row, time in enumerate(times):
            same = [c for c in time.collectives if (c.group, c.kind, c.phase) == (group, kind, phase)]
            columns[:, row] = _merged([(c.size_bytes, c.count, c.hidden) for c in same])
        found.append(StageTraffic(group, kind, phase, *columns))
        if again and phase == "forward":
            found.append(StageTraffic(group, kind, "recompute", *columns))
    return tuple(found)


def _merged(collectives: list[tuple[int, int, float]]) -> tuple[int, int, int, int]:
    """Open size and count, hidden size and count of (size, count, hidden share) rows; total bytes are preserved."""
    open_total = sum(size * count * (1.0 - hidden) for size, count, hidden in collectives)
    hidden_total = sum(size * count * hidden for size, count, hidden in collectives)
    wholly = sum(count for _, count, hidden in collectives if hidden == 0.0)
    partly = sum(count for _, count, hidden in collectives if hidden > 0.0)
    some = max(1, round(sum(count * (1.0 - hidden) for _, count, hidden in collectives)))
    open_count = (wholly or some) if open_total >= 1.0 else 0
    hidden_count = max(1, partly + wholly - open_count) if hidden_total >= 1.0 else 0
    return (
        round(open_total / open_count) if open_count else 0,
        open_count,
        round(hidden_total / hidden_count) if hidden_count else 0,
        hidden_count,
    )
