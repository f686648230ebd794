"""Traffic, memory and cost of a job's communication method, compared with what it would send without."""

from __future__ import annotations

from dataclasses import fields
from typing import TYPE_CHECKING

from railyard.graph import CollectiveKind
from railyard.kit.quantities import format_memory
from railyard.measure.result.step import BytesPair, CommunicationFigures, PublishedEffect, UsedPart
from railyard.work.training.stages import PipelineRanks
from railyard.work.training.sync.graph import asked_of
from railyard.work.training.sync.shapes import (
    bundle,
    kept_bytes,
    replica_peers,
    table,
    without_table,
    worker_job,
    workers_of,
)
from railyard.work.training.sync.wire import Leg, Peers

if TYPE_CHECKING:
    from collections.abc import Iterable

    from railyard.work.training.spec import Training


def ledger_notes(figures: CommunicationFigures) -> list[str]:
    """One line of price, and one for each published effect on convergence."""
    kinds = ", ".join(part.kind for part in figures.parts)
    where, plain, sent = "to other replicas", figures.plain_bytes, figures.sent_bytes
    if figures.plain_across_bytes:
        where, plain, sent = "out of its scale-up domain", figures.plain_across_bytes, figures.sent_across_bytes
    if figures.between_workers is not None:
        where, plain, sent = "to other workers", figures.between_workers.plain_bytes, figures.between_workers.sent_bytes
    return [
        f"with {kinds} each rank sends {sent / 1e9:.3g} GB a step {where}, in place of {plain / 1e9:.3g} GB"
        f" ({_times(plain, sent)}), and keeps {format_memory(figures.kept_bytes, 2)} more",
        *(
            f"published for {one.kind}, not computed here: {one.effect} ({one.scope}; {one.source})"
            for one in figures.convergence
        ),
    ]


def _times(plain: float, sent: float) -> str:
    if plain == sent or not sent:
        return "the same"
    return f"{plain / sent:.3g} times fewer" if sent < plain else f"{sent / plain:.3g} times more"


def ledger(training: Training, domain: int) -> CommunicationFigures | None:
    """The result's `communication`, averages per step of the rank with the largest state; None without a method."""
    asked = asked_of(training)
    if asked is None:
        return None
    pipeline = PipelineRanks.of([training])
    most = {name: max(float(getattr(kind, name)[0]) for kind in pipeline.kinds) for name in ("dense", "expert")}
    plain = training.replace(communication=None)
    between = _between(training, domain, most)
    return CommunicationFigures(
        plain_bytes=sent_bytes(plain, domain, most),
        sent_bytes=sent_bytes(training, domain, most),
        plain_across_bytes=sent_bytes(plain, domain, most, across=True),
        sent_across_bytes=sent_bytes(training, domain, most, across=True),
        kept_bytes=sum(kept_bytes(training, name, domain) * most[name] for name in most),
        between_workers=between and BytesPair(plain_bytes=between[0], sent_bytes=between[1]),
        parts=tuple(
            UsedPart(name=name, kind=one.kind, values={each.name: getattr(one, each.name) for each in fields(one)})
            for name, one in asked.parts()
        ),
        convergence=tuple(
            PublishedEffect(kind=one.kind, effect=finding.effect, scope=finding.scope, source=finding.source)
            for _, one in asked.parts()
            for finding in one.published
        ),
    )


def _between(training: Training, domain: int, parameters: dict[str, float]) -> tuple[float, float] | None:
    """Bytes between workers: reductions and gathers of each rank's own share, in every step and in a mean one."""
    asked = asked_of(training)
    updates = None if asked is None else asked.meets()
    if updates is None:
        return None
    workers, zero, layout = workers_of(training), training.layout.zero, worker_job(training).layout
    shard = sum(count / replica_peers(layout, name, domain).ranks for name, count in parameters.items())
    once = training.software.gradient_bytes
    often = _often(training)
    each = 2.0 * once if zero == 0 else often * once + (2.0 if zero < 3 else 4.0 * often)
    crossing = shard * (workers - 1) / workers
    return crossing * each, crossing * 2.0 * updates.bits / 8.0 / updates.inner_steps


def sent_bytes(training: Training, domain: int, parameters: dict[str, float], *, across: bool = False) -> float:
    """Bytes that a rank sends to other replicas in a mean step: reductions, gathers of parameters, meetings.

    Args:
        training: The job.
        domain: Ranks of a scale-up domain.
        parameters: Parameters of the rank by holding.
        across: Only those that leave the scale-up domain.
    """
    asked, job = asked_of(training), worker_job(training)
    updates, total = None if asked is None else asked.meets(), 0.0
    for name, count in parameters.items():
        peers = replica_peers(job.layout, name, domain)
        if count and peers.ranks > 1:
            often = _often(job)
            total += often * _bytes_of(_reduced(job, name, count, peers), peers, across=across)
            total += _bytes_of(_gathered(job, count, peers), peers, across=across)
        if count and updates is not None:
            outer = Peers(workers_of(training), 1, sharded=False)
            size = count / peers.ranks * updates.bits / 8.0
            legs = [Leg(CollectiveKind.ALL_REDUCE, size)]
            total += _bytes_of(legs, outer, across=across) / updates.inner_steps
            if job.layout.zero == 0:
                legs = [Leg(CollectiveKind.ALL_GATHER, 4.0 * count)]
                total += _bytes_of(legs, peers, across=across) / updates.inner_steps
    return total


def _bytes_of(legs: Iterable[Leg], peers: Peers, *, across: bool) -> float:
    return sum(leg.across_bytes(peers) if across else leg.sent_bytes(peers) for leg in legs)


def _often(job: Training) -> int:
    """Gradient reductions per step."""
    layout = job.layout
    return layout.micro_batches if layout.zero >= 2 and layout.pp == 1 else 1


def _reduced(job: Training, name: str, count: float, peers: Peers) -> list[Leg]:
    """Collectives of one reduction of all gradients of a holding."""
    asked, gradient = asked_of(job), job.software.gradient_bytes
    if asked is not None and asked.compression is not None:
        return list(asked.compression.reduction(bundle(job, name, count), peers).legs)
    if asked is not None and asked.sparse is not None and name == "dense":
        rest = Leg(CollectiveKind.ALL_REDUCE, without_table(job, count) * gradient)
        return [rest, *table(job, asked.sparse, peers).legs]
    kind = CollectiveKind.REDUCE_SCATTER if peers.sharded else CollectiveKind.ALL_REDUCE
    return [Leg(kind, count * gradient)]


def _gathered(job: Training, count: float, peers: Peers) -> list[Leg]:
    """Gathers of a step: one under zero 1 and 2; under zero 3 for forward and, when dropped in between, backward."""
    if not peers.sharded:
        return []
    asked = asked_of(job)
    scheme = None if asked is None else asked.compression
    share = 1.0 if scheme is None else scheme.parameter_share
    once = Leg(CollectiveKind.ALL_GATHER, 2.0 * count * share)
    if job.layout.zero < 3:
        return [once]
    again = once
    if scheme is not None and scheme.second_copy:
        again = Leg(CollectiveKind.ALL_GATHER, 2.0 * count, "inside")
    often = job.layout.micro_batches if job.layout.reshard or job.layout.pp == 1 else 1
    return often * [once, *([again] if job.layout.reshard else [])]
