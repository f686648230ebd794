"""Pipeline parallelism: activations go to the next stage, their gradients to the stage before, rank to rank.

Each rank sends to the rank of the same tp, cp and dp place; under sequence parallelism its share of the activation.
A send leaves the compute stream free; the receiving operation waits for it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from railyard.graph import Kind, Stream
from railyard.work.training.parallel.pieces import SEND
from railyard.work.training.program import NONE
from railyard.work.training.schedule import Op

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from railyard.work.training.parallel.pieces import Pieces
    from railyard.work.training.program import Program
    from railyard.work.training.schedule import Emission

_STREAMS = {Op.FORWARD: (Stream.FORWARD, "send activation"), Op.BACKWARD: (Stream.BACKWARD, "send gradient")}


def connect(program: Program, pieces: Pieces, emission: Emission, size_bytes: int) -> None:
    """Adds the transfers between stages, and lets each operation wait for what it needs.

    Args:
        program: Takes the slots.
        pieces: With their computation and collectives.
        emission: Says which operation waits for which.
        size_bytes: What one rank sends for one micro-batch.
    """
    receiver = np.flatnonzero(emission.awaited >= 0)
    sender = emission.awaited[receiver]
    apart = emission.stage[receiver] != emission.stage[sender]
    receiver, sender = receiver[apart], sender[apart]
    first, last = np.flatnonzero(pieces.first), np.flatnonzero(pieces.last)
    partner = emission.partners()
    ends = np.maximum(partner, np.arange(len(partner)))
    for op, (stream, name) in _STREAMS.items():
        chosen = emission.op[sender] == op
        source, target = last[sender[chosen]], first[receiver[chosen]]
        if not source.size:
            continue
        of_sender, of_receiver = partner[sender[chosen]], partner[receiver[chosen]]
        earlier = (of_receiver >= 0) & (of_receiver < receiver[chosen])
        slots = program.add(
            "rank",
            Kind.TRANSFER,
            stream,
            stage=pieces.stage[source],
            order=pieces.order[last[ends[sender[chosen]]]] + SEND + op,
            phase="pipeline",
            op=name,
            virtual_stage=pieces.virtual_stage[source],
            micro_batch=pieces.micro_batch[source],
            size_bytes=size_bytes,
            peer=pieces.stage[target],
        )
        for done in (pieces.end, *pieces.overlapped_ends()):
            program.wait(slots, done[source])
            program.wait(slots, _where(of_sender >= 0, done[last[of_sender]]))
        for begun in pieces.begins():
            program.wait(begun[target], slots)
            # A pair starts together, with the earlier one.
            program.wait(_where(earlier, begun[first[of_receiver]]), slots)


def _where(chosen: NDArray[np.bool_], slots: NDArray[np.int64]) -> NDArray[np.int64]:
    return np.where(chosen, slots, NONE)
