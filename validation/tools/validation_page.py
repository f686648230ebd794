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
from railyard.work.training import profiles
from railyard_validation import page as validation
from railyard_validation.training.cases import kind, predicted_s, read_cases
from railyard_validation.training.compare import validate_training
from railyard_validation.training.fit import scored, smallest_scale
from railyard_validation.training.leave_out import left_out
from railyard_validation.training.memory import validate_memory

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from railyard.catalog import Catalog
    from railyard_validation.training.cases import Case
    from railyard_validation.training.compare import TrainingReport

ROOT = Path(__file__).resolve().parents[2]
DATA, PAGES = ROOT / "validation" / "data", ROOT / "docs" / "validation"
RUNS, SINGLE = DATA / "training" / "runs.csv", DATA / "training" / "runs_single_node.csv"
NEWEST, BLIND = DATA / "training" / "mlperf_v6.csv", DATA / "training" / "mlperf_v6_forecast.csv"
RUN = DATA / "training" / "mlperf_v6_run.csv"
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
    strangers = validate_training(RUNS, known, leave_out="source")
    apart = _errors(strangers)
    validation.write(
        _with(
            validation.of_training(strangers, causes),
            lead=TRAINING.format(
                mean=_percent(apart["all"]),
                median=f"{100 * np.median(apart['all']):.1f} %",
                rows=len(apart["all"]),
                each=_percent([float(np.mean(errors)) for name, errors in apart.items() if name != "all"]),
                inside=_percent(_errors(steps)["all"]),
                constants=len(profiles.constants()),
            ),
            columns={
                "with its source": {name: _percent(errors) for name, errors in _errors(steps).items()},
                "of these beyond the fitted scale": {
                    name: _percent(errors) for name, errors in _by_kind(_unfitted(cases)).items()
                },
            },
            sections=_by_cause(cases, strangers)
            + _newest(known)
            + _constants()
            + _single(single, known)
            + _calculon(cases, strangers)
            + CAUSES,
        ),
        PAGES / "training.md",
    )
    validation.write(_with(validation.of_training(peaks, causes), lead=MEMORY), PAGES / "memory.md")
    collectives = validation_collectives.write(DATA / "nccl", PAGES / "collectives.md", known)
    whole = [*_training_goals(steps, (single, known), apart), *_memory_goals(peaks), *collectives]
    whole += validation_serving.write(known)
    lines = ["| " + " | ".join(cells) + " |\n" for cells in whole]
    (PAGES / "index.md").write_text(INDEX.format(goals="".join(lines)), encoding="utf-8")


