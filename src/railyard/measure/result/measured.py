"""Documents that start from a user's measurements: `railyard calibrate runs` and `railyard scale`."""

from __future__ import annotations

from statistics import fmean
from typing import Literal

from pydantic import Field

from railyard.measure import numbers
from railyard.measure.result.money import HourlyCost
from railyard.measure.result.network import CollectiveRow
from railyard.measure.result.section import AnswerDocument, Count, Figures, KeyFigure, Lists, Share
from railyard.measure.result.step import TaxFigures, TimeShare


class ScaledStep(Figures):
    """The step of the forecast."""

    seconds: float = Field(description="the forecast, s")
    kernels_s: float = Field(description="compute kernels of a rank, mean, s")
    host_s: float = Field(description="idle time of the accelerator that the host causes, mean, s")
    time: tuple[TimeShare, ...] = Field(description="where a rank's step goes, mean over ranks; computation includes"
                                        " the host's idle time between kernels")  # fmt: skip


class BandPart(Figures):
    """A source of uncertainty."""

    source: str = Field(description="in words")
    low_s: float = Field(description="how much shorter the step may be for this alone, s")
    high_s: float = Field(description="how much longer, s")


class ScaledBand(Figures):
    """Where eight of ten measured steps should lie."""

    low: float = Field(description="s")
    high: float = Field(description="s")
    parts: tuple[BandPart, ...] = Field(description="independent of one another; the band is their root sum of squares")


class AxisRow(Figures):
    """A direction of parallelism."""

    role: str = Field(description="tp, cp, ep, pp, dp, fsdp; ? if no process group says")
    traced: Count = Field(description="ranks along it in the trace")
    target: Count = Field(description="ranks along it in the forecast")
    stride: Count = Field(description="distance of neighbours in ranks, in the trace")
    known_by: str = Field(description="how the role is known")


class SlowedKernelRow(Figures):
    """Kernels of one name and size that take longer during communications."""

    rank: Count = Field(description="of the trace")
    kernel: str = Field(description="its name")
    factor: float = Field(description="median time during communications over that at other times")
    lost_s: float = Field(description="what that costs in a step, s")


class TracedFigures(Figures):
    """What the trace holds."""

    ranks: tuple[Count, ...] = Field(description="with a trace")
    world: Count = Field(description="ranks of the traced job")
    step: int = Field(description="number of the step that is used: the median by length")
    steps: Count = Field(description="whole steps of the trace")
    step_s: float = Field(description="its measured length, mean over traced ranks, s")
    replayed_s: float = Field(
        description="the same, if all tasks wait as recognized and communications take their measured times, s"
    )
    overlapped_share: Share = Field(description="share of kernel time during communications, which may slow kernels")
    slowed: tuple[SlowedKernelRow, ...] = Field(description="kernels that communications slow, the most first")
    exact_waits: Count = Field(description="waits that events of the trace show")
    seen_waits: Count = Field(description="waits that idle time shows")
    assumed_waits: Count = Field(description="waits that neither shows: the latest that frameworks allow")
    framework: str | None = Field(description="that trained, by names of its process groups; null: not recognized")
    gemms: tuple[str, ...] = Field(description="shapes of matrix products, most frequent first; empty: not recorded")
    model: str | None = Field(description="of the catalogue, by its shapes; null where not recognized, as below")
    sequence: Count | None = Field(description="tokens")
    micro_batch: Count | None = Field(description="sequences")
    micro_batches: Count | None = Field(description="of a step and replica")


class TargetRow(Figures):
    """A property of the traced machine that the target should have."""

    what: str = Field(description="accelerator, accelerators of a server, memory")
    traced: str = Field(description="in words")
    target: str = Field(description="in words")
    fits: bool | None = Field(description="whether the forecast rests on it; null: the trace does not say")
    means: str = Field(description="what follows for the forecast; empty: nothing")


class UnrecognizedRow(Figures):
    """Something of the trace that was not recognized."""

    what: str = Field(description="in words")
    why: str = Field(description="what the trace does not say")
    seconds: float = Field(description="measured time in a step that it concerns, s; 0: no time of its own")


