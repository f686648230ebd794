"""How long a step takes, where it goes, and what lockstep and the whole job make of it."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from railyard.measure.result.section import Count, Figures, Share


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
    """What it costs that all members of a collective wait for the latest."""

    gpu_seconds_lost_to_stragglers: float = Field(description="summed over all ranks that waited, GPU-seconds a step")
    events: Count = Field(description="collectives in which somebody waited for a straggler")
    worst_ranks: tuple[LateRank, ...] = Field(description="the costliest first")


class JobTimeFigures(Figures):
    """How long the job takes, restarts included."""

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
    """How busy the accelerators were."""

    gpu: Share = Field(description="GPU utilization: time in which the compute stream computes, 0 to 1")
    mfu: Share | None = Field(description="model FLOPs utilization, 0 to 1; null where the peak is not known")
    hfu: Share | None = Field(description="hardware FLOPs utilization, 0 to 1; null where the peak is not known")
    tokens_per_s: float | None = Field(description="of the cluster while it runs; null where the work makes no tokens")
    tokens_per_s_per_gpu: float | None = Field(description="of one accelerator; null where the work makes no tokens")
    ranks: RankSpread = Field(description="GPU utilization over the ranks")
    per_rank: Annotated[tuple[Share, ...], Field(min_length=1)] = Field(
        description="GPU utilization of each rank, sampled evenly beyond 4,096"
    )
