"""Which nodes jobs get by a scheduler's rule: what `placement.json` holds."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import Field

from railyard.measure.result.section import Count, Figures, Values


class SeenGain(Figures):
    """On the draws of the search, which flatter."""

    default_s: float = Field(description="mean step as written, s")
    tuned_s: float = Field(description="mean step with the settings, s")
    gain: float = Field(description="by which share it is shorter")


class UnseenCase(Figures):
    """A draw of the hashes that the search has not seen, alone, under a load of others, or with another job."""

    kind: Literal["draw", "load", "job"] = Field(description="the job alone, under others' load, or another job")
    seed: Count = Field(description="of the draw")
    load: float = Field(description="of others on the network, as a share")
    job: str = Field(description="the other job and its neighbour; empty for the job as written")
    default_s: float = Field(description="step as written, s")
    tuned_s: float = Field(description="step with the settings, s")


class KindGain(Figures):
    """The gain on the cases of one kind."""

    kind: Literal["draw", "load", "job"] = Field(description="the job alone, under others' load, or another job")
    count: Count = Field(description="cases")
    gain: float = Field(description="mean share by which steps are shorter")
    low: float | None = Field(description="low end of its interval; null of one case")
    high: float | None = Field(description="high end of its interval; null of one case")


class TailChange(Figures):
    """A quantile of how long communications take, before and after."""

    what: Literal["collectives", "flows"] = Field(description="what was timed")
    tail: Literal["p50", "p99", "p99.9", "slowest"] = Field(description="quantile, by nearest rank")
    before_us: float = Field(description="as written: geometric mean over the cases, us")
    after_us: float = Field(description="with the settings: geometric mean over the cases, us")
    gain: float = Field(description="share by which the latter is shorter: mean of ratios, in logarithms")
    low: float = Field(description="low end of its interval")
    high: float = Field(description="high end of its interval")


class TimesCurve(Figures):
    """How long communications of all cases take, before and after: points (us, share that takes longer)."""

    what: Literal["collectives", "flows"] = Field(description="what was timed")
    before_count: Count = Field(description="as written, of all cases together")
    after_count: Count = Field(description="with the settings, of all cases together")
    before: tuple[tuple[float, float], ...] = Field(description="as written")
    after: tuple[tuple[float, float], ...] = Field(description="with the settings")


class UnseenGain(Figures):
    """On draws, loads and jobs that the search has not seen: what to believe."""

    gain: float = Field(description="mean share by which steps are shorter")
    low: float = Field(description="low end of its interval")
    high: float = Field(description="high end of its interval")
    confidence: float = Field(description="of the interval, 0 to 1")
    kinds: tuple[KindGain, ...] = Field(description="the same by kind of case")
    cases: tuple[UnseenCase, ...] = Field(description="case by case")
    tails: tuple[TailChange, ...] = Field(description="quantiles of communications before and after")
    curves: tuple[TimesCurve, ...] = Field(description="all of them before and after")
    slice: float = Field(description="of so many bytes one was simulated; times of flows are of such a slice")


class TuneTrial(Figures):
    """Settings that were tried together on draws of the search."""

    settings: Values = Field(description="dotted keys and values that differ; none: as written")
    draws: Count = Field(description="of the search that they ran on: the better half goes on to the next")
    change: float | None = Field(
        description="mean step against as written on the same draws, less 1; null where it cannot be, or was not run"
    )
    error: str = Field(description="why it cannot; else empty")
    kept: bool = Field(description="whether these are the settings that were found")


class SettingChange(Figures):
    """A setting as written and as it was found."""

    key: str = Field(description="dotted")
    before: Any = Field(description="as written; null where nothing was said")
    after: Any = Field(description="as found")
    alone: float | None = Field(
        description="share by which steps are shorter with this change alone, on the draws of the search; null where "
        "a tuning that was stopped had not run that"
    )
    without: float | None = Field(
        description="share by which they are longer with all the others and not this one, there; null likewise"
    )


class TuneAnswer(Figures):
    """Settings that make a step shorter, and whether to believe it."""

    format: Literal["railyard-tune/1"] = Field(description="of this document")
    name: str = Field(description="of the scenario")
    version: str = Field(description="of Railyard")
    engine: str = Field(description="on which it was tried")
    stopped: bool = Field(description="whether it was stopped before its end: the settings are the best so far")
    settings: Values = Field(description="dotted keys and values that differ")
    recommended: Values = Field(description="the settings where they are surely better; else empty")
    changes: tuple[SettingChange, ...] = Field(description="the settings beside what was written")
    seen: SeenGain = Field(description="on the draws of the search")
    unseen: UnseenGain | None = Field(
        description="on draws and loads unseen; null where it was stopped before two of these"
    )
    trials: tuple[TuneTrial, ...] = Field(description="in their order")
    environment: str = Field(description="lines of a shell script for NCCL")
    tuner: str = Field(description="table of NCCL's example tuner plugin")

    def sentence(self) -> str:
        """The answer in one sentence."""
        early = "stopped before its end; so far " if self.stopped else ""
        if not self.settings:
            return f"{early}nothing that was tried is better than the scenario as written"
        if self.unseen is None:
            return f"{early}{self.seen.gain:.1%} shorter steps on the draws of the search; keep what is"
        sure = "recommended" if self.recommended else "not sure: keep what is"
        of = f"{self.unseen.gain:.1%} shorter steps ({self.unseen.low:.1%} to {self.unseen.high:.1%})"
        jobs = sum(case.kind == "job" for case in self.unseen.cases)
        where = f"{len(self.unseen.cases) - jobs} unseen draws and loads" + (f" and {jobs} other jobs" if jobs else "")
        return f"{early}{of} on {where}; {sure}"


class PlacedRow(Figures):
    """A job and its nodes."""

    job: str = Field(description="its name")
    state: str = Field(description="placed, waits; of Kueue also admitted, runs, preempted, moved, has quota")
    wanted: Count | None = Field(description="nodes that it asks; null where it asks pods")
    nodes: tuple[str, ...] = Field(description="names in the order of ranks; empty where it waits")
    groups: tuple[Count, ...] = Field(description="how many groups of each level it touches; empty where it waits")
    remarks: tuple[str, ...] = Field(description="why it waits, what of its wishes is not met")


class PolicyRow(Figures):
    """What a policy makes of the job that is placed."""

    policy: str = Field(description="its name")
    bound: bool = Field(description="whether it only shows how bad it can get")
    nodes: tuple[str, ...] = Field(description="names in the order of ranks; empty where the job waits")
    groups: tuple[Count, ...] = Field(description="how many groups of each level it touches")
    least: tuple[Count, ...] = Field(description="how few would do with what is free")
    step_s: float | None = Field(description="mean step there, s; null where the job waits")
    usd_per_1000_steps: float | None = Field(description="as the job's part of the cluster; null where it waits")


class PlacementAnswer(Figures):
    """Which nodes jobs get, and what other rules would have made of it."""

    format: Literal["railyard-placement/1"] = Field(description="of this document")
    name: str = Field(description="of the table of jobs")
    version: str = Field(description="of Railyard")
    rule: str = Field(description="by which jobs are placed")
    levels: tuple[str, ...] = Field(description="of the cluster, from the innermost; empty where the rule has its own")
    total: Count | None = Field(description="nodes of the cluster; null where queues share it out")
    idle: Count | None = Field(description="nodes that are left; null where queues share it out")
    jobs: tuple[PlacedRow, ...] = Field(description="in the order of the table")
    policies: tuple[PolicyRow, ...] = Field(description="of a scenario's job, the chosen one first; else empty")

    def sentence(self) -> str:
        """The answer in one sentence."""
        waiting = sum(not row.nodes for row in self.jobs)
        placed = f"{len(self.jobs) - waiting} of {len(self.jobs)} jobs placed by {self.rule}"
        best = self.best()
        if best is None or best is self.policies[0]:
            return placed
        return f"{placed}; {best.policy} is {self.gain(best):.1%} faster"

    def best(self) -> PolicyRow | None:
        """The policy with the shortest step, bounds left out; None where nothing was compared."""
        steps = [row for row in self.policies if not row.bound and row.step_s is not None]
        return min(steps, key=lambda row: row.step_s or 0.0, default=None)

    def gain(self, row: PolicyRow) -> float:
        """By which share of its own step another policy is faster than the chosen one."""
        first = self.policies[0].step_s
        return 0.0 if first is None or not row.step_s else first / row.step_s - 1.0
