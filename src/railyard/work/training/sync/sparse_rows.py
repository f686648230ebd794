"""The rows of the input embedding that a step touches, as a reduction of their own."""

from __future__ import annotations

from typing import TYPE_CHECKING

from railyard.graph import CollectiveKind
from railyard.work.training import parameters
from railyard.work.training.sync.wire import KernelWork, Leg, Reduction, Round

if TYPE_CHECKING:
    from railyard.work.training.spec import Training
    from railyard.work.training.sync.sparse import Sparse
    from railyard.work.training.sync.wire import Peers

_INDEX_BYTES = 4.0


def table(training: Training, sparse: Sparse, peers: Peers) -> Reduction:
    """What one rank's touched rows of the table take: gathered with their numbers, added one by one."""
    model, layout = training.model, training.layout
    tokens = layout.replica_batch * training.seq_len / layout.cp
    rows = sparse.rows(tokens, model.vocab) / layout.tp
    each = rows * (model.hidden * training.software.gradient_bytes + _INDEX_BYTES)
    return Reduction(
        (Round(KernelWork(2.0 * each, 0.0, 2.0), (Leg(CollectiveKind.ALL_GATHER, peers.ranks * each),)),),
        KernelWork(3.0 * peers.ranks * each, 0.0, 1.0),
    )


def without_table(training: Training, count: float) -> float:
    """Parameters of a rank that holds the table, without it."""
    return max(0.0, count - parameters.embedding(training.model, training.layout))
