"""Reading samples and writing checkpoints: storage traffic of a step.

Reading. Each rank that reads starts, at the beginning of a step, to read the samples of a step to come. Without
prefetch the first forward pass waits for them. With it nothing waits but the end of the step: in a run of equal steps,
reads that take less than a step are never waited for, and reads that take longer let each step take as long as they do,
however many steps are read ahead. Deeper prefetch only rides out variation, which one step cannot show.

Checkpoints. Every rank writes its share of parameters and optimizer state. A synchronous checkpoint ends a step. An
asynchronous one stalls it for the copy to host memory alone; the write is spread evenly over the steps up to the next
checkpoint, and competes for the network in each of them. It holds a step up only when the whole interval is too short.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from railyard.graph import Kind, Stream
from railyard.workload.training.parallel.finish import behind, distinct_parameters

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from railyard.workload.training.parallel.step import Step

# Reads and paced writes start with the step, before everything else on their stream.
_START = -2


def read_samples(step: Step) -> NDArray[np.int64] | None:
    """Adds the reads; returns what the end of the step waits for, if it does."""
    data, layout = step.training.data, step.training.layout
    if data is None:
        return None
    tokens = layout.replica_batch * step.training.seq_len // layout.cp
    slot = step.program.add(
        "rank" if data.every_rank else "tp",
        Kind.READ,
        Stream.STORAGE,
        stage=0,
        order=_START,
        phase="data",
        op="read samples",
        size_bytes=round(tokens * data.bytes_per_token),
    )
    if data.prefetch:
        return slot
    first = np.flatnonzero(step.pieces.stage == 0)[:1]
    for begun in step.pieces.begins():
        step.program.wait(begun[first], slot)
    return None


def write_checkpoint(step: Step, end: NDArray[np.int64], *, checkpoint: bool) -> NDArray[np.int64] | None:
    """Adds what this step writes.

    Args:
        step: The step.
        end: int64[pp], the last slot of every stage.
        checkpoint: Whether a checkpoint is taken at the end of this step.

    Returns:
        int64[pp], what the end of the step waits for, if it does.
    """
    saved = step.training.checkpoint
    if saved is None:
        return None
    share = np.ceil(distinct_parameters(step) * saved.bytes_per_parameter).astype(np.int64)
    if not saved.asynchronous:
        return _synchronous(step, end, share) if checkpoint else None
    if checkpoint:
        _copy_to_host(step, share)
    return _write(step, -(-share // saved.interval_steps), np.full(len(share), _START + 1), "write part of checkpoint")


def _synchronous(step: Step, end: NDArray[np.int64], share: NDArray[np.int64]) -> NDArray[np.int64]:
    slots = _write(step, share, np.full(len(share), behind(step)), "write checkpoint")
    step.program.wait(slots, end)
    return slots


def _write(step: Step, size_bytes: NDArray[np.int64], order: NDArray[np.int64], op: str) -> NDArray[np.int64]:
    return step.program.add(
        "rank",
        Kind.WRITE,
        Stream.STORAGE,
        stage=np.arange(len(size_bytes)),
        order=order,
        phase="checkpoint",
        op=op,
        size_bytes=size_bytes,
    )


def _copy_to_host(step: Step, share: NDArray[np.int64]) -> None:
    seconds = share * 8.0 / step.cluster.server.pcie_bps
    step.program.add(
        "rank",
        Kind.COMPUTE,
        Stream.COMPUTE,
        stage=np.arange(len(share)),
        order=np.full(len(share), behind(step)),
        phase="checkpoint",
        op="copy to host",
        duration_ps=np.rint(seconds * 1e12).astype(np.int64),
    )


def wait_for_storage(step: Step, reads: NDArray[np.int64] | None, writes: NDArray[np.int64] | None) -> None:
    """Ends the compute streams of ranks that wait for storage with a task of no length, so that the wait is seen."""
    if reads is not None:
        _marker(step, np.zeros(1, np.int64), "data", reads)
    if writes is not None:
        _marker(step, np.arange(len(writes)), "checkpoint", writes)


def _marker(step: Step, stage: NDArray[np.int64], phase: str, awaited: NDArray[np.int64]) -> None:
    order = behind(step) + (1 if phase == "data" else 2)
    slots = step.program.add(
        "rank",
        Kind.COMPUTE,
        Stream.COMPUTE,
        stage=stage,
        order=np.full(len(stage), order),
        phase=phase,
        op="wait",
    )
    step.program.wait(slots, awaited)
