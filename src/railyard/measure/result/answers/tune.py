"""Settings of collectives and fabric: what `tune.json` holds."""

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
