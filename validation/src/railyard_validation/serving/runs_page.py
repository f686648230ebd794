"""The page of recorded serving runs: distributions over requests, measured and predicted, and their distances."""

from __future__ import annotations

from typing import TYPE_CHECKING

from railyard_validation.page import Point, Validation
from railyard_validation.plot import Axis, Curve, Plot

if TYPE_CHECKING:
    from collections.abc import Sequence

    from railyard.ask.calibrate.recorded_fit import MetricComparison, RunsReport

_METRICS = {"ttft": "time to first token", "tpot": "time per output token"}


def of_serving_runs(report: RunsReport) -> Validation:
    """The page of `railyard validate serving --runs`: each run's percentiles as rows, its distances beside them."""
    points, figures = [], {}
    distances: dict[str, dict[str, str]] = {f"KS distance of {name.upper()}": {} for name in _METRICS}
    fitted: dict[str, str] = {}
    for number, row in enumerate(report.rows, start=1):
        for metric, told in _METRICS.items():
            compared: MetricComparison | None = getattr(row, metric)
            if compared is None:
                continue
            points += _points(row.id, metric, compared)
            distances[f"KS distance of {metric.upper()}"][row.id] = f"{compared.distance:.3f}"
            figures[f"{number}-{metric}"] = _distribution(
                f"{row.model}, {row.device}: {metric.upper()}", told, compared
            )
        fitted[row.id] = ", ".join(row.fitted) or "nothing: held out"
    return Validation(
        title="Recorded serving runs against the simulated engine",
        lead="",
        quantity="seconds",
        points=points,
        skipped=[row.reason for row in report.rows if row.status == "skipped"],
        columns={**distances, "constants that the run gave": fitted},
        figures=figures,
    )


def _points(run: str, metric: str, compared: MetricComparison) -> list[Point]:
    found = []
    for name, measured in compared.measured_s.items():
        predicted = compared.predicted_s[name]
        found.append(Point(f"{metric.upper()} {name}", run, measured, predicted, predicted / measured - 1.0))
    return found


def _distribution(title: str, metric: str, compared: MetricComparison) -> str:
    both = (*compared.measured_sorted_s, *compared.predicted_sorted_s)
    wide = max(both) > 10.0 * min(both)
    curves = [
        Curve("measured", _steps(compared.measured_sorted_s), steps=True, dashed=True),
        Curve("predicted", _steps(compared.predicted_sorted_s), steps=True),
    ]
    x = Axis(f"{metric}, s", low=None if wide else 0.95 * min(both), high=None if wide else 1.05 * max(both), log=wide)
    y = Axis("share of the requests, %", low=0.0, high=100.0)
    return Plot(f"{title}, distance {compared.distance:.3f}", x, y, curves).svg()


def _steps(ascending: Sequence[float]) -> list[tuple[float, float]]:
    count = len(ascending)
    return [(value, 100.0 * (place + 1) / count) for place, value in enumerate(ascending)]
