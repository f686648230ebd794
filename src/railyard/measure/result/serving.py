"""Figures of a service: latencies, objective, throughput, caches, replicas, capacity."""

from __future__ import annotations

import itertools
import math
from typing import Annotated, Literal, Self, TypeVar

from pydantic import AfterValidator, Field, model_validator

from railyard.measure.result.money import CapexFigures, DeploymentPower, ServingCostFigures
from railyard.measure.result.network import ReplicaFaultFigures
from railyard.measure.result.section import SAME, Band, Count, Figures, Share, require_equal

Level = Literal["p50", "p90", "p99", "p999", "mean"]
LEVELS: tuple[Level, ...] = ("p50", "p90", "p99", "p999", "mean")
T = TypeVar("T")


def _all_or_none(levels: dict[Level, T]) -> dict[Level, T]:
    missing = [level for level in LEVELS if level not in levels]
    if levels and missing:
        raise ValueError(f"the levels {', '.join(missing)} are missing")
    return levels


class Percentiles(Figures):
    """Percentiles by nearest rank, and the mean, in s; null where no request got so far."""

    p50: float | None = Field(description="median, s")
    p90: float | None = Field(description="90th percentile, s")
    p99: float | None = Field(description="99th percentile, s")
    p999: float | None = Field(description="99.9th percentile, s")
    mean: float | None = Field(description="mean, s")

    @model_validator(mode="after")
    def _ascend(self) -> Self:
        values = (self.p50, self.p90, self.p99, self.p999)
        known = [value for value in values if value is not None]
        if known and (len(known) < len(values) or any(one > other for one, other in itertools.pairwise(known))):
            raise ValueError(f"the percentiles do not ascend: {values}")
        return self


class LatencyParts(Figures):
    """Parts of a latency."""

    queue_s: float = Field(description="until a replica admits the request, s")
    transfer_s: float = Field(description="keys and values on their way, s")
    collectives_s: float = Field(description="collectives that nothing hides, s")
    compute_s: float = Field(description="the rest, s")

    @property
    def total_s(self) -> float:
        """All of it, s."""
        return math.fsum((self.queue_s, self.transfer_s, self.collectives_s, self.compute_s))


PartsByLevel = Annotated[dict[Level, LatencyParts], AfterValidator(_all_or_none)]
"""Parts by percentile; empty if no request got so far."""
ShareByLevel = Annotated[dict[Level, Share], AfterValidator(_all_or_none)]


class RequestsFigures(Figures):
    """The requests of a run."""

    count: Count = Field(description="that were sent")
    rate_per_s: float = Field(description="requests a second")
    input_tokens_mean: float = Field(description="tokens of a prompt")
    output_tokens_mean: float = Field(description="tokens of an answer")
    done: Count = Field(description="answered")
    dropped: Count = Field(description="refused: no replica can ever hold them")
    unfinished: Count = Field(description="not answered when the run ended")
    source: str = Field(description="where they come from")

    @model_validator(mode="after")
    def _sum(self) -> Self:
        if self.done + self.dropped + self.unfinished != self.count:
            raise ValueError("answered, refused and unfinished requests do not add up to their count")
        return self


class CommunicationShare(Figures):
    """Share of each percentile that is collectives and transfers, inside servers and between them."""

    ttft: ShareByLevel = Field(description="of the time to the first token, 0 to 1")
    tpot: ShareByLevel = Field(description="of the time per output token, 0 to 1")


class ObjectiveFigures(Figures):
    """The limits, and what met them."""

    ttft_s: float | None = Field(description="limit, s; null is none")
    tpot_s: float | None = Field(description="limit, s; null is none")
    e2e_s: float | None = Field(description="limit, s; null is none")
    target: Share = Field(description="share of the requests that should meet all limits, 0 to 1")
    attainment: Share = Field(description="share that did, 0 to 1")
    goodput_rps: float = Field(description="requests a second that did, of those that ended in the steady window")
    goodput_input_tokens_per_s: float = Field(description="their input tokens a second")
    goodput_output_tokens_per_s: float = Field(description="their output tokens a second")


