"""Figures of a step: its length, its parts, and those of lockstep and of the whole job."""

from __future__ import annotations

import math
from typing import Annotated, Literal, Self

from pydantic import Field, model_validator

from railyard.measure.result.section import Count, Figures, Number, Share, Values, require_equal
from railyard.measure.result.serving import ShareByLevel


class MemoryStage(Figures):
    """Memory of a rank of one pipeline stage; parts add up to the total."""

    stage: Count = Field(description="pipeline stage")
    parameters_bytes: Number = Field(description="bytes")
    gradients_bytes: Number = Field(description="bytes")
    optimizer_bytes: Number = Field(description="bytes")
    activations_bytes: Number = Field(description="bytes")
    buffers_bytes: Number = Field(description="buffers, and what the runtime reserves, bytes")
    capacity_bytes: Number = Field(description="of the accelerator, bytes")
    total_bytes: Number = Field(description="bytes")


class LayoutFigures(Figures):
    """Distribution of a step over the accelerators."""

    words: str = Field(description="in words")
    parallelism: Values = Field(description="mapping to paste as `parallelism` of a scenario, which gives it again")


class LayoutRow(Figures):
    """One layout that `parallelism: auto` looked at."""

    layout: LayoutFigures = Field(description="the layout")
    step_seconds: float = Field(description="step time, s; see `simulated`")
    simulated: bool = Field(description="on this network; else in closed form, with its neighbours' error taken out")
    memory_bytes: Number = Field(description="of the fullest rank, bytes")
    capacity_bytes: Number = Field(description="of the accelerator, bytes")


class MemoryFigures(Figures):
    """Memory by pipeline stage."""

    rows: tuple[MemoryStage, ...] = Field(description="one row per stage")


Task = tuple[float, float, Count]
"""Start in us, duration in us, index of its label."""


class Track(Figures):
    """Tasks of one stream of a rank."""

    rank: Count = Field(description="number of the rank")
    stream: str = Field(description="compute, communication, ...")
    tasks: tuple[Task, ...] = Field(description="start in us, duration in us, index of the label")


class TrackLabel(Figures):
    """Look of tasks in the drawing."""

    phase: str = Field(description="part of the step")
    op: str = Field(description="operation")
    group: str = Field(description="communicator class; empty for computations")


class TimelineFigures(Figures):
    """The step of a few ranks."""

    ranks: tuple[Count, ...] = Field(description="which ranks")
    tracks: tuple[Track, ...] = Field(description="one track per rank and stream")
    labels: tuple[TrackLabel, ...] = Field(description="tasks name them by index")


class DataFigures(Figures):
    """Loading of the samples of a step."""

    bytes_per_rank: Number = Field(description="from storage in a step, bytes")
    bytes_per_step: Number = Field(description="of all ranks that read, bytes")
    requests_per_rank: Number = Field(description="of a step")
    hit_rate: Share = Field(description="of bytes found in the cache, 0 to 1")
    readers: Count = Field(description="ranks that read")
    workers: Count = Field(description="loader workers of a rank")
    read_s: float = Field(description="for which a rank's bytes were on their way, s")
    worker_s: float = Field(description="additional time of a rank's workers, s")
    wait_s: float = Field(description="of the step for data, mean over ranks, s")
    variation_s: float = Field(description="of it, because samples vary in size, s")
    wanted_bps: float = Field(description="that would make nobody wait, bit/s")
    reached_bps: float = Field(description="that storage delivered, bit/s")
    limit: str = Field(description="storage, workers or cores")


class CheckpointFigures(Figures):
    """Cost of checkpoints."""

    bytes: Count = Field(description="of all ranks, bytes")
    writers: Count = Field(description="ranks that write")
    interval_steps: Count = Field(description="steps between two")
    stall_s: float = Field(description="how much longer a step is that ends with one, s")
    write_s: float = Field(description="of its writes alone, s")
    read_s: float = Field(description="of the same bytes read back, s")
    mtbf_h: float = Field(description="mean time between interruptions of the job, h")
    young_interval_s: float | None = Field(description="Young's interval, s; null where nothing stalls")
    best_interval_s: float | None = Field(description="Daly's interval, s; null where nothing stalls")
    best_interval_steps: Count | None = Field(description="the same in steps")
    goodput: Share = Field(description="of the job, 0 to 1")
    best_goodput: float | None = Field(description="with that interval, 0 to 1")


class StorageFigures(Figures):
    """Effect of storage on a step."""

    data: DataFigures | None = Field(description="null where the job reads none")
    checkpoint: CheckpointFigures | None = Field(description="null where the job writes none")


class BytesPair(Figures):
    """Bytes that leave a worker for each of its ranks in a mean step."""

    plain_bytes: float = Field(description="if all met in every step, bytes")
    sent_bytes: float = Field(description="as it is, bytes")


