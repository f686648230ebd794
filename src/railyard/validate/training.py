"""Predicted against measured step times, row by row of a table of published training runs."""

from __future__ import annotations

import json
import math
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING

from railyard.errors import InputError
from railyard.validate import training_table
from railyard.validate.training_layout import layout_of, precision_of, software_of
from railyard.validate.training_machine import device_of, machine_of
from railyard.validate.training_model import model_of
from railyard.workload.training import flops
from railyard.workload.training.estimate import estimate
from railyard.workload.training.spec import Training

if TYPE_CHECKING:
    from pathlib import Path

    from railyard.catalog import Catalog
    from railyard.validate.training_table import Row
    from railyard.workload.training.machine import Machine

ENGINES = ("analytic",)


@dataclass(frozen=True)
class TrainingResult:
    """One row of the comparison.

    Attributes:
        id: Of the table's row.
        line: In the table.
        source: Whose measurement it is.
        tier: A, B or C; tier C is run but not scored.
        status: `ok` or `skipped`.
        reason: Why it was skipped.
        metric: From what the measured step seconds were taken.
        measured, predicted: Step seconds.
        error: (predicted - measured) / measured.
        profile: Software profile that was taken.
        defaults: Facts that were assumed.
    """

    id: str
    line: int
    source: str
    tier: str
    status: str
    reason: str = ""
    metric: str = ""
    measured: float | None = None
    predicted: float | None = None
    error: float | None = None
    profile: str = ""
    defaults: tuple[str, ...] = ()

    @property
    def scored(self) -> bool:
        """Whether the row counts in summaries."""
        return self.error is not None and self.tier != "C"


@dataclass(frozen=True)
class TrainingReport:
    """All rows of a table, and how far predictions lie from what was measured."""

    table: str
    engine: str
    rows: tuple[TrainingResult, ...] = field(default_factory=tuple)

    def summary(self) -> dict[str, float | int | None]:
        """Errors over all scored rows: `n`, `skipped`, mean, median and 90th percentile of |error|."""
        return _summary(self.rows)

    def sources(self) -> dict[str, dict[str, float | int | None]]:
        """The same by source family."""
        families = dict.fromkeys(family(row.source) for row in self.rows)
        return {name: _summary(tuple(row for row in self.rows if family(row.source) == name)) for name in families}

    def to_json(self) -> str:
        """The report as JSON: `rows`, `summary`, `sources`."""
        rows = [{**asdict(row), "defaults": list(row.defaults)} for row in self.rows]
        content = {
            "table": self.table,
            "engine": self.engine,
            "rows": rows,
            "summary": self.summary(),
            "sources": self.sources(),
        }
        return json.dumps(content, indent=1, allow_nan=False)


@dataclass(frozen=True)
class _Case:
    row: Row
    training: Training
    machine: Machine
    measured: float
    metric: str
    defaults: tuple[str, ...]


def validate_training(table: Path, catalog: Catalog, *, engine: str = "analytic") -> TrainingReport:
    """Predicts every run of a table.

    Args:
        table: CSV with the columns of `runs.csv` or `runs_single_node.csv`.
        catalog: For devices and models.
        engine: `analytic`, the closed-form estimate.

    Raises:
        InputError: The table cannot be read, or there is no such engine.
    """
    if engine not in ENGINES:
        raise InputError(f"validation has no engine `{engine}`", key="engine", found=engine, allowed=ENGINES)
    results: dict[int, TrainingResult] = {}
    cases: list[_Case] = []
    for row in training_table.read(table):
        try:
            cases.append(_case(row, catalog))
        except InputError as error:
            results[row.line] = _skipped(row, error.problems[0].headline())
    if cases:
        found = estimate([case.training for case in cases], [case.machine for case in cases])
        for case, predicted in zip(cases, found.step_s, strict=True):
            results[case.row.line] = _compared(case, float(predicted))
    return TrainingReport(str(table), engine, tuple(results[line] for line in sorted(results)))