class ThroughputFigures(Figures):
    """Throughput in the steady window; per accelerator, user and megawatt in output tokens a second."""

    span_s: float = Field(description="from the first arrival to the last token, s")
    input_tokens_per_s: float = Field(description="of requests that ended in the steady window, over it")
    output_tokens_per_s: float = Field(description="of requests that ended in the steady window, over it")
    accelerators: Count = Field(description="that serve")
    per_gpu: float = Field(description="output tokens a second of one accelerator")
    per_user: float | None = Field(description="output tokens a second of one request, median")
    per_mw: float = Field(description="output tokens a second and megawatt of facility power")


class CacheFigures(Figures):
    """Caches of keys and values."""

    hit_rate: Share = Field(description="of prompt tokens that were found, 0 to 1")
    loaded_rate: Share = Field(description="of prompt tokens that came from tiers below, 0 to 1")
    peak_share: Share = Field(description="of a replica's cache, at its fullest, 0 to 1")
    preemptions: Count = Field(description="requests put back")


class ReuseRow(Figures):
    """Rates from which a known prefix is loaded faster than it is computed."""

    pool: str = Field(description="role of the pool")
    prefix_tokens: Count = Field(description="as long as the mean prompt")
    peak_bps: Count | float = Field(description="at peak FLOP/s, bit/s")
    predicted_bps: Count | float = Field(description="at the predicted time, bit/s")


class PoolCacheFigures(CacheFigures):
    """Caches of the pools of one model."""

    moved_rate: Share = Field(description="of prompt tokens that came from other replicas, 0 to 1")
    reuse: tuple[ReuseRow, ...] = Field(description="one row per pool that computes prompts")


class ReplicaRow(Figures):
    """One replica."""

    pool: str = Field(description="role of its pool, or its stage")
    busy: Share = Field(description="of the run, 0 to 1")
    iterations: Count = Field(description="batches")
    input_tokens: Count = Field(description="of its requests")
    output_tokens: Count = Field(description="of its requests")
    cached_tokens: Count = Field(description="of prompts, not computed")
    kv_peak_share: Share = Field(description="of its cache, at its fullest, 0 to 1")


class ModelReplicaRow(ReplicaRow):
    """One replica of a model whose weights are loaded."""

    loads: Count = Field(description="times that weights were loaded")
    load_s: float = Field(description="spent on it, s")
    slowed: Share = Field(description="of the run, by what shares its links, 0 to 1")


class SideRow(Figures):
    """Attention, or feed-forward networks, on accelerators of their own."""

    accelerator: str = Field(description="catalogue entry")
    accelerators: Count = Field(description="of a replica")
    busy: Share = Field(description="of an iteration, 0 to 1")


class ApartFigures(Figures):
    """Attention and feed-forward networks on separate accelerators."""

    micro_batches: Count = Field(description="that go round")
    micro_batches_wanted: Count = Field(description="that would hide all transfers")
    waits: str = Field(description="attention, ffn, both or neither")
    attention: SideRow = Field(description="one side")
    ffn: SideRow = Field(description="the other")
    network_busy: Share = Field(description="of an iteration, 0 to 1")


class PoolRow(Figures):
    """Alike replicas."""

    role: str = Field(description="both, prefill, decode, or the stage")
    replicas: Count = Field(description="of the pool")
    accelerator: str = Field(description="catalogue entry")
    accelerators: Count = Field(description="of the pool")
    prompt: Share = Field(description="of the run, for prompts, 0 to 1")
    decode: Share = Field(description="of the run, for answers, 0 to 1")
    collectives: Share = Field(description="of the run, for collectives that nothing hides, 0 to 1")
    hidden: Share = Field(description="of the run, for collectives that run behind other work, 0 to 1")


class ModelPoolRow(PoolRow):
    """Alike replicas of one model."""

    apart: ApartFigures | None = Field(description="null where attention and feed-forward networks are together")


class LinkRow(Figures):
    """One of the links that KV transfers load most."""

    name: str = Field(description="from where to where")
    tier: str = Field(description="its tier")
    rate_bps: float = Field(description="bit/s")
    utilization: Share = Field(description="load over the run, 0 to 1")


class LoadPoint(Figures):
    """One load that was tried."""

    rate_per_s: float = Field(description="requests offered a second")
    attainment: Share = Field(description="share that met the objective, 0 to 1")
    goodput_per_s: float = Field(description="requests that did, a second")
    ttft_p50_s: float | None = Field(description="median, s; null when no request ended")
    ttft_p99_s: float | None = Field(description="99th percentile, s")
    tpot_p50_s: float | None = Field(description="median, s")
    tpot_p99_s: float | None = Field(description="99th percentile, s")
    output_tokens_per_s: float = Field(description="of all requests that ended")
    requests: Count = Field(description="of the trial")
    overloaded: bool = Field(description="the run was ended because its queue could never drain")


