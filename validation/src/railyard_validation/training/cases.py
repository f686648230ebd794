"""Rows of a table of measured runs as training jobs on machines, ready to be predicted."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from railyard.kit.errors import InputError
from railyard.model import architecture
from railyard.model.architecture import UNBALANCED
from railyard.work.training.designs import estimate
from railyard.work.training.spec import Lora, Training
from railyard_validation.training import table as tables
from railyard_validation.training.layout import layout_of, precision_of, software_of
from railyard_validation.training.machine import device_of, machine_of
from railyard_validation.training.model import UnknownShapeError, model_of
from railyard_validation.training.recipes import recipe_of

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from railyard.catalog import Catalog
    from railyard.model.machine import Machine
    from railyard.work.training.designs import Estimate
    from railyard_validation.training.table import Row

# Methods that train a few weights beside a frozen model: LoRA is modelled; what dequantizes or normalizes is not.
_ADAPTED = ("qlora", "dora", "peft")
_LORA = re.compile(r"\blora\b(?:[^;]*?\brank (\d+))?([^;]*\battention\b)?")


@dataclass(frozen=True)
class Case:
    """One measured run that can be predicted.

    Attributes:
        row: Of the table.
        training: The job.
        machine: What it ran on.
        measured: Step seconds.
        metric: From what they were taken.
        defaults: Facts that had to be assumed.
    """

    row: Row
    training: Training
    machine: Machine
    measured: float
    metric: str
    defaults: tuple[str, ...]

    @property
    def family(self) -> str:
        """Of its source."""
        return family(self.row.get("source_doc"))


@dataclass(frozen=True)
class Refused:
    """A row that cannot be predicted.

    Attributes:
        row: Of the table.
        reason: Why.
        bad: Whether the row is wrong (unreadable, unknown device, inconsistent sizes), not merely silent about a fact.
    """

    row: Row
    reason: str
    bad: bool


class _SilentRow(InputError):
    """The row lacks a fact without which nothing can be predicted, which is no mistake of the table."""


def read_cases(table: Path, catalog: Catalog) -> tuple[list[Case], list[Refused]]:
    """The runs of a table, and the rows that cannot be predicted with the reason.

    Args:
        table: CSV with the columns of `runs.csv` or `runs_single_node.csv`.
        catalog: For devices and models.

    Raises:
        InputError: The table cannot be read.
    """
    cases: list[Case] = []
    refused: list[Refused] = []
    for row in tables.read(table):
        try:
            cases.append(case_of(row, catalog))
        except InputError as error:
            refused.append(Refused(row, error.problems[0].headline(), is_wrong(error)))
    return cases, refused


def _said(row: Row) -> str:
    return " ".join(row.get(name) for name in ("model", "framework", "source_doc", "notes")).lower()


def is_wrong(error: InputError) -> bool:
    """Whether a row that `job_of` or `case_of` refused is wrong, and not merely silent about a fact."""
    return not isinstance(error, _SilentRow | UnknownShapeError)


def estimated(cases: Sequence[Case]) -> Estimate | None:
    """Each run in closed form, one row a run; None of no runs."""
    return estimate([case.training for case in cases], [case.machine for case in cases]) if cases else None


def predicted_s(cases: Sequence[Case]) -> list[float]:
    """Predicted step seconds of each run, in closed form."""
    found = estimated(cases)
    return [] if found is None else [float(seconds) for seconds in found.step_s]


def case_of(row: Row, catalog: Catalog) -> Case:
    """One row as a job on a machine.

    Raises:
        InputError: The row cannot be read, or lacks a fact without which nothing can be predicted.
    """
    training, machine, defaults = job_of(row, catalog)
    measured, metric = _measured(row, training)
    return Case(row, training, machine, measured, metric, defaults)


def job_of(row: Row, catalog: Catalog) -> tuple[Training, Machine, tuple[str, ...]]:
    """The job of a row, its machine and the facts that had to be assumed; what was measured is not asked for.

    Raises:
        InputError: The row cannot be read, or lacks a fact without which nothing can be predicted.
    """
    adapted = next((name for name in _ADAPTED if re.search(rf"\b{name}\b", _said(row))), "")
    if adapted:
        raise _SilentRow(
            f"line {row.line}: {adapted} trains few weights of a frozen model in a way that is not modelled"
        )
    absent = [name for name in ("n_gpu", "seq_len", "global_batch_seqs") if not row.integers.get(name)]
    if absent:
        raise _SilentRow(f"line {row.line}: {', '.join(absent)} unknown or zero")
    defaults: list[str] = []
    device = device_of(row, catalog)
    model = model_of(row, catalog, defaults)
    recipe = recipe_of(row)
    if recipe:
        defaults.append(recipe.line())
    precision = precision_of(row, device, defaults, recipe)
    software, machine = software_of(row, device, recipe, defaults), machine_of(row, device, defaults)
    layout = layout_of(row, model, machine, software, defaults, recipe=recipe)
    seq_len, lora = row.integers["seq_len"], lora_of(row, defaults)
    skew = row.real.get("routing_skew", UNBALANCED if recipe and recipe.unbalanced else 0.0)
    training = Training(
        model=model,
        layout=layout,
        seq_len=seq_len,
        software=software,
        precision=precision,
        lora=lora,
        routing_skew=skew,
    )
    return training, machine, tuple(defaults)


def lora_of(row: Row, defaults: list[str]) -> Lora | None:
    """The adapters that a row names (`LoRA rank 16`, `LoRA rank 8, attention`), None of a model that is all trained."""
    found = _LORA.search(_said(row))
    if found is None:
        return None
    if found.group(1) is None:
        defaults.append("adapters of rank 16")
    return Lora(rank=int(found.group(1) or 16), targets="attention" if found.group(2) else "all")


def _measured(row: Row, training: Training) -> tuple[float, str]:
    """Step seconds and where they come from: published, or derived from tokens/s or from TFLOP/s."""
    reported = row.get("metric_reported")
    rate = row.real.get("tokens_per_s_per_gpu")
    tokens, ranks = training.step_tokens, row.integers["n_gpu"]
    if rate and (row.real.get("step_time_s") is None or "DERIVED" in reported):
        return tokens / (rate * ranks), "step seconds derived from tokens/s/GPU"
    if row.real.get("step_time_s"):
        derived = "DERIVED" in reported.upper()
        return row.real["step_time_s"], "step seconds derived from TFLOP/s" if derived else "step seconds"
    speed = row.real.get("tflops_per_gpu")
    if speed:
        # NeMo counts all of the attention scores; the others that publish a rate alone count the causal half.
        causal = "NeMo" not in row.get("framework")
        frozen = training.lora is not None
        useful = (
            architecture.model_flops_per_token(training.model, training.seq_len, causal=causal, frozen=frozen) * tokens
        )
        counted = "causal" if causal else "full"
        return useful / (speed * 1e12 * ranks), f"step seconds derived from TFLOP/s ({counted} attention counted)"
    raise _SilentRow("no step time, tokens/s or TFLOP/s was published")


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


def kind(case: Case) -> str:
    """Family of a run, those of models with experts apart."""
    return f"{case.family}, experts" if case.training.model.experts else case.family