class ScaleAnswer(AnswerDocument):
    """A step on a cluster, forecast from a trace."""

    format: Literal["railyard-scale/1"] = Field(description="of this document")
    name: str = Field(description="of the cluster")
    version: str = Field(description="of Railyard")
    engine: str = Field(description="that ran the communications")
    accelerators: Count = Field(description="of the forecast")
    step: ScaledStep = Field(description="the forecast")
    band: ScaledBand = Field(description="around it")
    measured_share: Share = Field(description="share of compute time that was measured; the rest is modelled")
    traced: TracedFigures = Field(description="what the forecast rests on")
    target: tuple[TargetRow, ...] = Field(description="the traced machine against that of the forecast")
    layout: tuple[AxisRow, ...] = Field(description="the innermost first")
    buckets: str = Field(description="what the number of ranks makes of gradient buckets; empty: they keep their size")
    tax: TaxFigures = Field(description="what networks cost")
    cost: HourlyCost = Field(description="of the cluster by the hour, and of one step")
    collectives: tuple[CollectiveRow, ...] = Field(description="the most time-consuming first")
    unrecognized: tuple[UnrecognizedRow, ...] = Field(description="of the trace")
    left_out: tuple[str, ...] = Field(description="what the forecast does not model")

    def sentence(self) -> str:
        """The answer in one sentence."""
        return (
            f"A step takes {self.step.seconds:.4g} s ({self.band.low:.4g} to {self.band.high:.4g}) on"
            f" {self.accelerators:,} accelerators at {numbers.dollars(self.cost.usd_per_h.typical)} an hour; the"
            f" network costs {numbers.percent(self.tax.tokens_lost)} of it."
        )

    def key_figures(self) -> tuple[KeyFigure, ...]:
        """Kernels, idle time, the step without networks, the measured share and the cost of a step."""
        step, cost = self.step, self.cost
        return (
            KeyFigure("Kernels", numbers.seconds(step.kernels_s), "of a rank, mean"),
            KeyFigure("Idle for the host", numbers.seconds(step.host_s), "between kernels"),
            KeyFigure("Step without networks", numbers.seconds(self.tax.step_without_networks_s)),
            KeyFigure("Measured", numbers.percent(self.measured_share), "of compute time; the rest is modelled"),
            KeyFigure("Cost of a step", numbers.dollars(cost.usd_per_run.typical)),
        )

    def lists(self) -> Lists:
        """What the forecast does not model."""
        lines = tuple(f"{line[:1].upper()}{line[1:].removesuffix('.')}." for line in self.left_out)
        return (("Assumptions", lines),) if lines else ()


MARK = "# calibrated with "
"""The first line of a file of constants begins so; runs that take them quote it."""


class ConstantFit(Figures):
    """A constant that the measurements moved."""

    of: str = Field(description="software, engine on a device, or launch that it belongs to")
    name: str = Field(description="of the constant")
    before: float = Field(description="as shipped")
    value: float = Field(description="that fits the measurements")
    low: float = Field(description="one standard deviation below")
    high: float = Field(description="one standard deviation above")
    settled: float = Field(description="share of its uncertainty that the measurements removed")


class RowFit(Figures):
    """A measurement and its predictions, all in the unit of the document."""

    line: Count = Field(description="in the file, from 1")
    name: str = Field(description="of the row")
    measured: float = Field(description="by the user")
    before: float = Field(description="predicted with the constants as shipped")
    after: float = Field(description="predicted with the fitted constants")
    left_out: float | None = Field(description="predicted by a fit without this row; null of a single row")


class CalibrationAnswer(AnswerDocument):
    """Constants that fit measurements, and the error before and after."""

    format: Literal["railyard-calibration/1"] = Field(description="of this document")
    name: str = Field(description="file of the measurements")
    version: str = Field(description="of Railyard")
    date: str = Field(description="day of the calibration, ISO 8601")
    kind: str = Field(description="training, serving or collectives")
    unit: str = Field(description="of the rows")
    constants: tuple[ConstantFit, ...] = Field(description="in the order of the fit")
    rows: tuple[RowFit, ...] = Field(description="in the order of the file")
    skipped: tuple[str, ...] = Field(description="rows that were left out, and why")
    use: str = Field(description="where a scenario names the file of constants")

    def origin(self) -> str:
        """`calibrated with steps.csv (2026-11-30), 3 rows`: the first line of the constants, and a remark of runs."""
        return f"{MARK[2:]}{self.name} ({self.date}), {numbers.counted(len(self.rows), 'row')}"

    def error(self, column: Literal["before", "after", "left_out"]) -> str:
        """Mean error of the predictions of a column, in percent; empty where there are none."""
        values = [(getattr(row, column), row.measured) for row in self.rows]
        misses = [abs(value / measured - 1.0) for value, measured in values if value is not None]
        return numbers.percent(fmean(misses)) if misses else ""

    def sentence(self) -> str:
        """The answer in one sentence."""
        left_out = self.error("left_out")
        also = f"; on rows left out of the fit it is {left_out}" if left_out else "; no other row checks it"
        change = f"from {self.error('before')} to {self.error('after')}"
        return f"Your constants change the mean error of {numbers.counted(len(self.rows), 'row')} {change}{also}."

    def key_figures(self) -> tuple[KeyFigure, ...]:
        """Mean errors with the shipped constants, with the fitted ones, and of rows left out of the fit."""
        left_out = self.error("left_out") or "not known"
        return (
            KeyFigure("Mean error before", self.error("before"), "with the shipped constants"),
            KeyFigure("Mean error after", self.error("after"), f"with {self.name}"),
            KeyFigure("On rows left out", left_out, "each predicted by a fit without it"),
        )

    def lists(self) -> Lists:
        """Rows that were skipped."""
        return (("Skipped rows", tuple(f"{line}." for line in self.skipped)),) if self.skipped else ()