def _case(row: Row, catalog: Catalog) -> _Case:
    if row.problem:
        raise InputError(row.problem)
    absent = [name for name in ("n_gpu", "seq_len", "global_batch_seqs") if not row.whole.get(name)]
    if absent:
        raise InputError(f"line {row.line}: {', '.join(absent)} unknown or zero")
    defaults: list[str] = []
    device = device_of(row, catalog)
    model = model_of(row, catalog, defaults)
    precision = precision_of(row, device, defaults)
    software, machine = software_of(row, device), machine_of(row, device, defaults)
    layout = layout_of(row, model, machine, software, defaults)
    training = Training(
        model=model, layout=layout, seq_len=row.whole["seq_len"], software=software, precision=precision
    )
    measured, metric = _measured(row, training)
    return _Case(row, training, machine, measured, metric, tuple(defaults))


def _measured(row: Row, training: Training) -> tuple[float, str]:
    """Step seconds and where they come from: published, or derived from tokens/s or from TFLOP/s."""
    reported = row.get("metric_reported")
    rate = row.real.get("tokens_per_s_per_gpu")
    tokens, ranks = training.step_tokens, row.whole["n_gpu"]
    if rate and (row.real.get("step_time_s") is None or "DERIVED" in reported):
        return tokens / (rate * ranks), "step seconds derived from tokens/s/GPU"
    if row.real.get("step_time_s"):
        derived = "DERIVED" in reported.upper()
        return row.real["step_time_s"], "step seconds derived from TFLOP/s" if derived else "step seconds"
    speed = row.real.get("tflops_per_gpu")
    if speed:
        # NeMo counts all of the attention scores; the others that publish a rate alone count the causal half.
        causal = "NeMo" not in row.get("framework")
        useful = flops.model_flops_per_token(training.model, training.seq_len, causal=causal) * tokens
        counted = "causal" if causal else "full"
        return useful / (speed * 1e12 * ranks), f"step seconds derived from TFLOP/s ({counted} attention counted)"
    raise InputError("no step time, tokens/s or TFLOP/s was published")


def _skipped(row: Row, reason: str) -> TrainingResult:
    named = reason if f"line {row.line}" in reason else f"line {row.line}: {reason}"
    return TrainingResult(row.id, row.line, row.get("source_doc"), row.get("tier", "A"), "skipped", named)


def _compared(case: _Case, predicted: float) -> TrainingResult:
    row = case.row
    if not math.isfinite(predicted) or predicted <= 0:
        return _skipped(row, "the model gives no finite step time for this configuration")
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
        profile=case.training.software.name,
        defaults=case.defaults,
    )


def family(source: str) -> str:
    """The family of a source: what stands in front of its first version, place or year."""
    for name in (
        "MLPerf Training",
        "Megatron-Bridge performance summary",
        "Megatron-Bridge",
        "llm-foundry",
        "SimuMax",
        "torchtitan",
        "vTrain",
    ):
        if name in source:
            return name
    return source.split(" (", maxsplit=1)[0].split(",", maxsplit=1)[0] or "unnamed"


def _summary(rows: tuple[TrainingResult, ...]) -> dict[str, float | int | None]:
    errors = sorted(abs(row.error) for row in rows if row.scored and row.error is not None)
    skipped = sum(row.status == "skipped" for row in rows)
    if not errors:
        return {"n": 0, "skipped": skipped, "mean_abs_error": None, "median_abs_error": None, "p90_abs_error": None}
    return {
        "n": len(errors),
        "skipped": skipped,
        "mean_abs_error": sum(errors) / len(errors),
        "median_abs_error": _quantile(errors, 0.5),
        "p90_abs_error": _quantile(errors, 0.9),
    }


def _quantile(ordered: list[float], share: float) -> float:
    """Linear between the two neighbours, as NumPy's default."""
    place = share * (len(ordered) - 1)
    low = math.floor(place)
    high = min(low + 1, len(ordered) - 1)
    return ordered[low] + (place - low) * (ordered[high] - ordered[low])
