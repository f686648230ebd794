"""Writes docs/validation: training, memory, collectives and serving against what was measured, from validation/data.

python validation/tools/validation_page.py
"""

from __future__ import annotations

import csv
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import validation_collectives
import validation_serving

from railyard import catalog
from railyard_validation import page as validation
from railyard_validation.training.cases import kind, predicted_s, read_cases
from railyard_validation.training.compare import validate_training
from railyard_validation.training.fit import scored, smallest_scale
from railyard_validation.training.leave_out import left_out
from railyard_validation.training.memory import validate_memory

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from railyard_validation.training.cases import Case
    from railyard_validation.training.compare import TrainingReport

ROOT = Path(__file__).resolve().parents[2]
DATA, PAGES = ROOT / "validation" / "data", ROOT / "docs" / "validation"
RUNS, SINGLE = DATA / "training" / "runs.csv", DATA / "training" / "runs_single_node.csv"
# Of the sweep on one node every tenth run stands in the fits of these pages: a tenth tells its five constants as well.
EVERY = 10
BRIDGE = "Megatron-Bridge performance summary"
STEP_GOALS = (
    ("MLPerf, dense", ("MLPerf Training",), 5),
    ("vTrain, several nodes", ("vTrain",), 7),
    ("llm-foundry", ("llm-foundry",), 7),
    ("Megatron-Bridge, dense", (BRIDGE, "Megatron-Bridge"), 7),
    ("Megatron-Bridge, experts", (f"{BRIDGE}, experts", "Megatron-Bridge, experts"), 10),
    ("torchtitan", ("torchtitan",), 6),
    ("SimuMax", ("SimuMax", "SimuMax, experts"), 6),
    ("Korthikanti et al. (Calculon's eight rows)", ("Korthikanti et al. 2022",), 3.65),
)
FIXED = ((10752, "gpt-3-175b"), (8192, "llama-3-405b"))


def main() -> None:
    known = catalog.load()
    PAGES.mkdir(exist_ok=True)
    causes = _causes()
    cases, single = read_cases(RUNS, known)[0], read_cases(SINGLE, known)[0]
    steps, peaks = validate_training(RUNS, known), validate_memory(RUNS, known)
    page = validation.of_training(steps, causes)
    apart = _without_source(cases, single)
    validation.write(
        _with(
            page,
            lead=TRAINING,
            columns={
                "beyond the fitted scale": {
                    name: f"{100 * np.mean(errors):.1f} %"
                    for name, errors in _by_kind(_unfitted(cases, single)).items()
                },
                "without its source": {name: f"{100 * np.mean(errors):.1f} %" for name, errors in apart.items()},
            },
            sections=_single(single) + _calculon(cases) + CAUSES,
        ),
        PAGES / "training.md",
    )
    validation.write(_with(validation.of_training(peaks, causes), lead=MEMORY), PAGES / "memory.md")
    collectives = validation_collectives.write(DATA / "nccl", PAGES / "collectives.md", known)
    whole = [*_training_goals(steps, single, apart), *_memory_goals(peaks), *collectives]
    whole += validation_serving.write(known)
    lines = ["| " + " | ".join(cells) + " |\n" for cells in whole]
    (PAGES / "index.md").write_text(INDEX.format(goals="".join(lines)), encoding="utf-8")


INDEX = """# Validation

Predicted against what the world has measured. Constants are fitted by one law on the smallest scale of each family of
runs alone (`validation/README.md` holds the rules, and how a new source is judged before it is fitted). Written by
`validation/tools/validation_page.py` from the data in `validation/data`; continuous integration fails when a figure
is stale.

| what | rows | goal | reached | constants fitted without the source |
|---|---|---|---|---|
{goals}
- [How far to believe a prediction](believe.md): one page, a band for each kind of question.
- [Training steps](training.md): every source, each also predicted without itself, and the worst rows.
- [Peak memory](memory.md) and [collectives](collectives.md).
- Serving: [time per token](serving-tpot.md), [time to the first token](serving-ttft.md),
  [throughput](serving-throughput.md), [power](serving-power.md), [cost](serving-cost.md),
  [recorded runs, request by request](serving-runs.md).
- [Ablation](ablation.md): what each detail of the training model is worth.
- [Fabrics against published figures](fabrics.md), and [packets against htsim and
  ns-3](packets.md).
- [Engines against each other](../explanation/agreement.md).

`railyard validate training|memory|collectives|serving|fabric|htsim` runs the same on your own tables and logs;
`--page FILE` writes such a page.
"""
TRAINING = """Written by `validation/tools/validation_page.py` from `validation/data/training/runs.csv`; kept fresh
by continuous integration. Constants are fitted on the smallest scale of each family alone: the rules stand in
`validation/README.md`. *Beyond the fitted scale* is the mean error of judged rows that no constant was fitted on;
*without its source* the mean error of judged rows when constants are fitted with all runs of that source left out.
Rows that cannot prove anything (a missing micro-batch, a derived time) are predicted and drawn, and stand in the
table only where their source has no others."""
MEMORY = """Written by `validation/tools/validation_page.py` from the rows of `validation/data/training/runs.csv`
that publish a peak of memory; kept fresh by continuous integration. No constant is fitted: the laws stand in
[memory](../explanation/memory.md)."""
CAUSES = """
## What may stand behind an error

The last column of the worst rows names a cause where one is known (`validation/known.csv`), else what the row leaves
open.
"""


