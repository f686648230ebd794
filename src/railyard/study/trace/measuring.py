"""From what an engine found of a trace to one variant of the result; there are no tokens, so cost is by the hour."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from railyard.cluster.bill import bill_of
from railyard.economics.hourly import hourly
from railyard.economics.parts import Part, component_of
from railyard.economics.sources import of_entry
from railyard.graph import AT_SENDER, Kind
from railyard.measure import tracks as timeline_tracks
from railyard.measure.decompose import decompose
from railyard.measure.distribution import StepTimes
from railyard.measure.lockstep import lockstep
from railyard.measure.network import network_use
from railyard.measure.picture import topology_picture
from railyard.measure.stages import stages
from railyard.measure.utilization import utilization
from railyard.study.training.collectives import collective_rows
from railyard.study.training.packet_figures import packets_of

if TYPE_CHECKING:
    from railyard.economics.sources import Source
    from railyard.graph import TaskGraph
    from railyard.measure.decompose import Decomposition
    from railyard.study.trace.prepare import PreparedTrace
    from railyard.study.trace.simulate import SimulatedTrace

NO_TOKENS = "cost per million tokens: a trace says nothing of tokens, so cost is by the hour and by the run"
ONE_END = "acknowledgements on their way back: what waits for a sender waits until the receiver has every byte"


@dataclass(frozen=True, eq=False)
class Measured:
    """One variant of the result, and where its numbers come from.

    Attributes:
        variant: As it stands in `result.json`.
        sources: Origins of its prices, powers, rates.
        left_out: What the engine, the fabric and the reading of the trace leave out.
        defaults: What was chosen because the scenario did not say.
        sampled_ranks: A few telling ranks of the cluster, for the trace.
    """

    variant: dict[str, Any]
    sources: tuple[Source, ...]
    left_out: tuple[str, ...]
    defaults: tuple[str, ...]
    sampled_ranks: tuple[int, ...]

    @property
    def digest(self) -> str:
        """Fingerprint of the run."""
        return str(self.variant["digest"])


def measure(simulated: SimulatedTrace) -> Measured:
    """Everything about one variant."""
    job, record = simulated.job, simulated.record
    own = simulated.by_trace
    decomposition = decompose(own)
    carried = network_use(record, job.cluster, decomposition)
    bill = [
        Part(component_of(row.kind), row.name, row.count, row.price_usd, row.power_w) for row in bill_of(job.cluster)
    ]
    cost = hourly(decomposition, job.cluster.accelerator, bill, job.assumptions)
    busy = utilization(decomposition, None)
    ranks = timeline_tracks.sample_ranks(stages(own.graph), busy.per_rank)
    variant = {
        "name": job.variant.name,
        "settings": dict(job.variant.settings),
        "trace": _about(job),
        "step": {**StepTimes(simulated.samples_s).to_json(), "seconds": record.makespan_ps * 1e-12},
        "utilization": busy.to_json(),
        "time": _time(decomposition),
        "lockstep": lockstep(decomposition).to_json(),
        "jct": None,
        "power": cost.power.to_json(),
        "capex": cost.capex.to_json(),
        "cost": cost.to_json(),
        "cpmt": None,
        "bottleneck": simulated.bottleneck.to_json(),
        "network": carried.to_json(),
        "memory": {"rows": []},
        "timeline": timeline_tracks.tracks(own, ranks),
        "topology": topology_picture(job.cluster, carried.load),
        "storage": {"data": None, "checkpoint": None},
        "collectives": collective_rows(record, job.cluster, job.policy),
        **packets_of(record, job.cluster),
        "warnings": [*record.meta.get("warnings", []), *job.trace.lacks, *_never(job)],
        "digest": record.meta["digest"],
    }
    return Measured(variant, (*_parts_sources(job), *cost.sources), _left_out(simulated), (), tuple(ranks))


def _about(job: PreparedTrace) -> dict[str, Any]:
    graph = job.trace.graph
    kinds = np.bincount(graph.kind, minlength=len(Kind))
    return {
        "file": job.variant.draft.scenario.trace.file,
        "format": job.format,
        "ranks": graph.ranks,
        "computations": int(kinds[Kind.COMPUTE]),
        "transfers": int(kinds[Kind.TRANSFER]),
        "collectives": int(kinds[Kind.COLLECTIVE]),
        "lacks": list(job.trace.lacks),
    }


def _time(decomposition: Decomposition) -> list[dict[str, Any]]:
    names = ("cause", "group", "phase", "seconds", "share")
    return [{name: getattr(row, name) for name in names} for row in decomposition.rows]


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
