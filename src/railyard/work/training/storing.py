"""Effects of storage on one variant: sample loading, checkpoint time, and advice on either."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from railyard.graph import Kind, Stream, TaskGraph
from railyard.measure.job import best_interval_s
from railyard.measure.result.step import CheckpointFigures, DataFigures
from railyard.work.training import stored
from railyard.work.training.loading import cores_of, load_of, mean_step_s, readers

if TYPE_CHECKING:
    from collections.abc import Iterator

    from railyard.graph import Record
    from railyard.measure.job import JobTime
    from railyard.work.training.loading import Load
    from railyard.work.training.prepare import Prepared
    from railyard.work.training.spec import Checkpoint

_ROUNDING = 1e-9
TELLING = 0.01
"""Share of the step from which waiting for storage is reported."""


@dataclass(frozen=True)
class Saved:
    """Checkpoint times; all 0 without checkpoints.

    Attributes:
        stall_s: Additional time of a step that ends with one.
        write_s: Time of its writes with the storage system to themselves.
        read_s: The same bytes read back.
    """

    stall_s: float = 0.0
    write_s: float = 0.0
    read_s: float = 0.0
    bytes: int = 0
    writers: int = 0


@dataclass(frozen=True)
class StateFlows:
    """Only the writes of a checkpoint."""

    graph: TaskGraph
    bytes: int
    writers: int

    def turned(self, kind: Kind) -> TaskGraph:
        """The same bytes written, or read."""
        return replace(self.graph, kind=np.full(len(self.graph), kind, np.uint8))


def state_flows(graph: TaskGraph, parts: int) -> StateFlows:
    """The writes of a graph, each scaled by `parts`.

    Args:
        graph: Graph of a step that writes a checkpoint, or one part of it.
        parts: Steps over which the write is spread.
    """
    tasks = np.flatnonzero(graph.kind == Kind.WRITE)
    size = graph.size_bytes[tasks] * parts
    alone = TaskGraph.of(
        graph.ranks,
        kind=graph.kind[tasks],
        rank=graph.rank[tasks],
        size_bytes=size,
        stream=Stream.STORAGE,
        label=graph.label[tasks],
        labels=graph.labels,
    )
    return StateFlows(alone, int(size.sum()), len(tasks))


def protected_s(section: Checkpoint, alone: StateFlows, write_s: float, read_s: float) -> tuple[float, float]:
    """Seconds of a write and of a read with keys, and with the work of the largest file's cores."""
    largest = float(alone.graph.size_bytes.max()) * 8
    asked_s = stored.keys_s(section, alone.writers)
    made_s, checked_s = largest / stored.file_bps(section), largest / stored.cores_bps(section)
    return asked_s + max(write_s, made_s), asked_s + max(read_s, checked_s)


@dataclass(frozen=True)
class Loading:
    """Loading of a step's samples.

    Attributes:
        read_s: Mean transfer time of a rank's bytes.
        worker_s: Additional time of one rank's workers per step.
        wait_s: Waiting of the step for data, mean over ranks, including variation.
        variation_s: Part of it because samples vary in size.
        cores: Host cores per reading rank; infinite if unknown.
    """

    load: Load
    ranks: int
    read_s: float
    worker_s: float
    workers: int
    wait_s: float
    variation_s: float
    step_s: float
    cores: float

    @property
    def limit(self) -> str:
        """The bottleneck of loading: `storage`, `workers` or the host's `cores`."""
        each_s = (self.read_s + self.worker_s) / max(self.workers, 1)
        if self.load.prepare_s / self.cores > max(self.read_s, each_s):
            return "cores"
        return "storage" if self.read_s >= each_s else "workers"

    @property
    def wanted_bps(self) -> float:
        """Rate at which no rank would wait, bit/s."""
        return self.load.stored_bytes * self.ranks * 8 / max(self.step_s - self.wait_s, 1e-12)

    @property
    def reached_bps(self) -> float:
        """Rate that storage delivers, bit/s."""
        return self.load.stored_bytes * self.ranks * 8 / self.step_s

    def section(self) -> DataFigures:
        """The result's `storage.data`."""
        total = self.load.stored_bytes + self.load.cached_bytes
        return DataFigures(
            bytes_per_rank=self.load.stored_bytes,
            bytes_per_step=self.load.stored_bytes * self.ranks,
            requests_per_rank=self.load.requests,
            hit_rate=self.load.cached_bytes / total if total else 0.0,
            readers=self.ranks,
            workers=self.workers,
            read_s=self.read_s,
            worker_s=self.worker_s,
            wait_s=self.wait_s,
            variation_s=self.variation_s,
            wanted_bps=self.wanted_bps,
            reached_bps=self.reached_bps,
            limit=self.limit,
        )