def _with(page: validation.Validation, **changes: object) -> validation.Validation:
    return validation.Validation(**{**page.__dict__, **changes})  # type: ignore[arg-type]


def _causes() -> dict[str, str]:
    with (ROOT / "validation" / "known.csv").open(encoding="utf-8", newline="") as handle:
        return {row["id"]: row["cause"] for row in csv.DictReader(handle)}


def _by_kind(rows: Iterable[tuple[Case, float]]) -> dict[str, list[float]]:
    """Errors of judged rows, each |error|, by kind and of all."""
    missed: dict[str, list[float]] = {}
    for case, predicted in rows:
        if scored(case):
            for name in (kind(case), "all"):
                missed.setdefault(name, []).append(abs(predicted / case.measured - 1.0))
    return missed


def _unfitted(cases: Sequence[Case], single: Sequence[Case]) -> list[tuple[Case, float]]:
    fitted = {case.row.id for case in smallest_scale([*cases, *single])}
    held = [case for case in cases if case.row.id not in fitted]
    return list(zip(held, predicted_s(held), strict=True))


def _without_source(cases: Sequence[Case], single: Sequence[Case]) -> dict[str, list[float]]:
    found, _ = left_out([*cases, *single[::EVERY]], "source")
    own = found[: len(cases)]
    return _by_kind(zip(own, predicted_s(own), strict=True))


def _single(single: Sequence[Case]) -> str:
    """Runs of vTrain on one node, with their hidden size left out of the fit."""
    errors = _absolute(single, predicted_s(single))
    found, names = left_out(single[::EVERY], "hidden")
    apart = _absolute(found, predicted_s(found))
    lines = []
    for name in dict.fromkeys(names):
        own = [error for error, part in zip(apart, names, strict=True) if part == name]
        lines.append(f"| {name} | {len(own)} | {100 * np.mean(own):.1f} % |\n")
    return f"""
## vTrain on one node

{len(single)} runs of `runs_single_node.csv`: mean error {100 * np.mean(errors):.1f} %, median
{100 * np.median(errors):.1f} %, one profile of software fitted. With one hidden size left out of the fit (every tenth
run):

| left out | rows | mean error |
|---|---|---|
{"".join(lines)}
On the same runs one constant MFU errs by 59 %, Calculon by 39 %, vTrain by 8.4 % with a GPU to profile; on the runs
on several nodes 17.8 %, 11.1 % and 14.7 %.
"""


def _calculon(cases: Sequence[Case]) -> str:
    own = [case for case in cases if case.family.startswith("Korthikanti")]
    errors = _absolute(own, predicted_s(own))
    return f"""
## Calculon's own eight rows

Calculon publishes its error on eight steps (Korthikanti et al. 2022, table 5): mean 3.65 %, worst 8.87 %. Railyard on
the same: mean {100 * np.mean(errors):.2f} %, worst {100 * max(errors):.2f} %.
"""


Goal = tuple[str, str, str, str, str]


def _training_goals(report: TrainingReport, single: Sequence[Case], apart: Mapping[str, Sequence[float]]) -> list[Goal]:
    """Mean |error| of the step by family, and what a step does once.

    Args:
        report: All rows.
        single: The runs on one node.
        apart: |error| of judged rows by kind, constants fitted without their source.
    """
    found: list[Goal] = []
    for name, kinds, goal in STEP_GOALS:
        errors = [abs(row.error) for row in report.rows if row.judged and row.kind in kinds and row.error is not None]
        others = [error for one in kinds for error in apart.get(one, ())]
        figures = (f"{goal} %", f"{100 * np.mean(errors):.1f} %", f"{100 * np.mean(others):.1f} %")
        found.append((f"{name}: mean error of the step", str(len(errors)), *figures))
    alone = _absolute(single, predicted_s(single))
    size = "by hidden size: see [there](training.md#vtrain-on-one-node)"
    found.insert(2, ("vTrain, one node", str(len(alone)), "9 %", f"{100 * np.mean(alone):.1f} %", size))
    for part in report.fixed:
        if (part.ranks, part.model) in FIXED:
            text = f"fixed part of a step, {part.model} on {part.ranks:,} H100 ({1e3 * part.fixed_s:.0f} ms)"
            found.append((text, "2", "15 %", f"{100 * part.error:+.1f} %", ""))
    tails = report.tails()
    within = f"{tails['within_target']} of {tails['n']}"
    return [*found, ("p95/p50 of steps within 0.03", str(tails["n"]), "all", within, "")]


def _memory_goals(report: TrainingReport) -> list[Goal]:
    return [
        (
            f"peak memory, {name}: mean error",
            str(errors["n"]),
            "3 %",
            f"{100 * float(errors['mean_abs_error'] or 0):.1f} %",
            "nothing is fitted",
        )
        for name, errors in report.sources().items()
        if name in ("SimuMax", "torchtitan")
    ]


def _absolute(cases: Sequence[Case], predicted: Sequence[float]) -> list[float]:
    return [abs(seconds / case.measured - 1.0) for case, seconds in zip(cases, predicted, strict=True)]


if __name__ == "__main__":
    main()
