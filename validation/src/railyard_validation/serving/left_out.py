"""What a stranger gets: every row predicted by constants fitted without its source, its model, its device, or its time.

A source is whoever measured, whatever table the measurement stands in: InferenceX's nightly runs, aiconfigurator's
own, and each publication by itself. Without its time means: fitted on what was published before its quarter. The
mechanisms themselves were written with all rows known: no split of the data takes that back. Constants come from the
closed form (`fit`), predictions from the serving engine, request by request, as those of `railyard validate serving`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from railyard_validation.serving import fit as fitting
from railyard_validation.serving.cases import Case, case_of, drawn
from railyard_validation.serving.metrics import by_cases, measured
from railyard_validation.serving.model import table
from railyard_validation.serving.states import planned_states, run_states
from railyard_validation.serving.table import read, same_measurement

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from numpy.typing import NDArray

    from railyard.catalog import Catalog
    from railyard_validation.serving.fit import Evidence

METRICS = ("tpot", "ttft", "throughput", "power")
EVERY = 4
"""Every so many rows stand in the fits and are predicted: a quarter of them tells constants nearly as well as all."""


def source_of(case: Case) -> str:
    """Who measured a row: of tables that gather others' measurements, whose these are."""
    from railyard_validation.serving.compare import family

    return "InferenceX, nightly runs" if drawn(case.row) else family(case.row.get("source")).split(",")[0]


def quarter_of(case: Case) -> str:
    """First month of the quarter in which a row was published: no row of it, or of a later one, was known before."""
    year, month = case.row.get("published").split("-")
    return f"{year}-{(int(month) - 1) // 3 * 3 + 1:02d}"


PARTS = {
    "source": source_of,
    "model": lambda case: case.model.name,
    "device": lambda case: case.device.name,
    "time": quarter_of,
}


def cases_of(path: Path, catalog: Catalog) -> list[Case]:
    """Cases of a table, each measurement once."""
    rows = read(path)
    stands = same_measurement(rows)
    found = [case_of(row, catalog) for row in rows if stands[row.line] == row.line]
    return [case for case in found if isinstance(case, Case)]


def evidence_of(cases: Sequence[Case]) -> Evidence:
    """What rows tell of the constants; the queue is that of the constants as stated, before any fit."""
    rows = table([case for case in cases if fitting.told_s(case)])
    stated = fitting.software(np.zeros(0), fitting.design(rows.cases, ()))
    planned = planned_states(rows, stated)
    return fitting.evidence(rows, run_states(rows, stated, planned), planned)


def errors(path: Path, catalog: Catalog) -> dict[str, dict[str, dict[str, float]]]:
    """Relative error of every row by what was left out, metric and row.

    Args:
        path: Of the table.
        catalog: For devices and models.
    """
    cases = cases_of(path, catalog)[::EVERY]
    seen = evidence_of(cases)
    start = fitting.fit(fitting.design(seen.rows.cases), seen)
    return {name: _without(cases, seen, name, start) for name in PARTS}


def _without(
    cases: Sequence[Case], seen: Evidence, name: str, start: NDArray[np.float64]
) -> dict[str, dict[str, float]]:
    by = PARTS[name]
    rows = table(cases)
    keep = np.less if name == "time" else np.not_equal
    known = fitting.left_out(seen, by, rows.cases, keep, None if name == "time" else start)
    planned = planned_states(rows, known)
    states = run_states(rows, known, planned)
    found: dict[str, dict[str, float]] = {metric: {} for metric in METRICS}
    for metric in METRICS:
        for case, value in zip(cases, by_cases(metric, rows, known, states), strict=True):
            told = measured(case.row, metric)
            if told is not None and not isinstance(value, str) and np.isfinite(value) and value > 0:
                found[metric][case.row.id] = value / told[1] - 1.0
    return found
