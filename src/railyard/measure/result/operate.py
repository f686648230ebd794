"""A cluster over months: waiting, use, where its time went, noisy neighbors, dollars by tenant."""

from __future__ import annotations

import math
from typing import Literal, Self

from pydantic import Field, model_validator

from railyard.measure.result.section import Band, Count, Figures, Share, require_equal


class SpreadFigures(Figures):
    """Mean and percentiles of something that jobs have."""

    mean: float = Field(description="mean")
    p50: float = Field(description="median")
    p95: float = Field(description="95th percentile")
    p99: float = Field(description="99th percentile")


class JobCounts(Figures):
    """Numbers of the trace's jobs by their state at the end of the run."""

    all: Count = Field(description="of the trace")
    done: Count = Field(description="that finished their work")
    ended: Count = Field(description="that were ended: at their limit, or after failing too often")
    running: Count = Field(description="that ran at the end")
    waiting: Count = Field(description="that waited at the end")
    stuck: Count = Field(description="that wait forever")
    unsubmitted: Count = Field(description="whose submission is after the end of the run")
    never_started: Count = Field(description="of those that wait: that never had nodes")

    @model_validator(mode="after")
    def _sum(self) -> Self:
        parts = self.done + self.ended + self.running + self.waiting + self.stuck + self.unsubmitted
        require_equal("jobs: their parts do not add up", parts, self.all)
        return self


class SteadyFigures(Figures):
    """The steady window, the part of the run that figures describe by default."""

    start_s: float = Field(description="from when, from the start of the run, s")
    end_s: float = Field(description="until when, s")
    chosen: Literal["first to last submission", "scenario", "whole run"] = Field(
        description="why: `whole run` where no job ends between the first submission and the last"
    )
    submitted: Count = Field(description="jobs submitted in it: their waits, completion times and slowdowns count")
    running_at_end: Count = Field(description="jobs that run at its end, and past it")
    waiting_at_end: Count = Field(description="jobs that wait at its end")


class PeriodFigures(Figures):
    """A part of the run."""

    start_s: float = Field(description="from when, from the start of the run, s")
    end_s: float = Field(description="until when, s")
    utilization: Share = Field(description="accelerator time that jobs had, of all in this part")
    goodput: Share = Field(description="accelerator time that was work, of all in this part")
    useful_accelerator_hours: float = Field(description="that were work")
    usd: Band = Field(description="what the cluster cost meanwhile, USD")
    usd_per_useful_accelerator_hour: Band | None = Field(description="USD; null where no work was done")


class WarmUpFigures(Figures):
    """The first part of the window, while the cluster fills; found by MSER (White 1997) in the samples."""

    until_s: float = Field(description="its end, from the start of the run, s")
    span_s: float = Field(description="how long it is, s")
    utilization: Share = Field(description="accelerator time that jobs had in it")
    utilization_after: Share = Field(description="the same in the rest of the window")


class TimePart(Figures):
    """One thing that became of the accelerators' time."""

    name: str = Field(
        description="work, setup, contention, straggler, checkpoint, hang, lost, turnaround, idle, out of service"
    )
    share: Share = Field(description="of all accelerator time of the window")


class FragmentationFigures(Figures):
    """Free accelerators that large jobs cannot get; means over the samples."""

    idle_while_jobs_wait: Share = Field(
        description="of all accelerator time: free while a job waited that it did not suit"
    )
    usd_while_jobs_wait: Band = Field(description="what that cost, USD")
    accelerators_in_shared_nodes: Share = Field(description="of free accelerators: on nodes that others have a part of")
    nodes_in_shared_groups: Share = Field(description="of idle nodes: in narrowest groups that are not idle altogether")


class ModeRow(Figures):
    """A way in which things failed."""

    name: str = Field(description="component and manner")
    faults: Count = Field(description="how often")
    jobs_hit: Count = Field(description="jobs that it stopped or slowed; one that pauses for a reroute is none")


class BreakageFigures(Figures):
    """Failures and repairs."""

    faults: Count = Field(description="of nodes in service")
    jobs_hit: Count = Field(description="each job as often as a failure stopped or slowed it; pauses are none")
    by_mode: tuple[ModeRow, ...] = Field(description="the most frequent first")
    repair_work_h: float = Field(description="hours of technicians, of modes whose parts the catalogue knows")
    repair_usd: Band = Field(description="their work, and parts, of the same modes, USD")


