"""Accelerators that guess for a model's replicas: what a pass takes, how far they are, what they draw."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from railyard.collective.lowering.transfers import lower_transfers
from railyard.engine.stages import PS, Drafting
from railyard.measure.cost.deployment import Use
from railyard.measure.result.serving import DraftFigures
from railyard.model.machine import Machine
from railyard.work.serving.cost import IterationCost, iteration_cost
from railyard.work.serving.layout import ServingLayout
from railyard.work.serving.prepare import SOFTWARE
from railyard.work.serving.profiles import profile
from railyard.work.serving.spending import drawn_w

if TYPE_CHECKING:
    from railyard.cluster import Cluster
    from railyard.graph import Record
    from railyard.work.pipeline.built import BuiltHardware
    from railyard.work.pipeline.section import DraftSection
    from railyard.work.pipeline.site import Site
    from railyard.work.serving.prepare import ServingJob

_TOKEN_BYTES, _PROBABILITY_BYTES = 4.0, 2.0


@dataclass(frozen=True, eq=False)
class Drafts:
    """Accelerators that guess.

    Attributes:
        drafting: What the engine runs.
        hardware: Of the draft model.
        cost: An iteration of one copy of it.
    """

    drafting: Drafting
    hardware: BuiltHardware
    cost: IterationCost

    def use(self, settled: Drafting, run: Record, span_s: float) -> Use:
        """How they spend the run."""
        device, count, copies = self.hardware.cluster.accelerator, self.hardware.count, self.hardware.replicas
        iterations = float(run.table("replicas")["iterations"].sum()) / max(settled.checked_by * copies, 1.0)
        busy = min(iterations * settled.tokens * settled.pass_s / span_s, 1.0) if span_s > 0 else 0.0
        watt = copies * (self.cost.idle_w + busy * self.cost.busy_w)
        return Use(device, count, drawn_w(device, watt * span_s, count, span_s), decode=busy)


def drafts_of(section: DraftSection, job: ServingJob, site: Site) -> Drafts:
    """From what is written.

    Raises:
        InputError: The draft model is unknown or does not fit.
    """
    catalog, network = site.catalog, site.network
    hardware = site.devices(section.server, section.replicas * section.tp, "draft", section.replicas)
    cluster, device = hardware.cluster, hardware.cluster.accelerator
    layout = ServingLayout(tp=section.tp, precision=section.precision)
    cost = iteration_cost(catalog.model(section.model), layout, Machine.of(cluster), profile(SOFTWARE, device))
    checking = sum(pool.replicas for pool in job.pools if pool.role != "prefill")
    context = float(job.requests.input_tokens.mean() + job.requests.output_tokens.mean() / 2)
    nic = min(hardware.nic_bps, job.cluster.spec.back_end.link_rate_bps or job.cluster.nic.rate_bps)
    vocabulary = catalog.model(job.section.model).vocab if section.distributions else 0

    def pass_s(sequences: float) -> float:
        batch = np.array([sequences])
        return float(cost.seconds(batch, batch, batch * context, np.zeros(1))[0])

    drafting = Drafting(
        tokens=section.tokens,
        acceptance=section.acceptance,
        pass_law_s=pass_s,
        checked_by=checking / section.replicas,
        latency_s=_latency_s(network) if section.latency is None else section.latency,
        rate_bps=nic * network.fabric.payload_efficiency,
        guess_bytes=_TOKEN_BYTES + _PROBABILITY_BYTES * vocabulary,
    )
    return Drafts(drafting, hardware, cost)


def draft_figures(settled: Drafting) -> DraftFigures:
    """The result's `draft` of a stage."""
    return DraftFigures(
        batch=settled.batch,
        pass_s=settled.pass_s,
        travel_s=settled.travel_s,
        wait_s=settled.each_s * settled.tokens,
        tokens_per_iteration=settled.yields,
    )


def _latency_s(network: Cluster) -> float:
    """One way of a small message between two servers of the network; within one where there is one."""
    far = np.array([network.ranks - 1], np.int32)
    one = np.ones(1, np.int32)
    table = lower_transfers(network, np.zeros(1, np.int32), far, np.array([4096], np.int64), one)
    return float(table.alone_ps[0]) / PS
