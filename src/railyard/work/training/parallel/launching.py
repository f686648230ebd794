"""The host's part of a pass: it launches kernels one after another, ahead of the accelerator where it is faster.

It is a task beside the computation, begun when the pass may begin, and has a say only where it takes longer than what
it launches: what follows the pass waits for both, so that a collective between the layers covers some of it. Passes
that the accelerator takes longer for have no such task.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from railyard.graph import HOST, Kind, Stream
from railyard.work.training.parallel.pieces import BESIDE
from railyard.work.training.schedule import Op

if TYPE_CHECKING:
    from railyard.work.training.parallel.parts import StageParts
    from railyard.work.training.parallel.pieces import Pieces
    from railyard.work.training.program import Program


def launch(program: Program, pieces: Pieces, parts: StageParts) -> None:
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
        stage=pieces.stage[slow],
        order=pieces.order[slow] + BESIDE,
        phase=HOST,
        op="launch",
        virtual_stage=pieces.virtual_stage[slow],
        micro_batch=pieces.micro_batch[slow],
        duration_ps=host[slow],
    )
    pieces.put_overlapped(Stream.HOST, slow, slots)
