"""Memory, timeline, storage and the price of communication of a training step."""

from __future__ import annotations

from pydantic import Field

from railyard.measure.result.section import Count, Figures, Number, Share, Values


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
    """How a step is spread over the accelerators."""

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

    rows: tuple[MemoryStage, ...] = Field(description="a row a stage")


Task = tuple[float, float, Count]
"""Start in us, duration in us, index of its label."""


class Track(Figures):
    """What one stream of a rank did."""

    rank: Count = Field(description="number of the rank")
    stream: str = Field(description="compute, communication, ...")
    tasks: tuple[Task, ...] = Field(description="start in us, duration in us, index of the label")


class TrackLabel(Figures):
    """How tasks look in the drawing."""

    phase: str = Field(description="part of the step")
    op: str = Field(description="operation")
    group: str = Field(description="communicator class; empty for computations")


class TimelineFigures(Figures):
    """The step of a few ranks."""

    ranks: tuple[Count, ...] = Field(description="which ranks")
    tracks: tuple[Track, ...] = Field(description="a track a rank and stream")
    labels: tuple[TrackLabel, ...] = Field(description="tasks name them by index")


class DataFigures(Figures):
    """How the samples of a step were loaded."""

    bytes_per_rank: Number = Field(description="from storage in a step, bytes")
    bytes_per_step: Number = Field(description="of all ranks that read, bytes")
    requests_per_rank: Number = Field(description="of a step")
    hit_rate: Share = Field(description="of bytes that the cache held, 0 to 1")
    readers: Count = Field(description="ranks that read")
    workers: Count = Field(description="loader workers of a rank")
    read_s: float = Field(description="for which a rank's bytes were on their way, s")
    worker_s: float = Field(description="of a rank's workers besides, s")
    wait_s: float = Field(description="of the step for data, mean over ranks, s")
    variation_s: float = Field(description="of it, because samples vary in size, s")
    wanted_bps: float = Field(description="that would make nobody wait, bit/s")
    reached_bps: float = Field(description="that storage delivered, bit/s")
    limit: str = Field(description="storage, workers or cores")


class CheckpointFigures(Figures):
    """What checkpoints take."""

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
    """What storage does to a step."""

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
    """What a paper reports about convergence: quoted, not computed."""

    kind: str = Field(description="which technique")
    effect: str = Field(description="what was measured with the technique and without it")
    scope: str = Field(description="model, data, workers and settings for which it was measured")
    source: str = Field(description="the paper")


class CommunicationFigures(Figures):
    """What a job's way of communicating sends and keeps, beside what it would send without; a mean step of a rank."""

    plain_bytes: float = Field(description="to other replicas without it, bytes")
    sent_bytes: float = Field(description="to other replicas, bytes")
    plain_across_bytes: float = Field(description="out of the scale-up domain without it, bytes")
    sent_across_bytes: float = Field(description="out of the scale-up domain, bytes")
    kept_bytes: float = Field(description="of device memory that it takes, bytes")
    between_workers: BytesPair | None = Field(description="between workers; null where all meet in every step")
    parts: tuple[UsedPart, ...] = Field(description="what is used")
    convergence: tuple[PublishedEffect, ...] = Field(description="published effects on what is learned")
