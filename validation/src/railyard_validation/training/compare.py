"""Predicted against measured step times, row by row of a table of published training runs."""

from __future__ import annotations

import json
import math
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING

import numpy as np

from railyard.kit.errors import InputError
from railyard.measure.model_error import judged_software, step_error
from railyard.work.training import profiles
from railyard_validation.training.cases import estimated, family, kind, read_cases
from railyard_validation.training.fit import scored
from railyard_validation.training.fixed_part import FixedPart, fixed_parts
from railyard_validation.training.jitter import Tail, tail_of
from railyard_validation.training.jitter import summary_of as summary_of_tails
from railyard_validation.training.leave_out import check, left_out

if TYPE_CHECKING:
    from pathlib import Path

    from railyard.catalog import Catalog
    from railyard.measure.model_error import ModelError
    from railyard_validation.training.cases import Case
    from railyard_validation.training.table import Row

ENGINES = ("analytic",)


@dataclass(frozen=True)
class TrainingResult:
    """One row of the comparison.

    Attributes:
        id: Of the table's row.
        line: In the table.
        source: Whose measurement it is.
        tier: A, B or C; tier C is run but counts in no summary.
        status: `ok` or `skipped`.
        reason: Why it was skipped.
        bad: Whether it was skipped because it is wrong, not because it is silent.
        metric: From what the measured step seconds were taken.
        measured, predicted: Step seconds.
        error: (predicted - measured) / measured.
        low, high: Step seconds between which eight of ten measured steps lie.
        profile: Software profile that was taken.
        defaults: Facts that were assumed.
        judged: Whether the row can prove anything: tier A, or tier B of Megatron-Bridge with a known micro-batch.
            Others are predicted and reported.
        kind: Family of its source, models with experts apart.
        tail: Quantiles of the step over its median, where the run publishes them.
    """

    id: str
    line: int
    source: str
    tier: str
    status: str
    reason: str = ""
    bad: bool = False
    metric: str = ""
    measured: float | None = None
    predicted: float | None = None
    error: float | None = None
    low: float | None = None
    high: float | None = None
    profile: str = ""
    defaults: tuple[str, ...] = ()
    judged: bool = True
    kind: str = ""
    tail: Tail | None = None

    @property
    def scored(self) -> bool:
        """Whether the row counts in summaries."""
        return self.error is not None and self.tier != "C"


@dataclass(frozen=True)
class TrainingReport:
    """All rows of a table, and how far predictions lie from what was measured; `fixed` is of pairs of its runs."""

    table: str
    engine: str
    rows: tuple[TrainingResult, ...] = field(default_factory=tuple)
    fixed: tuple[FixedPart, ...] = ()

    def summary(self) -> dict[str, float | int | None]:
        """Errors over all scored rows: `n`, `skipped`, mean, median and 90th percentile of |error|."""
        return summary_of(self.rows)

    def judged(self) -> dict[str, float | int | None]:
        """The same over the rows that can prove anything."""
        return summary_of(tuple(row for row in self.rows if row.judged))

    def sources(self) -> dict[str, dict[str, float | int | None]]:
        """The same by source family."""
        families = dict.fromkeys(family(row.source) for row in self.rows)
        return {name: summary_of(tuple(row for row in self.rows if family(row.source) == name)) for name in families}

    def tails(self) -> dict[str, float | int | None]:
        """Errors of p95/p50 over the rows that publish single steps; see `validate.jitter`."""
        return summary_of_tails([row.tail for row in self.rows if row.tail is not None])

    def to_json(self) -> str:
        """The report as JSON: `rows`, `summary`, `sources`, `tails`, `fixed_part`."""
        rows = [
            {**asdict(row), "defaults": list(row.defaults), "tail": row.tail.to_json() if row.tail else None}
            for row in self.rows
        ]
        content = {
            "table": self.table,
            "engine": self.engine,
            "rows": rows,
            "summary": self.summary(),
            "judged": self.judged(),
            "sources": self.sources(),
            "tails": self.tails(),
            "fixed_part": [part.to_json() for part in self.fixed],
        }
        return json.dumps(content, indent=1, allow_nan=False)


