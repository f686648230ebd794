"""Buckets: the gradients that one reduction carries, and the parameters that one gather brings back.

A bucket is full when it has at least its size. A layout asks for one, or the software has one (Megatron-Core: at least
40 million parameters, and a million for each rank of the data-parallel group; DeepSpeed: 500 million). Without either
each layer is a bucket, as blocks of FSDP are. Dense and expert parameters have buckets of their own. Megatron-Core cuts
only the first virtual stage into buckets, because nothing is left under which its last reduction could run; each later
stage is one bucket (`megatron/core/distributed/distributed_data_parallel.py`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from railyard.work.training.compute import StageParameters
    from railyard.work.training.parallel.parts import StageParts
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