class SizeRow(Figures):
    """Jobs of about one size."""

    accelerators: str = Field(description="from how many to how many")
    jobs: Count = Field(description="of that size")
    accelerator_hours: float = Field(description="that they had")
    queue_s: SpreadFigures | None = Field(description="from submission to first start, s; null where none started")
    slowdown: SpreadFigures | None = Field(description="completion over work alone; null where none finished")
    ettr: Share | None = Field(description="work over the time they had nodes; null where they had none")
    mtbf_h: float | None = Field(
        description="hours with nodes for each failure, in the whole run; null where none failed"
    )


class SlowedRow(Figures):
    """A job and the neighbour that cost it most."""

    job: str = Field(description="that was slowed")
    by: str = Field(description="the neighbour that sent most over what they share")
    accelerator_hours: float = Field(description="that the job lost meanwhile")


class TenantRow(Figures):
    """A tenant; each pays for the cluster in proportion to the accelerator time that it had."""

    name: str = Field(description="as the trace calls it")
    jobs: Count = Field(description="that it submitted")
    accelerator_hours: float = Field(description="that it had")
    useful_accelerator_hours: float = Field(description="of which were work")
    queue_s: SpreadFigures | None = Field(description="from submission to first start, s; null where none started")
    jct_s: SpreadFigures | None = Field(description="from submission to the end, s; null where none finished")
    finish_time_fairness: SpreadFigures | None = Field(
        description="completion over that on an equal part of the cluster; above 1: worse off; null where none finished"
    )
    usd_per_useful_accelerator_hour: Band | None = Field(description="USD; null where it did no work")


class ServedState(Figures):
    """A deployment with some of its replicas."""

    answer: Count = Field(description="replicas that answer")
    asked: Count = Field(description="replicas that requests are sent to: those included whose loss nobody has seen")
    time: Share = Field(description="of the deployment's time")
    ttft_p99_s: float | None = Field(description="99th percentile of time to first token, s; null: the queue grows")
    tpot_p99_s: float | None = Field(description="of each further token, s; null: the queue grows")
    in_time: Share = Field(description="of the requests that come meanwhile: answered within the objective")


class ServiceRow(Figures):
    """Serving jobs of one class, size and load: what their users saw while replicas were out."""

    name: str = Field(description="class of work")
    jobs: Count = Field(description="of that class, size and load")
    replicas: Count = Field(description="of each job when none is out")
    accelerators: Count = Field(description="of each replica")
    load: float = Field(description="requests, of what all replicas answer when requests never run out")
    rate_per_s: float = Field(description="requests a second of each job")
    failed: Share = Field(description="of all requests: sent to a replica that was dead, and nobody knew")
    in_time: Share = Field(description="of all requests: answered within the objective")
    goodput_per_s: float = Field(description="requests a second of each job, answered within the objective")
    ttft_p99_s: float | None = Field(
        description="99th percentile of time to first token over the run, s; null: of a time in which the queue grew"
    )
    tpot_p99_s: float | None = Field(description="of each further token, s; null: of a time in which the queue grew")
    states: tuple[ServedState, ...] = Field(min_length=1, description="most replicas first; queues that grow are in it")


class DrawRow(Figures):
    """A draw of the failures."""

    seed: Count = Field(description="of the draw")
    goodput: Share = Field(description="accelerator time that was work")
    ettr: Share = Field(description="work over the time that jobs had nodes")
    useful_accelerator_hours: float = Field(description="that were work")
    usd_per_useful_accelerator_hour: float | None = Field(description="typical, USD; null where no work was done")
    lost_accelerator_hours: float = Field(description="that jobs had and that were no work")
    failures: BreakageFigures = Field(description="what broke")


class DrawBand(Figures):
    """A figure over the draws."""

    low: float = Field(description="of the draw with the least")
    mean: float = Field(description="of all draws")
    high: float = Field(description="of the draw with the most")


class DrawFigures(Figures):
    """Dependence of results on the times of failures: runs with other draws, all else the same."""

    goodput: DrawBand = Field(description="accelerator time that was work")
    ettr: DrawBand = Field(description="work over the time that jobs had nodes")
    usd_per_useful_accelerator_hour: DrawBand | None = Field(
        description="typical, USD; the mean is all dollars over all work; null where some draw did none"
    )
    by_draw: tuple[DrawRow, ...] = Field(min_length=2, description="the first is the run itself")


class ClusterPrice(Figures):
    """Cost of the cluster while it ran."""

    per_h: Band = Field(description="of the cluster, USD/h")
    total: Band = Field(description="of the window, USD")
    per_useful_accelerator_hour: Band | None = Field(description="USD for each hour of work; null where none was done")


