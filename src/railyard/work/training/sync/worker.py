"""A worker of local updates: replicas that step together, a job of its own between two meetings."""

from __future__ import annotations

from typing import TYPE_CHECKING

from railyard.work.training.sync.shapes import bundle
from railyard.work.training.sync.wire import Peers

if TYPE_CHECKING:
    from railyard.work.training.spec import Layout, Training


def workers_of(training: Training) -> int:
    """Groups of replicas that step by themselves; 1 where all replicas meet in every step."""
    asked = training.communication
    updates = None if asked is None else asked.meets()
    if updates is None:
        return 1
    return max(1, updates.workers or training.layout.dp)


def worker_layout(layout: Layout, workers: int) -> Layout:
    """The layout of one of so many workers."""
    if workers == 1:
        return layout
    dp = max(1, layout.dp // workers)
    return layout.replace(
        dp=dp,
        global_batch=max(1, layout.global_batch // workers),
        fsdp_shard=min(layout.fsdp_shard, dp * layout.cp),
    )


def worker_job(training: Training) -> Training:
    """What one worker does between two meetings; the job itself where there is one worker."""
    workers = workers_of(training)
    return training if workers == 1 else training.replace(layout=worker_layout(training.layout, workers))


def replica_peers(layout: Layout, name: str, domain: int) -> Peers:
    """Ranks that hold the same parameters of a holding (`dense` or `expert`).

    Args:
        layout: Of one worker.
        name: Of the holding.
        domain: Ranks of a scale-up domain.
    """
    stride = layout.ep * layout.expert_tp if name == "expert" else layout.tp
    ranks = (
        max(1, layout.edp) if name == "expert" else layout.shard_ranks if layout.zero == 3 else layout.dp * layout.cp
    )
    return Peers(ranks, local_ranks(ranks, stride, domain), layout.zero >= 1)


def local_ranks(ranks: int, stride: int, domain: int) -> int:
    """Members of a group inside one scale-up domain: as many as fit and divide the group."""
    fit = min(ranks, max(1, domain // stride))
    return next(n for n in range(fit, 0, -1) if ranks % n == 0)


def kept_bytes(training: Training, name: str, domain: int) -> float:
    """Bytes that a rank keeps for each parameter of a holding, beyond parameters, gradients and optimizer.

    Args:
        training: The whole job.
        name: `dense` or `expert`.
        domain: Ranks of a scale-up domain.
    """
    asked = training.communication
    if asked is None or (name == "expert" and not training.model.experts):
        return 0.0
    layout = worker_layout(training.layout, workers_of(training))
    peers, total = replica_peers(layout, name, domain), 0.0
    if asked.compression is not None:
        total += asked.compression.state_bytes(bundle(training, name, 1.0), peers)
    updates = asked.meets()
    if updates is not None:
        total += updates.state_bytes / peers.ranks
    if asked.asynchronous is not None:
        total += training.software.gradient_bytes * asked.asynchronous.late_steps
    return total