INDEX = """# Validation

Predicted against what the world has measured. The figure to expect on a system that nobody fitted is the one *without
the source*: constants are fitted again with all that its source published left out. Constants are fitted by one law on
the smallest scale of each family of runs alone (`validation/README.md` holds the rules, and how a new source is judged
before it is fitted). Written by
`validation/tools/validation_page.py` from the data in `validation/data`; continuous integration fails when a figure
is stale.

| what | rows | goal | without the source | else |
|---|---|---|---|---|
{goals}
- [How far to believe a prediction](believe.md): one page, a band for each kind of question.
- [Training steps](training.md): every source, each also predicted without itself, and the worst rows.
- [Training runs of unseen sources](strangers.md): forecast after all constants were fixed.
- [Peak memory](memory.md) and [collectives](collectives.md).
- Serving: [time per token](serving-tpot.md), [time to the first token](serving-ttft.md),
  [throughput](serving-throughput.md), [power](serving-power.md), [cost](serving-cost.md),
  [recorded runs, request by request](serving-runs.md).
- [Ablation](ablation.md): what each detail of the training model is worth.
- [Scale-up fabrics](scale-up.md): NVLink racks, UALink, SUE, UB.
- [Fabrics against published figures](fabrics.md), and [packets against htsim and
  ns-3](packets.md).
- [Contention by patterns](contention.md), [published effects of placement](placement.md),
  [agreement with schedulers](schedulers.md) and [with vLLM's](serving-schedules.md),
  [forecasts of a fleet's faults](forecast.md).
- [Traces scaled to more ranks](scale.md), in a closed loop with the simulator.
- [Synthesized collectives against TE-CCL](synthesis.md), with the published finishes that no schedule can reach.
- [The lab](lab.md): predictions of the flow engine for real sockets in namespaces, made before the run.
- [Comparisons under faults](faults.md): nine kinds of fault, six fabrics, 96 and 256 GPUs, each against bounds by hand.
- [Optics and failing links](optics.md): network stops, flaps, photonic switches; forecasts came first.
- [Trials](trials.md): questions that were once answered wrongly, in randomly chosen variants.
- Diagnosis: [drawn traces](diagnosis.md), [injected faults](diagnosis-records.md); how often confidence is right.
- [Robustness](robustness.md): wrong and hostile input, how often it was tried, and what was found.
- [Bills of materials of published designs](bills.md), item by item.
- [Clients, sites and the edge](edge.md): real TCP in namespaces, rates that DiLoCo needs, INTELLECT-1, a job of Flower.
- [Calibrated](calibrated.md): what a few rows of a system of your own are worth.
- Engines against each other: [closed forms and runs](../explanation/agreement.md), [flow and
  packets](../explanation/agreement-fabrics.md), [sampled and sliced packet steps](skipping.md).

`railyard validate training|memory|collectives|serving|fabric|htsim|bills|faults` runs the same on your tables and logs;
`--page FILE` writes such a page.
"""
TRAINING = """**{mean} mean error, {median} median, of {rows} judged steps whose source no constant has seen**
({each} with each source counted once; {inside} with the constants that ship, which have seen the smallest runs of
each). {constants} constants, the same for all software and devices, are fitted.

Relatives of a source stay in its fit here, so that this is not the error on a new generation of systems:
[forecasts of what came later](believe.md) are further off, and bands rest on those.

Written by `validation/tools/validation_page.py` from `validation/data/training/runs.csv`; kept fresh by continuous
integration. Each source is predicted with constants fitted on the smallest scale of each family of all the others: the
rules are in `validation/README.md`. What software overlaps, fuses and launches is stated, with reasons, in
`profiles.toml`; the reasons were sought with these rows in view, so expect more on rows that nobody saw. Rows that
cannot prove anything (a missing micro-batch, a derived time) are predicted and drawn, and are in the table only where
their source has no others."""
MEMORY = """Written by `validation/tools/validation_page.py` from the rows of `validation/data/training/runs.csv`
that publish a peak of memory; kept fresh by continuous integration. No constant is fitted: the laws
are in [memory](../explanation/memory.md)."""
CAUSES = """
## Possible causes of an error

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


def _errors(report: TrainingReport) -> dict[str, list[float]]:
    """|error| of judged rows by kind, and of all."""
    missed: dict[str, list[float]] = {}
    for row in report.rows:
        if row.judged and row.error is not None:
            for name in (row.kind, "all"):
                missed.setdefault(name, []).append(abs(row.error))
    return missed


def _percent(errors: Sequence[float]) -> str:
    return f"{100 * np.mean(errors):.1f} %"


def _unfitted(cases: Sequence[Case]) -> list[tuple[Case, float]]:
    fitted = {case.row.id for case in smallest_scale(cases)}
    held = [case for case in cases if case.row.id not in fitted]
    return list(zip(held, predicted_s(held), strict=True))


def _small(case: Case) -> bool:
    return case.training.model.hidden <= _SMALL


def _kind(case: Case) -> tuple[bool, str]:
    """Whether it has experts, and the end of its precision's name, that is its bits."""
    return case.training.model.experts > 0, case.training.precision[-2:]


