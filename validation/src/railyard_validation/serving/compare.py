"""Predicted against measured serving, row by row of a table: TPOT, TTFT, throughput, power, cost."""

from __future__ import annotations

import json
import math
import re
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING

import numpy as np

from railyard.kit.errors import InputError, did_you_mean
from railyard.measure.model_error import measured_deployments, power_error, serving_error, serving_key
from railyard_validation.serving import metrics, service
from railyard_validation.serving.cases import case_of
from railyard_validation.serving.table import read, same_measurement

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from railyard.catalog import Catalog
    from railyard.measure.cost.serving import ServingCost
    from railyard.measure.model_error import ModelError, Question
    from railyard_validation.serving.cases import Case
    from railyard_validation.serving.table import Row

METRICS = tuple(metrics.METRICS)


@dataclass(frozen=True)
class ServingResult:
    """One row of the comparison.

    Attributes:
        id: Of the table's row.
        line: In the table.
        source: Whose measurement it is.
        status: `ok`, `skipped`, `duplicate` (the same measurement as another row) or `silent` (the row does not
            publish the metric).
        reason: Why there is no prediction.
        metric: What is compared, and in which unit.
        measured, predicted: Values; the prediction is the serving engine's, request by request, where the row has a
            load, and the closed form's where only a batch is known.
        error: (predicted - measured) / measured.
        profile: Engine and architecture of the constants.
        defaults: Facts that were assumed.
        closed_form, closed_form_error: The same by the closed form that planning and fitting use.
        load: Kind of load (`closed`, `open`, `split`, `offline`, `batch`, `decode`, `other`), with `, incomplete label`
            where a recipe had to tell what was deployed; empty where there is no prediction.
        low, high: Values between which eight of ten measured ones lie; not of a service's day, which has no band.
    """

    id: str
    line: int
    source: str
    status: str
    reason: str = ""
    metric: str = ""
    measured: float | None = None
    predicted: float | None = None
    error: float | None = None
    profile: str = ""
    defaults: tuple[str, ...] = ()
    closed_form: float | None = None
    closed_form_error: float | None = None
    load: str = ""
    low: float | None = None
    high: float | None = None


@dataclass(frozen=True)
class ServingReport:
    """All rows of a table under one metric."""

    table: str
    metric: str
    rows: tuple[ServingResult, ...] = field(default_factory=tuple)

    def summary(self) -> dict[str, float | int | None]:
        """`n`, `skipped`, `coverage`, and mean, median and 90th percentile of |error|, each measurement once."""
        return summary_of(self.rows)

    def sources(self) -> dict[str, dict[str, float | int | None]]:
        """The same by source."""
        names = dict.fromkeys(family(row.source) for row in self.rows if row.status in ("ok", "skipped"))
        return {name: summary_of([row for row in self.rows if family(row.source) == name]) for name in names}

    def loads(self) -> dict[str, dict[str, float | int | None]]:
        """The same of compared rows by kind of load, those with incomplete labels apart."""
        names = sorted({row.load for row in self.rows if row.load})
        return {name: summary_of([row for row in self.rows if row.load == name]) for name in names}

    def to_json(self) -> str:
        """The report as JSON: `table`, `metric`, `rows`, `summary`, `sources`, `loads`."""
        content = {
            "table": self.table,
            "metric": self.metric,
            "rows": [{**asdict(row), "defaults": list(row.defaults)} for row in self.rows],
            "summary": self.summary(),
            "sources": self.sources(),
            "loads": self.loads(),
        }
        return json.dumps(content, indent=1, allow_nan=False)


def validate_serving(table: Path, catalog: Catalog, *, metric: str = "tpot") -> ServingReport:
    """Predicts every row of a table that publishes the metric.

    Args:
        table: CSV with the columns of the published tables (docs/explanation/serving-cost.md).
        catalog: For devices and models.
        metric: One of `METRICS`.

    Raises:
        InputError: The table cannot be read, or there is no such metric.
    """
    if metric not in METRICS:
        raise InputError(
            f"serving cannot be judged by `{metric}`",
            key="metric",
            found=metric,
            allowed=METRICS,
            hint=did_you_mean(metric, METRICS),
        )
    rows = read(table)
    stands = same_measurement(rows)
    names = {row.line: row.id for row in rows}
    results: dict[int, ServingResult] = {}
    cases: list[Case] = []
    for row in rows:
        told = metrics.measured(row, metric)
        if told is None:
            results[row.line] = _without(row, "silent", f"the row publishes no {metric}")
        elif stands[row.line] != row.line:
            results[row.line] = _without(row, "duplicate", f"the same measurement as {names[stands[row.line]]}")
        elif metric == "cost" and service.is_service(row):
            results[row.line] = _service(row, service.price_of(row, rows, catalog))
        else:
            case = case_of(row, catalog)
            if isinstance(case, str):
                results[row.line] = _without(row, "skipped", case)
            else:
                cases.append(case)
    results |= {result.line: result for result in _compared(cases, metric)}
    return ServingReport(str(table), metric, tuple(results[line] for line in sorted(results)))


