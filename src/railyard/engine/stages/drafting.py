"""Speculative decoding whose guesses come from other accelerators.

An iteration that checks k guesses of B sequences waits for them:

    k x (pass of the draft model over its batch) + there and back + k B x bytes / rate of the NIC

The batch of a copy of the draft model is that of all replicas that it serves. B is what the checking replicas turn out
to hold: a run finds it, and another run follows with the guesses' time that belongs to it.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from railyard.collective.lowering.transfers import lower_transfers
from railyard.economics.deployment import Use
from railyard.engine.serving import Speculative
from railyard.study.pipeline.stage import PS
from railyard.study.serving.prepare import SOFTWARE
from railyard.study.serving.spending import drawn_w
from railyard.workload.serving.cost import IterationCost, iteration_cost
from railyard.workload.serving.layout import ServingLayout
from railyard.workload.serving.profiles import profile
from railyard.workload.training.machine import Machine

if TYPE_CHECKING:
    from railyard.cluster import Cluster
    from railyard.engine.serving import ServingRun
    from railyard.scenario.pipeline import DraftSection
    from railyard.study.pipeline.site import Site
    from railyard.study.pipeline.stage import Hardware
    from railyard.study.serving.prepare import ServingJob
    from railyard.workload.serving.requests import Requests


_ROUNDS = 2
_TRIAL = 400
"""Requests of a run that finds how many sequences decode at once."""
_TOKEN_BYTES, _PROBABILITY_BYTES = 4.0, 2.0


@dataclass(frozen=True, eq=False)
class Drafting:
    """Guesses from other accelerators.

    Attributes:
        section: As written.
        hardware: Of the draft model.
        cost: An iteration of one copy of it.
        checked_by: Replicas that check, for each copy.
        way_s: One way between the pools, of few bytes.
        rate_bps: Between them.
        context: Mean length of a sequence.
        vocabulary: Of the model that checks.
        batch: Sequences that decode at once on a replica that checks.
    """

    section: DraftSection
    hardware: Hardware
    cost: IterationCost
    checked_by: float
    way_s: float
    rate_bps: float
    context: float
    vocabulary: int
    batch: float = 1.0

    @classmethod
    def of(cls, section: DraftSection, job: ServingJob, site: Site) -> Drafting:
        """From what is written.

        Raises:
            InputError: The draft model is unknown or does not fit.
        """
        catalog, network = site.catalog, site.network
        hardware = site.devices(section.server, section.replicas * section.tp, "draft", section.replicas)
        cluster, device = hardware.cluster, hardware.cluster.accelerator
        layout = ServingLayout(tp=section.tp, precision=section.precision)
        cost = iteration_cost(
            catalog.model(section.model), device, Machine.of(cluster), layout, profile(SOFTWARE, device)
        )
        checking = sum(pool.replicas for pool in job.pools if pool.role != "prefill")
        mean = float(job.requests.input_tokens.mean() + job.requests.output_tokens.mean() / 2)
        nic = min(hardware.nic_bps, job.cluster.spec.back_end.link_rate_bps or job.cluster.nic.rate_bps)
        return cls(
            section=section,
            hardware=hardware,
            cost=cost,
            checked_by=checking / section.replicas,
            way_s=_way_s(network) if section.latency is None else section.latency,
            rate_bps=nic * network.fabric.payload_efficiency,
            context=mean,
            vocabulary=catalog.model(job.section.model).vocab,
        )

    @property
    def pass_s(self) -> float:
        """One pass of the draft model over the sequences of all the replicas that a copy serves."""
        batch = np.array([max(self.batch * self.checked_by, 1.0)])
        return float(self.cost.seconds(batch, batch, batch * self.context, np.zeros(1))[0])

    @property
    def travel_s(self) -> float:
        """There and back of an iteration: accepted tokens go, guesses come."""
        each = _TOKEN_BYTES + (_PROBABILITY_BYTES * self.vocabulary if self.section.distributions else 0.0)
        return 2 * self.way_s + self.batch * self.section.tokens * each * 8 / self.rate_bps

    @property
    def each_s(self) -> float:
        """Of an iteration's wait for guesses, the share of one guess."""
        return self.pass_s + self.travel_s / self.section.tokens

    def settled(self, job: ServingJob, requests: Requests) -> Drafting:
        """With the batch that the checking replicas turn out to hold."""
        found, trial = self, requests.head(_TRIAL)
        for _ in range(_ROUNDS):
            run = found.applied(job).run(trial)
            totals = run.replicas
            decodes = np.array([job.pools[number].role != "prefill" for number in totals.pool])
            tokens = float((totals.output_tokens[decodes]).sum())
            steps = max(float(totals.iterations[decodes].sum()), 1.0)
            found = replace(found, batch=max(tokens / steps / found.yields, 1.0))
        return found

    @property
    def yields(self) -> float:
        """Tokens of an iteration and sequence: the first always, each guess if all before it were right."""
        share = min(self.section.acceptance, 1 - 1e-12)
        return (1 - share ** (self.section.tokens + 1)) / (1 - share)

    def applied(self, job: ServingJob) -> ServingJob:
        """The job whose iterations wait for guesses."""
        guess = Speculative(self.section.tokens, self.section.acceptance, self.each_s)
        pools = tuple(
            pool if pool.role == "prefill" else replace(pool, speculative=guess) for pool in job.deployment.pools
        )
        return replace(job, deployment=replace(job.deployment, pools=pools))

    def use(self, run: ServingRun, span_s: float) -> Use:
        """How the accelerators that guess spend the run."""
        iterations = float(run.replicas.iterations.sum()) / max(self.checked_by * self.section.replicas, 1.0)
        busy = min(iterations * self.section.tokens * self.pass_s / span_s, 1.0) if span_s > 0 else 0.0
        device, count = self.hardware.cluster.accelerator, self.hardware.count
        watt = self.section.replicas * (self.cost.idle_w + busy * self.cost.busy_w)
        return Use(device, count, drawn_w(device, watt * span_s, count, span_s), decode=busy)

    def to_json(self) -> dict[str, Any]:
        """For the result."""
        return {
            "batch": self.batch,
            "pass_s": self.pass_s,
            "travel_s": self.travel_s,
            "wait_s": self.each_s * self.section.tokens,
            "tokens_per_iteration": self.yields,
        }


def _way_s(network: Cluster) -> float:
    """One way of a small message between two servers of the network; within one where there is one."""
    far = np.array([network.ranks - 1], np.int32)
    one = np.ones(1, np.int32)
    table = lower_transfers(network, np.zeros(1, np.int32), far, np.array([4096], np.int64), one)
    return float(table.alone_ps[0]) / PS