_SMALL = 2048
TRAITS: tuple[tuple[str, Callable[[Case], bool]], ...] = (
    ("dense, 16 bits", lambda case: _kind(case) == (False, "16")),
    ("dense, 8 bits", lambda case: _kind(case) == (False, "p8")),
    ("dense, 4 bits", lambda case: _kind(case) == (False, "p4")),
    ("experts, 16 bits", lambda case: _kind(case) == (True, "16")),
    ("experts, 8 bits", lambda case: _kind(case) == (True, "p8")),
    ("parameters sharded (ZeRO-3, FSDP)", lambda case: case.training.layout.zero >= 3),
    ("sharded over more than 8 servers", lambda case: case.training.layout.zero >= 3 and case.training.layout.dp > 64),
    (f"small models (hidden size to {_SMALL})", _small),
    ("tensor parallel 8", lambda case: case.training.layout.tp >= 8),
    ("context parallel", lambda case: case.training.layout.cp > 1),
    ("pipeline parallel", lambda case: case.training.layout.pp > 1),
    ("every layer recomputed", lambda case: case.training.layout.recompute == "full"),
    ("Ampere", lambda case: case.machine.accelerator.architecture == "ampere"),
    ("Hopper", lambda case: case.machine.accelerator.architecture == "hopper"),
    ("Blackwell", lambda case: case.machine.accelerator.architecture == "blackwell"),
    ("1,024 accelerators and more", lambda case: case.training.layout.ranks >= 1024),
)


def _by_cause(cases: Sequence[Case], report: TrainingReport) -> str:
    """The left-out error by what makes a step hard to predict."""
    errors = {row.id: row.error for row in report.rows if row.judged and row.error is not None}
    lines = []
    for name, holds in TRAITS:
        own = [errors[case.row.id] for case in cases if case.row.id in errors and holds(case)]
        if own:
            cells = (name, str(len(own)), _percent(np.abs(own).tolist()), f"{100 * np.mean(own):+.1f} %")
            lines.append("| " + " | ".join((*cells, f"{100 * np.quantile(np.abs(own), 0.9):.1f} %")) + " |\n")
    return f"""
## By cause

The same steps, without their source, by what makes a step hard to predict; a step is in every row that it belongs
to.

| steps | rows | mean error | signed | 90th percentile |
|---|---|---|---|---|
{"".join(lines)}"""


def _newest(known: Catalog) -> str:
    """The rows of MLPerf Training v6.0: forecast blind, now in closed form, and by `railyard run`."""
    cases = read_cases(NEWEST, known)[0]
    closed = [predicted / case.measured - 1.0 for case, predicted in zip(cases, predicted_s(cases), strict=True)]
    blind, run = (_recorded(file, cases) for file in (BLIND, RUN))
    models: dict[str, list[tuple[Case, tuple[float, float, float]]]] = {}
    for case, *errors in zip(cases, blind, closed, run, strict=True):
        models.setdefault(case.row.get("model"), []).append((case, tuple(errors)))
    rows = [_newest_row(model, mine) for model, mine in models.items()]
    before, now, whole = (
        f"{100 * np.mean(np.abs(errors)):.1f} % mean error, {100 * np.median(np.abs(errors)):.1f} % median"
        for errors in (blind, closed, run)
    )
    return f"""
## MLPerf Training v6.0

{len(cases)} steps of June 2026, forecast blind by version ededefde:
{before}.
Now in closed form (`validate training`): {now};
and by `railyard run`, engine flow, with the same facts: {whole}
(`validation/tools/newest_runs.py`). These rows were read when [what explains them](ablation.md) was sought, so that the
later figures are no claim of accuracy: they guard against regressions. No constant is fitted to them. One constant was
replaced (4-bit products: a share of the peak for FLOP a joule), none was added: {len(profiles.constants())} before and
after.

Mean error by model, and in brackets the range (every row: `validation/data/training/mlperf_v6.csv` and the files
next to it):

| model | steps | accelerators | blind | closed form | run |
|---|---|---|---|---|---|
{"".join(rows)}"""


def _newest_row(model: str, rows: Sequence[tuple[Case, tuple[float, float, float]]]) -> str:
    sizes = [case.row.integers["n_gpu"] for case, _ in rows]
    kinds = ", ".join(dict.fromkeys(case.row.get("gpu") for case, _ in rows))
    cells = (
        f"{100 * np.mean(np.abs(errors)):.0f} % ({100 * min(errors):+.0f} to {100 * max(errors):+.0f} %)"
        for errors in zip(*(errors for _, errors in rows), strict=True)
    )
    return f"| {model} | {len(rows)} | {min(sizes):,} to {max(sizes):,} {kinds} | {' | '.join(cells)} |\n"