class SeriesFigures(Figures):
    """The cluster over time; one entry a sample, at most a few hundred, evenly thinned."""

    time_s: tuple[float, ...] = Field(description="of the sample, s")
    waiting: tuple[int, ...] = Field(description="jobs in the queue")
    running: tuple[int, ...] = Field(description="jobs with nodes")
    busy: tuple[float, ...] = Field(description="accelerators that jobs had, of all")
    idle: tuple[float, ...] = Field(description="accelerators free for any job, of all")
    in_shared_nodes: tuple[float, ...] = Field(description="free accelerators of shared nodes, of all")
    in_shared_groups: tuple[float, ...] = Field(description="idle nodes of groups that are not idle altogether, of all")
    out: tuple[float, ...] = Field(description="accelerators out of service: broken, spare, kept free; of all")

    @model_validator(mode="after")
    def _one_length(self) -> Self:
        lengths = {len(getattr(self, name)) for name in type(self).model_fields}
        if len(lengths) != 1:
            raise ValueError(f"series: the columns differ in length: {sorted(lengths)}")
        return self


class HeatFigures(Figures):
    """Nodes against time: a byte a cell, row by row, base64.

    0 to 200: accelerators that jobs had, of those in service, in half percents. 201: one node and a tenth of all
    broken for most of the span, 202: most spares, 203: most kept free for maintenance or a tenant.
    """

    rows: Count = Field(description="groups of neighbouring nodes, in the cluster's order")
    columns: Count = Field(description="spans of time")
    first: tuple[str, ...] = Field(description="name of the first node of each row")
    cells: str = Field(description="rows x columns bytes, base64")

    @model_validator(mode="after")
    def _full(self) -> Self:
        size = len(self.cells) // 4 * 3 - self.cells[-2:].count("=")
        if size != self.rows * self.columns or len(self.first) != self.rows:
            raise ValueError(f"heat: {size} cells, {len(self.first)} names for {self.rows} x {self.columns}")
        return self


class OperateFigures(Figures):
    """A run of many jobs on one cluster; figures are those of its steady window by default."""

    span_s: float = Field(description="how long the whole run was, s")
    nodes: Count = Field(description="of the cluster")
    accelerators: Count = Field(description="of the cluster")
    jobs: JobCounts = Field(description="what became of them by the end of the run")
    steady: SteadyFigures = Field(description="the window whose figures these are")
    before: PeriodFigures | None = Field(description="before a window that the scenario gives; null: nothing is")
    drain: PeriodFigures | None = Field(description="after the window; null: the run ends with it")
    whole: PeriodFigures = Field(description="the whole run, drain included")
    warm_up: WarmUpFigures | None = Field(
        description="of the window; null where leaving it out moves the utilization by less than a point"
    )
    jct_s: SpreadFigures | None = Field(description="from submission to the end, s; null where none finished")
    queue_s: SpreadFigures | None = Field(description="from submission to first start, s; null where none started")
    slowdown: SpreadFigures | None = Field(description="completion over work alone, bounded at 10 s")
    finish_time_fairness: SpreadFigures | None = Field(description="completion over that on an equal part, see tenants")
    utilization: Share = Field(description="accelerator time that jobs had")
    in_service: Share = Field(description="accelerator time that nodes were in service")
    goodput: Share = Field(description="accelerator time that was work")
    ettr: Share = Field(description="work over the time that jobs had nodes")
    time: tuple[TimePart, ...] = Field(min_length=1, description="what became of all accelerator time; adds up to 1")
    fragmentation: FragmentationFigures = Field(description="what is free and cannot be used by large jobs")
    failures: BreakageFigures = Field(description="what broke")
    sizes: tuple[SizeRow, ...] = Field(description="small jobs first")
    slowed_by: tuple[SlowedRow, ...] = Field(description="the pairs that cost most; empty without contention")
    tenants: tuple[TenantRow, ...] = Field(min_length=1, description="in the order of the trace")
    services: tuple[ServiceRow, ...] = Field(
        description="serving jobs of classes that say what they answer, in the whole run; empty where none does"
    )
    usd: ClusterPrice = Field(description="what it cost")
    draws: DrawFigures | None = Field(description="the same over draws of the failures; null where there is one")
    series: SeriesFigures = Field(description="the cluster over time, in the whole run")
    heat: HeatFigures = Field(description="nodes against time, in the whole run")

    @model_validator(mode="after")
    def _sums(self) -> Self:
        require_equal("time: the shares do not add up", math.fsum(part.share for part in self.time), 1.0)
        return self

    def share(self, name: str) -> float:
        """Share of the accelerators' time that one use takes.

        Raises:
            KeyError: There is no such part.
        """
        return {part.name: part.share for part in self.time}[name]