class UsedPart(Figures):
    """One technique that the job uses."""

    name: str = Field(description="key in the scenario")
    kind: str = Field(description="which technique")
    values: Values = Field(description="its settings")


class PublishedEffect(Figures):
    """Effect on convergence that a paper reports: quoted, not computed."""

    kind: str = Field(description="which technique")
    effect: str = Field(description="what was measured with the technique and without it")
    scope: str = Field(description="model, data, workers and settings for which it was measured")
    source: str = Field(description="the paper")


class CommunicationFigures(Figures):
    """Bytes that a job's communication method sends and keeps, next to those without it; a rank's mean step."""

    plain_bytes: float = Field(description="to other replicas without it, bytes")
    sent_bytes: float = Field(description="to other replicas, bytes")
    plain_across_bytes: float = Field(description="out of the scale-up domain without it, bytes")
    sent_across_bytes: float = Field(description="out of the scale-up domain, bytes")
    kept_bytes: float = Field(description="of device memory that it takes, bytes")
    between_workers: BytesPair | None = Field(description="between workers; null where all meet in every step")
    parts: tuple[UsedPart, ...] = Field(description="what is used")
    convergence: tuple[PublishedEffect, ...] = Field(description="published effects on what is learned")


ExposedCause = Literal["bandwidth", "latency", "contention", "straggler", "outage"]
EXPOSED: tuple[ExposedCause, ...] = ("bandwidth", "latency", "contention", "straggler")
"""Causes in a working network; `outage` is there only where faults of a network stop a job."""


class ServingTaxShares(Figures):
    """Share of one kind of network in a service: its figures against those without that network."""

    goodput_lost: Share = Field(description="share of the goodput that a network of that kind without limit would give")
    ttft: ShareByLevel = Field(description="share of each percentile of the time to the first token")
    tpot: ShareByLevel = Field(description="share of each percentile of the time per output token")


class ServingTax(ServingTaxShares):
    """Share of the scale-out network in a service; `scale_up` is never added to it."""

    scale_up: ServingTaxShares = Field(description="the same of scale-up networks")


class TaxShares(Figures):
    """Tokens lost to one kind of network; shares of the step, which add up to it."""

    tokens_lost: Share = Field(description="share of tokens that a network of that kind without limit would add back")
    exposed: dict[ExposedCause, Share] = Field(description="of it, waits for communication by cause")
    slowed_kernels: Share = Field(description="of it, computation slowed by concurrent communication")

    @model_validator(mode="after")
    def _parts(self) -> Self:
        parts = math.fsum((*self.exposed.values(), self.slowed_kernels))
        require_equal("tax: exposed communication and slowed kernels are not the tokens lost", parts, self.tokens_lost)
        return self

    @property
    def of_collectives(self) -> float:
        """Tokens lost to communication that goes on, which a model of collectives predicts: all but outages."""
        return self.tokens_lost - self.exposed.get("outage", 0.0)


class TaxFigures(TaxShares):
    """Tokens lost to the scale-out network, `1 - T1 / T`; `scale_up`, `(T1 - T0) / T`, is never added to it."""

    scale_up: TaxShares = Field(description="the same of scale-up networks")
    rest: dict[str, Share] = Field(description="share of the step by cause that no network changes, T0 / T")
    step_without_scale_out_s: float = Field(description="T1, mean step on a scale-out network without limit, s")
    step_without_networks_s: float = Field(description="T0, mean step on networks without limit, s")
    engine: str = Field(description="that found T1 and T0; the run's own where that is fluid, else `flow`")

    @model_validator(mode="after")
    def _step(self) -> Self:
        parts = math.fsum((self.tokens_lost, self.scale_up.tokens_lost, *self.rest.values()))
        require_equal("tax: the two taxes and the rest are not the step", parts, 1.0)
        return self


class TrialRow(Figures):
    """One resource made better, the step simulated again."""

    resource: str = Field(description="in the user's words")
    factor: float = Field(description="how much better")
    step_seconds: float = Field(description="step time then, s")
    gain: float = Field(description="share of the step saved; negative when it got longer")
    bound_step_seconds: float | None = Field(description="step time without its limit, s; null where not tried")
    bound_gain: float | None = Field(description="share saved then; null where not tried")


class ChangeRow(Figures):
    """A remedy: something that the user can change, the step simulated with it."""

    name: str = Field(description="in the user's words")
    family: str = Field(description="repair, layout, fabric, queue pairs, oversubscription, placement, precision, ...")
    settings: Values = Field(description="keys of the scenario to set, and their values")
    assumes: str = Field(description="what it takes for granted; empty for nothing")
    step_seconds: float = Field(description="mean step then, s")
    gain: float = Field(description="share of the mean step saved; negative when it got longer")
    cpmt_usd: float | None = Field(description="typical cost then, USD per million tokens; null for a bound")
    cpmt_gain: float | None = Field(description="share of that cost saved; negative when it costs more")
    capex_change_usd: float | None = Field(description="what has to be bought more, typical, USD; negative: less")
    bound: bool = Field(description="whether it only says what others cannot exceed: nobody sells it")