def _without(row: Row, status: str, reason: str) -> ServingResult:
    named = reason if f"line {row.line}" in reason else f"line {row.line}: {reason}"
    return ServingResult(row.id, row.line, row.get("source"), status, named)


def _service(row: Row, found: ServingCost | str) -> ServingResult:
    """The price of all tokens of a service's day."""
    told, price = metrics.measured(row, "cost"), None if isinstance(found, str) else found.tokens["total"]
    if told is None or price is None:
        return _without(row, "skipped", found if isinstance(found, str) else "nothing was served")
    error = price.typical / told[1] - 1.0
    named = f"{told[0]}, of a service's day"
    return ServingResult(row.id, row.line, row.get("source"), "ok", "", named, told[1], price.typical, error)


def _compared(cases: Sequence[Case], metric: str) -> list[ServingResult]:
    found = metrics.predict(cases, metric)
    results = []
    for case, predicted in zip(cases, found, strict=True):
        if isinstance(predicted, str):
            results.append(_without(case.row, "skipped", predicted))
            continue
        told = metrics.measured(case.row, metric)
        if told is None or not math.isfinite(predicted.value) or predicted.value <= 0:
            results.append(_without(case.row, "skipped", "the model gives no finite value for this deployment"))
            continue
        name, measured = told
        band = _band(case, metric).row(name, predicted.value, inverse=metric == "cost")
        results.append(
            ServingResult(
                case.row.id,
                case.row.line,
                case.row.get("source"),
                "ok",
                metric=name,
                measured=measured,
                predicted=predicted.value,
                error=predicted.value / measured - 1.0,
                low=band.low,
                high=band.high,
                closed_form=predicted.closed_form,
                closed_form_error=predicted.closed_form / measured - 1.0,
                profile=f"{case.engine}/{case.device.architecture}",
                defaults=case.defaults,
                load=case.kind + (", incomplete label" if case.incomplete else ""),
            )
        )
    return results


def _band(case: Case, metric: str) -> ModelError:
    """The band of a deployment's figure, as a scenario with the same facts has it; a price falls as tokens/s grow."""
    if metric == "power":
        return power_error()
    key = serving_key(case.model.name, case.device.architecture, case.engine, case.layout.precision)
    questions: dict[str, Question] = {"tpot": "tpot", "ttft": "ttft"}
    return serving_error(
        questions.get(metric, "throughput"),
        experts=bool(case.model.experts),
        split=case.prefill is not None,
        published=key in measured_deployments(),
    )


def family(source: str) -> str:
    """Whose table a source is of: the first words, without names of single files and runs."""
    text = re.sub(r"silicon_sample\.csv .*", "silicon samples", source)
    text = re.sub(r"(token_position_decode_slo)/.*", r"\1", text)
    text = re.sub(r"\s*\(.*| closed 5\.1-.*", "", text)
    return re.sub(r" [A-Z]+\d+$", "", text).strip()


def summary_of(rows: Sequence[ServingResult]) -> dict[str, float | int | None]:
    """Errors over the compared rows; `coverage` is their share of those that publish the metric."""
    errors = sorted(abs(row.error) for row in rows if row.error is not None)
    planned = sorted(abs(row.closed_form_error) for row in rows if row.closed_form_error is not None)
    skipped = sum(row.status == "skipped" for row in rows)
    count = len(errors)
    return {
        "n": count,
        "skipped": skipped,
        "duplicates": sum(row.status == "duplicate" for row in rows),
        "coverage": count / (count + skipped) if count + skipped else None,
        "mean_abs_error": sum(errors) / count if count else None,
        "median_abs_error": float(np.quantile(errors, 0.5)) if count else None,
        "p90_abs_error": float(np.quantile(errors, 0.9)) if count else None,
        "closed_form_median_abs_error": float(np.quantile(planned, 0.5)) if planned else None,
    }