class CapacityFigures(Figures):
    """The largest load within the objective."""

    rate_per_s: float = Field(description="requests a second; 0 when no load was within it")
    bounded: bool = Field(description="whether a load that misses the objective was found above it")
    points: tuple[LoadPoint, ...] = Field(min_length=1, description="every load tried, ascending")


class FrontPoint(Figures):
    """A load on the front of throughput against speed."""

    rate_per_s: float = Field(description="requests a second")
    per_user: float = Field(description="output tokens a second of one request, median")
    per_gpu: float = Field(description="output tokens a second of one accelerator")
    per_usd: float = Field(description="output tokens for a dollar")
    front: bool = Field(description="no point of any variant beats it by accelerator")
    front_usd: bool = Field(description="no point of any variant beats it by dollar")


class StageHardware(Figures):
    """Devices of a stage."""

    role: str = Field(description="of its pool")
    server: str = Field(description="catalogue entry")
    accelerator: str = Field(description="catalogue entry")
    accelerators: Count = Field(description="of them")
    replicas: Count = Field(description="on them")


class DraftFigures(Figures):
    """A draft model that guesses for the stage."""

    batch: float = Field(description="sequences of an iteration")
    pass_s: float = Field(description="one pass of the draft model, s")
    travel_s: float = Field(description="there and back, s")
    wait_s: float = Field(description="of an iteration for guesses, s")
    tokens_per_iteration: float = Field(description="of a sequence")


class StageRow(Figures):
    """One stage of a pipeline."""

    name: str = Field(description="as in the scenario")
    kind: str = Field(description="model, encode, host, ...")
    taken: Share = Field(description="share of the requests that took it, 0 to 1")
    hardware: tuple[StageHardware, ...] = Field(description="its devices")
    busy: Share | None = Field(description="of its devices, 0 to 1; null without any")
    seconds: Percentiles = Field(description="from coming to leaving, s")
    queue_s: float = Field(description="mean, s")
    compute_s: float = Field(description="mean, s")
    collectives_s: float = Field(description="mean, s")
    transfer_s: float = Field(description="mean, s")
    ttft_parts: PartsByLevel = Field(description="its part of the time to the first token")
    e2e_parts: PartsByLevel = Field(description="its part of the time to the end")
    usd_per_h: Band = Field(description="what it costs, USD/h")
    draft: DraftFigures | None = Field(default=None, description="absent without a draft model")


class ServingFigures(Figures):
    """Figures of a service, whatever it is made of."""

    outcome: str = Field(description="finished, overload or stuck")
    requests: RequestsFigures = Field(description="what was asked")
    ttft_s: Percentiles = Field(description="time to the first token, s")
    tpot_s: Percentiles = Field(description="time per output token, s")
    itl_s: Percentiles = Field(description="gap between two tokens, s")
    e2e_s: Percentiles = Field(description="time to the last token, s")
    queue_s: Percentiles = Field(description="wait for a replica, s")
    ttft_parts: PartsByLevel = Field(description="what each percentile of the first token is made of")
    communication_share: CommunicationShare = Field(description="of each percentile")
    slo: ObjectiveFigures = Field(description="limits, and what met them")
    throughput: ThroughputFigures = Field(description="what was served")
    kv: CacheFigures = Field(description="caches of keys and values")
    replicas: tuple[ReplicaRow, ...] = Field(description="one row per replica")
    pools: tuple[PoolRow, ...] = Field(min_length=1, description="one row per pool")
    links: tuple[LinkRow, ...] = Field(description="that KV transfers load most")
    cpmt: ServingCostFigures | None = Field(description="null where no request met the objective")
    power: DeploymentPower = Field(description="of the deployment")
    capex: CapexFigures = Field(description="of the deployment")
    capacity: CapacityFigures | None = Field(description="null where it was not searched")
    pareto: tuple[FrontPoint, ...] = Field(description="loads on the front")

    @model_validator(mode="after")
    def _parts(self) -> Self:
        for level, parts in self.ttft_parts.items():
            self._first_token(level, parts)
        if self.cpmt is not None:
            self._bill(self.cpmt)
        return self

    def _first_token(self, level: Level, parts: LatencyParts) -> None:
        """Parts of a percentile are the percentile; the share of communication is collectives and transfers."""
        total = getattr(self.ttft_s, level)
        if total is None:
            raise ValueError(f"ttft_parts.{level}: parts of a percentile that is not known")
        require_equal(f"ttft_parts.{level}: the parts do not add up to the percentile", parts.total_s, total)
        least = min(parts.queue_s, parts.transfer_s, parts.collectives_s, parts.compute_s)
        if least < -SAME * max(total, 1e-9):
            raise ValueError(f"ttft_parts.{level}: a part is below zero: {least}")
        share = self.communication_share.ttft[level] * total
        what = f"communication_share.ttft.{level}: the share is not that of the parts"
        require_equal(what, share, parts.collectives_s + parts.transfer_s)

    def _bill(self, cost: ServingCostFigures) -> None:
        """Each way of dividing the dollars of an hour gives them back."""
        asked, answered = self.slo.goodput_input_tokens_per_s, self.slo.goodput_output_tokens_per_s
        shares = {
            "total": [(asked + answered, cost.total)],
            "input": [(asked, cost.input)],
            "output": [(answered, cost.output)],
            "split_input": [(asked, cost.split_input), (answered, cost.split_output)],
        }
        for name, sold in shares.items():
            for number, end in enumerate(("low", "typical", "high")):
                dollars = math.fsum(tokens * price.ends[number] for tokens, price in sold) * 3600 / 1e6
                what = f"cpmt.{name}: what tokens are sold for is not the bill of the hour at the {end} end"
                require_equal(what, dollars, cost.usd_per_h.ends[number])


