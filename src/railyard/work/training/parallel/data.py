"""Data parallelism: when gradients are reduced and parameters gathered, over which ranks, and in what pieces.

| zero | gradients | parameters |
|---|---|---|
| 0 | all-reduce, after the last micro-batch | replicated |
| 1 | reduce-scatter, after the last micro-batch | all-gather once a step: under the next forward, or at the end |
| 2 | reduce-scatter; after every micro-batch without a pipeline | as 1 |
| 3 | as 2 | all-gather for every pass; without resharding for every forward pass, in a pipeline for the first |

A pipeline keeps whole gradients until the last micro-batch, as PyTorch and Megatron-LM do: reduced after every
micro-batch, they would cross the network once for each. Parameters that it does not drop after forward serve all
micro-batches, because their passes alternate; without a pipeline they are dropped after backward.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from railyard.work.training.schedule import Op

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from railyard.work.training.compute import StageParameters
    from railyard.work.training.parallel.parts import StageParts
    from railyard.work.training.schedule import Emission
    from railyard.work.training.slots import Lattice
    from railyard.work.training.spec import Training
    from railyard.work.training.stages import VirtualStage


def bucket_bytes(training: Training) -> int:
    """Gradient bytes of a bucket: as the layout asks, else as the software sizes it; 0: each layer is one."""
    layout, software = training.layout, training.software
    if layout.bucket_bytes:
        return layout.bucket_bytes
    ranks = layout.dp * layout.cp
    return max(software.bucket_parameters, software.bucket_parameters_per_rank * ranks) * software.gradient_bytes


def segments(training: Training, stage: VirtualStage, parameters: StageParameters) -> int:
    """Segments into which a virtual stage is cut: one a layer, or one a bucket of gradients where those are larger."""
    size = bucket_bytes(training)
    if training.layout.zero == 3 or not size:
        return stage.layers
    if _whole(training, stage.index):
        return 1
    most = max(parameters.trained_dense, parameters.trained_expert) * training.software.gradient_bytes
    return max(1, min(stage.layers, most // size))


def bucket_count(training: Training, parts: StageParts, trained: NDArray[np.int64]) -> NDArray[np.int64]:
    """int64[parts]: collectives in which the gradients of a part are reduced: one a layer, or one a bucket.

    Args:
        training: The job.
        parts: Its stages and their segments.
        trained: int64[parts], parameters whose gradients are reduced behind each, as of `bucketed`.
    """
    size = bucket_bytes(training)
    if training.layout.zero == 3 or not size:
        return np.maximum(parts.layers, 1)
    count = np.maximum(trained * training.software.gradient_bytes // size, 1)
    whole = np.array([_whole(training, row.index) for row in parts.rows])
    return np.where(whole, 1, count)


def _whole(training: Training, stage: int) -> bool:
    """Whether a virtual stage is reduced in one piece whatever its size."""
    return stage > 0 and training.software.first_stage_buckets


def bucketed(training: Training, parts: StageParts, amount: NDArray[np.int64]) -> NDArray[np.int64]:
    """int64[parts]: parameters of each part, moved to the part behind whose backward pass their bucket is full.

    Backward goes from the last segment of a stage to the first; whatever is left goes with the first. The same part is
    the first of its bucket that forward needs, in front of which the bucket is gathered.
    """
    size = bucket_bytes(training)
    if training.layout.zero == 3 or not size:
        return amount
    moved = amount.copy()
    for first, number in zip(parts.first_segment.tolist(), parts.segments.tolist(), strict=True):
        waiting = 0
        for part in range(first + number - 1, first - 1, -1):
            waiting += int(amount[part])
            full = part == first or waiting * training.software.gradient_bytes >= size
            moved[part], waiting = (waiting, 0) if full else (0, waiting)
    return moved


@dataclass(frozen=True)
class Holding:
    """Parameters that are sharded, reduced and gathered in the same way.

    Attributes:
        name: `dense` or `expert`.
        parameters: int64[parts], what is gathered, of one rank before any sharding: under zero 3 all, else those that
            are trained.
        trained: int64[parts], those of which gradients are reduced.
        ranks: Members of one communicator of `space`.
        replicas: Space of the ranks with the same shard (hybrid sharding), "" if every shard exists once.
    """

    name: str
    parameters: NDArray[np.int64]
    trained: NDArray[np.int64]
    space: str
    ranks: int
    replicas: str = ""


@dataclass(frozen=True)
class DataPlan:
    """What data parallelism does in a step.

    Attributes:
        holdings: Dense and expert parameters that more than one rank has.
        sharded: Gradients are scattered, else reduced for all.
        reduce_op: The operation after which gradients are complete.
        reduce_each: Whether gradients are reduced after every micro-batch, rather than after the last.
        gather_first: Parameters are gathered for the first forward pass alone.
        gather_end: Parameters are gathered behind the optimizer.
        one_queue: Whether overlapping gathers and reductions run one at a time.
        reduce_ahead: Whether reductions that did not end under backward run under the next forward pass, layer by
            layer.
    """

    holdings: tuple[Holding, ...]
    sharded: bool
    reduce_op: Op
    reduce_each: bool
    reduce_overlapped: bool
    gather_backward: bool
    gather_forward: bool
    gather_first: bool
    gather_end: bool
    gather_overlapped: bool
    one_queue: bool
    reduce_ahead: bool = False

    @classmethod
    def of(
        cls,
        training: Training,
        lattice: Lattice,
        parts: StageParts,
        *,
        splits_backward: bool,
        reduce_ahead: bool = False,
    ) -> DataPlan:
        """The plan of a job's layout."""
        layout, holdings = training.layout, _holdings(training, lattice, parts)
        sharded = bool(holdings) and layout.zero > 0 and (layout.zero < 3 or lattice.shard > 1)
        full, halved = sharded and layout.zero == 3, sharded and layout.zero < 3
        return cls(
            holdings=holdings,
            sharded=sharded,
            reduce_op=Op.WEIGHT if splits_backward else Op.BACKWARD,
            reduce_each=sharded and layout.zero >= 2 and layout.pp == 1,
            reduce_overlapped=layout.overlap_gradient,
            gather_backward=full and layout.reshard,
            gather_forward=full and (layout.reshard or layout.pp == 1),
            gather_first=(full and not layout.reshard and layout.pp > 1) or (halved and layout.overlap_parameter),
            gather_end=halved and not layout.overlap_parameter,
            gather_overlapped=layout.overlap_parameter,
            one_queue=full and layout.overlap_parameter and layout.overlap_gradient,
            reduce_ahead=reduce_ahead and layout.overlap_gradient,
        )

    def split(self, emission: Emission) -> NDArray[np.bool_]:
        """bool[operations]: those that are cut into segments, for traffic that starts or must arrive between layers."""
        overlapped = bool(self.holdings) and (self.reduce_overlapped or self.reduce_each)
        ahead = self.reduce_ahead & (emission.op == Op.FORWARD) & initial(emission)
        return np.asarray((self.reduces(emission) & overlapped) | self.gathers(emission) | ahead)

    def reduces(self, emission: Emission) -> NDArray[np.bool_]:
        """bool[operations]: those behind which gradients are reduced."""
        complete = (emission.op == self.reduce_op) | emission.full
        return complete if self.reduce_each else last_of(emission, complete)

    def gathers(self, emission: Emission) -> NDArray[np.bool_]:
        """bool[operations]: those for which parameters are gathered."""
        forward, backward = emission.op == Op.FORWARD, emission.op == Op.BACKWARD
        gathered = forward & (self.gather_forward | (self.gather_first & initial(emission)))
        return np.asarray(gathered | (self.gather_backward & backward))


