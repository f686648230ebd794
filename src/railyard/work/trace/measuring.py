"""From what an engine found of a trace to one variant of the result; there are no tokens, so cost is by the hour."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, TypedDict

import numpy as np

from railyard.cluster.bill import bill_of
from railyard.cluster.notes import notes_of
from railyard.graph import AT_SENDER, Kind
from railyard.measure import picture as timeline_tracks
from railyard.measure.cost.capital import parts_of_rows
from railyard.measure.cost.cost import hourly
from railyard.measure.cost.ranges import of_entry
from railyard.measure.decompose import stages
from railyard.measure.lockstep import lockstep
from railyard.measure.network import network_use
from railyard.measure.picture import topology_picture
from railyard.measure.result.network import FaultCost
from railyard.measure.result.step import MemoryFigures, StorageFigures, TimeShare
from railyard.measure.result.variants import TraceFigures, TraceVariant
from railyard.measure.utilization import utilization
from railyard.work.study.deaths import listed, words
from railyard.work.training.collectives import collective_rows, packets_of
from railyard.work.training.mean_step import StepTimes

if TYPE_CHECKING:
    from railyard.graph import TaskGraph
    from railyard.measure.cost.ranges import Source
    from railyard.measure.decompose import Decomposition
    from railyard.work.trace.prepare import PreparedTrace
    from railyard.work.trace.simulate import SimulatedTrace

NO_TOKENS = "cost per million tokens: a trace says nothing of tokens, so cost is by the hour and by the run"
ONE_END = "acknowledgements on their way back: what waits for a sender waits until the receiver has every byte"


@dataclass(frozen=True, eq=False)
class MeasuredTrace:
    """One variant of the result, and where its numbers come from.

    Attributes:
        variant: As it stands in `result.json`.
        sources: Origins of its prices, powers, rates.
        left_out: What the engine, the fabric and the reading of the trace leave out.
        defaults: What was chosen because the scenario did not say.
        sampled_ranks: A few telling ranks of the cluster, for the trace.
    """

    variant: TraceVariant
    sources: tuple[Source, ...]
    left_out: tuple[str, ...]
    defaults: tuple[str, ...]
    sampled_ranks: tuple[int, ...]

    @property
    def digest(self) -> str:
        """Fingerprint of the run."""
        return self.variant.digest


def measure(simulated: SimulatedTrace) -> MeasuredTrace:
    """Everything about one variant."""
    job, record = simulated.job, simulated.record
    traces = simulated.by_trace
    decomposition = simulated.shares
    carried = network_use(record, job.cluster, decomposition)
    bill = parts_of_rows(bill_of(job.cluster))
    cost = hourly(decomposition, job.cluster.accelerator, bill, job.assumptions)
    busy = utilization(decomposition, None)
    ranks = timeline_tracks.sample_ranks(stages(traces.graph), busy.per_rank)
    variant = TraceVariant(
        name=job.variant.name,
        settings=dict(job.variant.settings),
        bound=job.cluster.is_bound,
        outcome="finished",
        trace=_about(job),
        step=StepTimes(simulated.samples_s).section(mean_s=record.makespan_ps * 1e-12, **_without(simulated)),
        utilization=busy.section(),
        tax=simulated.tax,
        time=_time(decomposition),
        lockstep=lockstep(decomposition).section(),
        jct=None,
        power=cost.power.section(),
        capex=cost.capex.section(),
        cost=cost.section(),
        cpmt=None,
        bottleneck=simulated.bottleneck.led_by(simulated.tax).section(),
        network=carried.section(),
        memory=MemoryFigures(rows=()),
        timeline=timeline_tracks.tracks(traces, ranks),
        topology=topology_picture(job.cluster, carried.load),
        storage=StorageFigures(data=None, checkpoint=None),
        collectives=collective_rows(record, job.cluster, job.policy),
        warnings=(*record.meta.get("warnings", []), *job.trace.lacks, *_never(job), *notes_of(job.cluster)),
        digest=str(record.meta["digest"]),
        **packets_of(record, job.cluster),
        **_faulty(simulated),
    )
    return MeasuredTrace(variant, (*_parts_sources(job), *cost.sources), _left_out(simulated), (), tuple(ranks))


def _without(simulated: SimulatedTrace) -> dict[str, float]:
    """The step to compare with, where anything goes wrong."""
    return {} if simulated.healthy_s is None else {"without_faults_s": simulated.healthy_s}


class _Faulty(TypedDict, total=False):
    """What went wrong, where anything did."""

    fault_cost: FaultCost


def _faulty(simulated: SimulatedTrace) -> _Faulty:
    """What the faults of the scenario cost a trace: time, for it makes no tokens."""
    if simulated.healthy_s is None:
        return {}
    cost = FaultCost(
        what=listed(map(words, simulated.job.faults)),
        step_s=simulated.record.makespan_ps * 1e-12 - simulated.healthy_s,
        tokens_lost=None,
        job_s=None,
        cpmt_usd=None,
        job_usd=None,
    )
    return {"fault_cost": cost}


def _about(job: PreparedTrace) -> TraceFigures:
    graph = job.trace.graph
    kinds = np.bincount(graph.kind, minlength=len(Kind))
    return TraceFigures(
        file=job.variant.draft.scenario.trace.file,
        format=job.format,
        ranks=graph.ranks,
        computations=int(kinds[Kind.COMPUTE]),
        transfers=int(kinds[Kind.TRANSFER]),
        collectives=int(kinds[Kind.COLLECTIVE]),
        lacks=tuple(job.trace.lacks),
    )


def _time(decomposition: Decomposition) -> tuple[TimeShare, ...]:
    return tuple(
        TimeShare(cause=row.cause, group=row.group, phase=row.phase, seconds=row.seconds, share=row.share)
        for row in decomposition.rows
    )


def _never(job: PreparedTrace) -> list[str]:
    lines = job.trace.never
    if not lines:
        return []
    shown = ", ".join(map(str, lines[:3])) + (", ..." if len(lines) > 3 else "")
    return [f"{len(lines)} tasks wait for what never happens and do not run (lines {shown})"]


def _left_out(simulated: SimulatedTrace) -> tuple[str, ...]:
    job = simulated.job
    found = [*simulated.record.meta["left_out"], *job.trace.left_out, NO_TOKENS]
    if _waits_for_senders(job.trace.graph):
        found.append(ONE_END)
    if job.trace.failures:
        found.append(f"{len(job.trace.failures)} links that the matrix takes out of a tree of its own")
    return tuple(found)


def _waits_for_senders(graph: TaskGraph) -> bool:
    if graph.dep_at is None:
        return False
    return bool((graph.kind[graph.dep_idx[graph.dep_at == AT_SENDER]] == Kind.TRANSFER).any())


def _parts_sources(job: PreparedTrace) -> list[Source]:
    cluster = job.cluster
    entries = (cluster.accelerator, cluster.server, cluster.nic)
    return [source for entry in entries for source in of_entry(entry, *entry.provenance)]