def _recorded(file: Path, cases: Sequence[Case]) -> list[float]:
    """Errors that a file has on record, in the order of these rows."""
    with file.open(encoding="utf-8", newline="") as handle:
        errors = {row["id"]: float(row["error"]) for row in csv.DictReader(handle)}
    return [errors[case.row.id] for case in cases]


def _constants() -> str:
    fit = profiles.fitted()
    lines = [
        f"| {name} | {', '.join(one.fields)} | {one.prior:.4g} +- {100 * one.spread:.0f} % "
        f"| {fit['values'][name]:.4g} +- {100 * fit['spread'][name]:.1f} % | {one.why} |\n"
        for name, one in profiles.constants().items()
    ]
    return f"""
## The constants

{len(lines)} constants from {len(fit["rows"])} runs; one standard deviation behind each.

| constant | of a profile | kept near to | fitted | why near to that |
|---|---|---|---|---|
{"".join(lines)}"""


def _single(single: Sequence[Case], known: Catalog) -> str:
    """Runs of vTrain on one node: none of them is fitted; nor, left out, its runs on several."""
    errors = _absolute(single, predicted_s(single))
    apart = _strangers(single, known)
    return f"""
## vTrain on one node

{len(single)} runs of `runs_single_node.csv`, none of them fitted: mean error {_percent(apart)}, median
{100 * np.median(apart):.1f} % with vTrain left out; {_percent(errors)} with its runs on several nodes among the fitted.
But what the host of Megatron-DeepSpeed takes, 3.8 ms a layer and micro-batch, is stated from these very runs.

On the same runs one constant MFU errs by 59 %, Calculon by 39 %, vTrain by 8.4 % with a GPU to profile; on the runs
on several nodes 17.8 %, 11.1 % and 14.7 %.
"""


def _strangers(cases: Sequence[Case], known: Catalog) -> list[float]:
    """|error| of runs with constants fitted without their source."""
    found, _ = left_out(cases, "source", known)
    return _absolute(found, predicted_s(found))


def _calculon(cases: Sequence[Case], strangers: TrainingReport) -> str:
    own = [case for case in cases if case.family.startswith("Korthikanti")]
    errors = _absolute(own, predicted_s(own))
    apart = _errors(strangers)["Korthikanti et al. 2022"]
    return f"""
## Calculon's own eight rows

Calculon publishes its error on eight steps (Korthikanti et al. 2022, table 5): mean 3.65 %, worst 8.87 %. Railyard on
the same: mean {100 * np.mean(apart):.2f} %, worst {100 * max(apart):.2f} % without them; mean
{100 * np.mean(errors):.2f} % with them.
"""


Goal = tuple[str, str, str, str, str]


def _training_goals(
    report: TrainingReport, node: tuple[Sequence[Case], Catalog], apart: Mapping[str, Sequence[float]]
) -> list[Goal]:
    """Mean |error| of the step by family, and what a step does once.

    Args:
        report: All rows.
        node: The runs on one node, and the catalogue.
        apart: |error| of judged rows by kind, constants fitted without their source.
    """
    found: list[Goal] = []
    for name, kinds, goal in STEP_GOALS:
        errors = [abs(row.error) for row in report.rows if row.judged and row.kind in kinds and row.error is not None]
        others = [error for one in kinds for error in apart.get(one, ())]
        figures = (f"{goal} %", f"{100 * np.mean(others):.1f} %", f"with it {100 * np.mean(errors):.1f} %")
        found.append((f"{name}: mean error of the step", str(len(errors)), *figures))
    single, known = node
    alone = _absolute(single, predicted_s(single))
    found.insert(
        2,
        ("vTrain, one node", str(len(alone)), "9 %", _percent(_strangers(single, known)), f"with it {_percent(alone)}"),
    )
    whole = (_percent(apart["all"]), f"with it {_percent(_errors(report)['all'])}")
    found.insert(0, ("training, all judged steps: mean error", str(len(apart["all"])), "10 %", *whole))
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