def loading_of(job: Prepared, timeline: Record, step_s: float, waited_s: float) -> Loading | None:
    """Loading of a step's samples; None if the job reads none."""
    data = job.training.data
    if data is None:
        return None
    load, graph = load_of(job.training, job.cluster.servers), timeline.graph
    ranks, took = readers(job.training), (timeline.end_ps - timeline.start_ps) * 1e-12
    read_s = float(took[graph.kind == Kind.READ].sum()) / ranks
    each = max(1, data.workers if data.prefetch else min(data.workers, job.training.layout.micro_batches))
    cores = cores_of(job.training, job.cluster.server.host_cores, job.cluster.ranks_per_server)
    worker_s = float(took[graph.stream == Stream.LOADER].sum()) / ranks * min(each, cores)
    variation_s = 0.0
    if load.spread > 0 and data.prefetch and data.workers:
        batch_s, compute_s = read_s + worker_s, max(step_s - waited_s, 0.0)
        numbers = {"workers": data.workers, "prefetch": data.prefetch, "ranks": ranks}
        varied = mean_step_s(compute_s, batch_s, spread=load.spread, **numbers)
        added_s = varied - mean_step_s(compute_s, batch_s, spread=0.0, **numbers)
        variation_s = added_s if added_s > _ROUNDING * step_s else 0.0
    total_s = step_s + variation_s
    return Loading(load, ranks, read_s, worker_s, data.workers, waited_s + variation_s, variation_s, total_s, cores)


def checkpoint_of(job: Prepared, saved: Saved, step_s: float, taken: JobTime) -> CheckpointFigures | None:
    """The result's `storage.checkpoint`."""
    section = job.training.checkpoint
    if section is None:
        return None
    best = taken.best_interval_s
    young = (2 * saved.stall_s * taken.mtbf_s) ** 0.5 if saved.stall_s > 0 else None
    return CheckpointFigures(
        bytes=saved.bytes,
        writers=saved.writers,
        interval_steps=section.interval_steps,
        stall_s=saved.stall_s,
        write_s=saved.write_s,
        read_s=saved.read_s,
        mtbf_h=taken.mtbf_s / 3600,
        young_interval_s=young,
        best_interval_s=None if best is None else best_interval_s(saved.stall_s, taken.mtbf_s),
        best_interval_steps=None if best is None else max(1, round(best / step_s)),
        goodput=taken.goodput,
        best_goodput=taken.best_goodput,
    )


def storage_warnings(
    job: Prepared, loading: Loading | None, saved: Saved, step_s: float, taken: JobTime
) -> Iterator[str]:
    """Warnings about waiting for storage."""
    if loading is not None and loading.wait_s > TELLING * loading.step_s:
        yield _waiting(job, loading)
    section = job.training.checkpoint
    if section is None:
        return
    share = saved.stall_s / section.interval_steps / (step_s + saved.stall_s / section.interval_steps)
    if share > TELLING and section.asynchronous is False:
        yield (
            f"checkpoints stall {share:.1%} of the time: {saved.stall_s:.3g} s every {section.interval_steps} steps;"
            " `asynchronous: true` stalls for the copy to host memory alone"
        )
    if section.asynchronous and saved.write_s > section.interval_steps * step_s:
        yield (
            f"a checkpoint takes {saved.write_s:.3g} s to write, longer than the {section.interval_steps} steps until"
            " the next one"
        )
    best = taken.best_interval_s
    if best is not None and taken.best_goodput is not None and taken.best_goodput > taken.goodput + TELLING / 2:
        yield (
            f"`checkpoint.interval_steps: {max(1, round(best / step_s))}` raises goodput from {taken.goodput:.1%} to"
            f" {taken.best_goodput:.1%} (Daly's interval for a failure every {taken.mtbf_s / 3600:.3g} h)"
        )


def _waiting(job: Prepared, loading: Loading) -> str:
    share = loading.wait_s / loading.step_s
    words = f"accelerators idle {share:.1%} of the step for data"
    if loading.variation_s > loading.wait_s / 2:
        return f"{words}, mostly because samples differ in size: read further ahead, or with more workers"
    data = job.training.data
    if data is not None and not (data.prefetch and data.workers):
        return f"{words}: nothing is read ahead; `prefetch` and `workers` hide loading behind computing"
    if loading.limit == "workers":
        compute_s = max(loading.step_s - loading.wait_s, 1e-12)
        wanted = int(np.ceil((loading.read_s + loading.worker_s) / compute_s))
        more = "" if wanted <= loading.cores else f", but the host has {loading.cores:.3g} cores for each"
        few = "one loader worker a rank is" if loading.workers == 1 else f"{loading.workers} loader workers a rank are"
        return f"{words}: {few} too few, about {wanted} would do{more}"
    if loading.limit == "cores":
        return f"{words}: the host's {job.cluster.server.host_cores} cores prepare no faster, however many workers"
    wanted_gb_per_s = loading.wanted_bps / 8e9
    reached = loading.reached_bps / 8e9
    return f"{words}: storage delivers {reached:.3g} GB/s of the {wanted_gb_per_s:.3g} GB/s that it would take"