class PoolQueueRow(Figures):
    """Requests that wait for a pool."""

    pool: str = Field(description="role of the pool")
    waiting_mean: float = Field(description="requests, over the run")
    waiting_peak: float = Field(description="requests, mean of the fullest of the spans")
    peak_s: float = Field(description="middle of that span, from the start of the run, s")
    wait_p50_s: float | None = Field(description="of a request, median, s; null where waiting is counted, not followed")
    wait_p99_s: float | None = Field(description="of a request, 99th percentile, s")
    over_time: tuple[float, ...] = Field(description="requests waiting, mean of each of the equal spans of the run")
    span_s: float = Field(description="length of a span, s")


class ReplicaTrial(Figures):
    """The same requests with one more replica of a pool, or with more tensor parallel ranks, simulated."""

    pool: str = Field(description="role of the pool that grows")
    replicas: Count = Field(description="of the pool then")
    accelerators: Count = Field(description="of the replica")
    ttft_p99_s: float | None = Field(description="99th percentile, s; null if not available")
    tpot_p99_s: float | None = Field(description="99th percentile, s; null if not available")
    attainment: Share | None = Field(description="share that met the objective, 0 to 1; null if not available")
    goodput_rps: float | None = Field(description="requests a second that did; null if not available")
    reason: str = Field(description="why it is not available, empty if it was simulated")
    bought: Count = Field(default=0, description="accelerators by which the cluster grows")
    tp: Count | None = Field(
        default=None, description="tensor parallel ranks of a replica then, on the same accelerators; null as before"
    )


class ModelServing(ServingFigures):
    """One model that answers requests."""

    queues: tuple[PoolQueueRow, ...] = Field(description="one row per pool: where requests wait, and when")
    trials: tuple[ReplicaTrial, ...] = Field(
        description="one more replica of each pool, or a larger TP; none where requests meet the SLO and do not queue"
    )

    kv: PoolCacheFigures = Field(description="caches of keys and values")
    replicas: tuple[ModelReplicaRow, ...] = Field(description="one row per replica")
    pools: tuple[ModelPoolRow, ...] = Field(min_length=1, description="one row per pool")
    faults: tuple[ReplicaFaultFigures, ...] | None = Field(
        default=None, description="what died, and which replicas with it; absent where nothing did"
    )
    begun_anew: Count | None = Field(
        default=None, description="requests of dead replicas, whose keys and values are lost; absent with `faults`"
    )


class PipelineServing(ServingFigures):
    """Stages that requests go through."""

    replicas: tuple[ModelReplicaRow | ReplicaRow, ...] = Field(description="one row per replica of any stage")
    stages: tuple[StageRow, ...] = Field(description="in the order of the scenario")