def initial(emission: Emission) -> NDArray[np.bool_]:
    """bool[operations]: the first of every kind and virtual stage."""
    return _marked(len(emission), np.unique(_kinds(emission), return_index=True)[1])


def final(emission: Emission) -> NDArray[np.bool_]:
    """bool[operations]: the last of every kind and virtual stage."""
    return _marked(len(emission), len(emission) - 1 - np.unique(_kinds(emission)[::-1], return_index=True)[1])


def last_of(emission: Emission, chosen: NDArray[np.bool_]) -> NDArray[np.bool_]:
    """bool[operations]: of the chosen ones the last of every virtual stage."""
    rows = np.flatnonzero(chosen)
    virtual = emission.virtual_stage[rows]
    return _marked(len(emission), rows[len(rows) - 1 - np.unique(virtual[::-1], return_index=True)[1]])


def _kinds(emission: Emission) -> NDArray[np.int64]:
    return emission.virtual_stage.astype(np.int64) * len(Op) + emission.op


def _marked(length: int, where: NDArray[np.intp]) -> NDArray[np.bool_]:
    marks = np.zeros(length, bool)
    marks[where] = True
    return marks


def _holdings(training: Training, lattice: Lattice, parts: StageParts) -> tuple[Holding, ...]:
    layout = training.layout
    hybrid = layout.zero == 3 and 1 < lattice.shard < lattice.replicas
    space, replicas = ("shard", "replica") if hybrid else ("dp", "")
    held = (parts.dense, parts.expert) if layout.zero == 3 else (parts.trained_dense, parts.trained_expert)
    gathered = [bucketed(training, parts, amount) for amount in held]
    trained = [bucketed(training, parts, amount) for amount in (parts.trained_dense, parts.trained_expert)]
    dense = Holding("dense", gathered[0], trained[0], space, lattice.communicator_size(space), replicas)
    expert = Holding("expert", gathered[1], trained[1], "edp", lattice.communicator_size("edp"))
    return tuple(holding for holding in (dense, expert) if holding.ranks > 1 and holding.parameters.any())


def share_before(stage: NDArray[np.integer], size: NDArray[np.int64]) -> NDArray[np.float64]:
    """float64[n], the share of its stage's bytes that precede the middle of each of n messages in order."""
    order = np.argsort(stage, kind="stable")
    sorted_stage, sorted_size = stage[order], size[order].astype(np.float64)
    total = np.bincount(stage, size.astype(np.float64))
    begin = np.cumsum(total) - total
    found = np.empty(len(stage))
    found[order] = (np.cumsum(sorted_size) - sorted_size / 2.0 - begin[sorted_stage]) / total[sorted_stage]
    return found