class BottleneckFigures(Figures):
    """The most useful improvement."""

    name: str = Field(
        description="the best resource, the largest loss where it is more than any resource saves, or `none`"
    )
    headline: str = Field(description="the largest loss, and the remedies that help most")
    sensitivity: str = Field(description="how the step moves with hardware that one cannot buy, in words")
    ranking: tuple[TrialRow, ...] = Field(description="sensitivity by resource, the most helpful first")
    changes: tuple[ChangeRow, ...] | None = Field(
        description="remedies, repairs first, then the one that saves most of a token's cost; null where none was tried"
    )
    engine: str = Field(
        description="that trials ran on; `closed form` where a step is too large to simulate a dozen times; empty: none"
    )


class StepFigures(Figures):
    """The step time over the seeds, with what checkpoints, meetings and varying data add on average."""

    seconds: float = Field(description="mean step, with what faults take from the job once spread over its steps, s")
    p50_s: float = Field(description="median, s")
    p95_s: float = Field(description="95th percentile, s")
    p99_s: float = Field(description="99th percentile, s")
    samples: tuple[float, ...] = Field(min_length=1, description="step time of each seed, s")
    jitter: str = Field(description="source of the law of jitter behind the percentiles; empty without one")
    without_faults_s: float | None = Field(
        default=None,
        description="mean step without the scenario's faults, on the same engine, s; absent without faults",
    )
    longest_s: float | None = Field(
        default=None,
        description="the step in which the fault that costs most comes, with all that is lost then, s; absent without "
        "faults",
    )


class TimeShare(Figures):
    """One line of the decomposition of a step."""

    cause: str = Field(description="compute, bandwidth, latency, contention, straggler, bubble, data, checkpoint, ...")
    group: str = Field(description="communicator class; empty where none is concerned")
    phase: str = Field(description="part of the step")
    seconds: float = Field(description="mean over ranks, s")
    share: Share = Field(description="of the mean step, 0 to 1")


class LateRank(Figures):
    """A rank that others waited for."""

    rank: Count = Field(description="number of the rank")
    gpu_seconds: float = Field(description="what its lateness cost the others, GPU-seconds a step")


class LockstepFigures(Figures):
    """Cost of the wait of a collective's members for the latest."""

    gpu_seconds_lost_to_stragglers: float = Field(description="summed over all ranks that waited, GPU-seconds a step")
    events: Count = Field(description="collectives in which a rank waited for a straggler")
    worst_ranks: tuple[LateRank, ...] = Field(description="the costliest first")


class JobTimeFigures(Figures):
    """Duration of the job, restarts included."""

    tokens: float = Field(description="token budget")
    steps: Count = Field(description="steps that it takes")
    seconds: float = Field(description="from start to end, interruptions included, s")
    checkpoint_s: float = Field(description="stalls for checkpoints, s")
    restart_s: float = Field(description="restarts and repeated work after failures that come by themselves, s")
    fault_s: float = Field(description="lost once to the scenario's faults, s")
    goodput: Share = Field(description="share of the time that is steps which count, 0 to 1")
    interruptions: float = Field(description="expected number, without the scenario's faults")
    mtbf_h: float = Field(description="mean time between interruptions of the job, h")
    checkpoint_interval_s: float = Field(description="work between checkpoints, s")
    best_checkpoint_interval_s: float | None = Field(
        description="the interval that makes the job shortest, s; null where a checkpoint does not stall it"
    )
    best_goodput: float | None = Field(description="goodput with that interval, 0 to 1")


class RankSpread(Figures):
    """Spread over the ranks."""

    min: Share = Field(description="least, 0 to 1")
    p50: Share = Field(description="median, 0 to 1")
    max: Share = Field(description="greatest, 0 to 1")


class UtilizationFigures(Figures):
    """Utilization of the accelerators."""

    gpu: Share = Field(description="GPU utilization: time in which the compute stream computes, 0 to 1")
    mfu: Share | None = Field(description="model FLOPs utilization, 0 to 1; null where the peak is not known")
    hfu: Share | None = Field(description="hardware FLOPs utilization, 0 to 1; null where the peak is not known")
    tokens_per_s: float | None = Field(description="of the cluster while it runs; null where the work makes no tokens")
    tokens_per_s_per_gpu: float | None = Field(description="of one accelerator; null where the work makes no tokens")
    ranks: RankSpread = Field(description="GPU utilization over the ranks")
    per_rank: Annotated[tuple[Share, ...], Field(min_length=1)] = Field(
        description="GPU utilization of each rank, sampled evenly beyond 4,096"
    )
