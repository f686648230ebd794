"""The document of `railyard calibrate runs`: constants that fit a user's measurements, and how well they do."""

from __future__ import annotations

from statistics import fmean
from typing import Literal

from pydantic import Field

from railyard.measure import numbers
from railyard.measure.result.section import AnswerDocument, Count, Figures, KeyFigure, Lists

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