def validate_training(
    table: Path, catalog: Catalog, *, engine: str = "analytic", leave_out: str | None = None
) -> TrainingReport:
    """Predicts every run of a table.

    Args:
        table: CSV with the columns of `runs.csv` or `runs_single_node.csv`.
        catalog: For devices and models.
        leave_out: Predict each `source` (or `model`, or `hidden` size) with constants that were fitted without it, on
            the smallest scale of each family in this table; None: with the shipped constants.
        engine: `analytic`, the closed-form estimate.

    Raises:
        InputError: The table cannot be read, or there is no such engine or part.
    """
    if engine not in ENGINES:
        raise InputError(f"validation has no engine `{engine}`", key="engine", found=engine, allowed=ENGINES)
    if leave_out is not None:
        check(leave_out)
    cases, refused = read_cases(table, catalog)
    if leave_out is not None:
        cases, _ = left_out(cases, leave_out, catalog)
    results = {one.row.line: skipped(one.row, one.reason, bad=one.bad) for one in refused}
    found = estimated(cases)
    fixed: list[FixedPart] = []
    if found is not None:
        for case, step_s, delay_s in zip(cases, found.step_s.tolist(), found.jitter_s.tolist(), strict=True):
            results[case.row.line] = _compared(case, step_s, delay_s)
        fixed = fixed_parts(cases, found.step_s.tolist())
    return TrainingReport(str(table), engine, tuple(results[line] for line in sorted(results)), tuple(fixed))


def skipped(row: Row, reason: str, *, bad: bool = False) -> TrainingResult:
    """The result of a row that cannot be predicted; the reason names its line."""
    named = reason if f"line {row.line}" in reason else f"line {row.line}: {reason}"
    return TrainingResult(row.id, row.line, row.get("source_doc"), row.get("tier", "A"), "skipped", named, bad=bad)


def _compared(case: Case, predicted: float, delay_s: float) -> TrainingResult:
    row = case.row
    if not math.isfinite(predicted) or predicted <= 0:
        return skipped(row, "the model gives no finite step time for this configuration")
    band = band_of(case)
    return TrainingResult(
        id=row.id,
        line=row.line,
        source=row.get("source_doc"),
        tier=row.get("tier", "A"),
        status="ok",
        metric=case.metric,
        measured=case.measured,
        predicted=predicted,
        error=(predicted - case.measured) / case.measured,
        low=predicted * (1.0 + band.low),
        high=predicted * (1.0 + band.high),
        profile=case.training.software.name,
        defaults=case.defaults,
        judged=scored(case),
        kind=kind(case),
        tail=tail_of(case, predicted - delay_s),
    )


def band_of(case: Case) -> ModelError:
    """The band of a run's step, as a scenario with the same facts has it."""
    job, device = case.training, case.machine.accelerator
    known = profiles.key_of(job.software) in judged_software() and profiles.read_on(job.software, device)
    return step_error(experts=bool(job.model.experts), precision=job.precision, known=known)


def summary_of(rows: tuple[TrainingResult, ...]) -> dict[str, float | int | None]:
    """Errors over the scored rows: `n`, `skipped`, mean, median and 90th percentile of |error|."""
    errors = sorted(abs(row.error) for row in rows if row.scored and row.error is not None)
    skipped = sum(row.status == "skipped" for row in rows)
    if not errors:
        return {"n": 0, "skipped": skipped, "mean_abs_error": None, "median_abs_error": None, "p90_abs_error": None}
    return {
        "n": len(errors),
        "skipped": skipped,
        "mean_abs_error": sum(errors) / len(errors),
        "median_abs_error": float(np.quantile(errors, 0.5)),
        "p90_abs_error": float(np.quantile(errors, 0.9)),
    }
