"""Cells of a table of steps whose column is a key of a scenario's training section, read as a scenario reads them.

A column named like a key of `software` (`cuda_graphs`, `fused_experts`, `attention_precision`, ...), of `parallelism`
(`bucket`, `schedule`, `context_heads`, ...) or of the section itself (`routing_skew`) says what that key says, with the
same units, words and ranges. Flags may be written yes, no, 1 or 0, lists with `+` between their items.
"""

from __future__ import annotations

import dataclasses
import functools
import math
import typing
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from railyard.ask.calibrate.measurements import (
    NEEDED_TEXT,
    TEXT,
    Calibrated,
    MeasurementKind,
    counts,
    kinds,
    model_of_cell,
    numbers,
    read_rows,
    row_fit,
    words,
)
from railyard.catalog import Model
from railyard.kit.errors import InputError, Problem, did_you_mean
from railyard.kit.schema.yaml import Mark, from_plain, resolve
from railyard.measure.numbers import short
from railyard.measure.result.measured import ConstantFit
from railyard.model import architecture
from railyard.model.machine import Machine
from railyard.work.scenario import load
from railyard.work.scenario.section import Section, fields_given, keys_of, model_file
from railyard.work.study.compose import written_layout
from railyard.work.training import pace as calibrated
from railyard.work.training import profiles
from railyard.work.training.designs import estimate
from railyard.work.training.layout import check
from railyard.work.training.memory import memory
from railyard.work.training.pace import TAIL, expected, noise, place, scatter, traits_of
from railyard.work.training.parameters import check_precision
from railyard.work.training.section import ParallelismSection, SoftwareOverrides
from railyard.work.training.spec import RECOMPUTE_MODULES, Layout, Lora, OwnRun, SoftwareProfile, Training

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence

    from numpy.typing import NDArray

    from railyard.ask.calibrate.measurements import MeasurementFile
    from railyard.catalog import Accelerator, Catalog
    from railyard.measure.result.measured import RowFit
    from railyard.work.training.columns import Columns
    from railyard.work.training.pace import Scatter
    from railyard.work.training.spec import Precision

    F = NDArray[np.float64]
    Job = tuple[Training, Machine]


SOFTWARE = tuple(SoftwareOverrides.model_fields)
"""Columns that are keys of `software`."""
LAYOUT = tuple(name for name in ParallelismSection.model_fields if name != "auto")
"""Columns that are keys of `parallelism`."""

_FLAGS = {"1": True, "yes": True, "true": True, "on": True, "0": False, "no": False, "false": False, "off": False}
_NOWHERE = Mark("")


def of_software(cells: Mapping[str, str]) -> dict[str, Any]:
    """What cells say of the software, by the names of `SoftwareProfile`; raises InputError, its key is the column."""
    return _read(SoftwareOverrides, SoftwareProfile, {name: cells[name] for name in SOFTWARE if name in cells})


def of_layout(cells: Mapping[str, Any], skip: Collection[str]) -> dict[str, Any]:
    """What cells but some say of the layout, by the names of `Layout`; raises InputError, its key is the column."""
    wanted = {name: cells[name] for name in LAYOUT if name in cells and name not in skip}
    return _read(ParallelismSection, Layout, wanted)


def _read(section: type[Section], record: type, cells: Mapping[str, str]) -> dict[str, Any]:
    types = _types(record)
    written = {name: _value(types[name], text) for name, text in cells.items()}
    try:
        return fields_given(load.check(from_plain(written, _NOWHERE), section), record)
    except InputError as error:
        first = {problem.key: problem for problem in reversed(error.problems)}  # a union's cases each have one
        raise InputError.many(
            dataclasses.replace(problem, file=None, line=None, column=None, found=problem.found or cells.get(key or ""))
            for key, problem in first.items()
        ) from None


@functools.cache
def _types(record: type) -> dict[str, Any]:
    """Type of the field that each column fills."""
    hints = typing.get_type_hints(record)
    return {key.name: hints[name] for name, key in keys_of(record).items()}


def _value(kind: Any, text: str) -> Any:
    if kind is bool:
        return _FLAGS.get(text.lower(), text)
    if typing.get_origin(kind) is tuple:
        return text.replace("+", " ").replace(";", " ").split()
    return resolve(text)


METRICS = ("step_time_s", "tokens_per_s_per_gpu", "tflops_per_gpu")
"""One of these cells says what was measured; the first that is filled counts."""

_SHAPE = ("layers", "hidden", "heads", "kv_heads", "head_dim", "ffn", "vocab")
_ALIASES = {"vpp": "vp", "seq_parallel": "sequence_parallel"}
_PRECISIONS: dict[str, Precision] = {
    **{name: name for name in ("bf16", "fp16", "fp8", "fp4")},
    **{"mxfp8": "fp8", "nvfp4": "fp4"},
}
_ZERO = {"0": 0, "none": 0, "1": 1, "2": 2, "3": 3, "fsdp": 3}
_LARGEST = 1_000_000_000
COLUMNS = {
    **dict.fromkeys((*LAYOUT, *SOFTWARE, *_ALIASES, "id", "notes"), TEXT),
    "gpu": NEEDED_TEXT,
    "n_gpu": counts(10_000_000, needed=True),
    "model": NEEDED_TEXT,
    **dict.fromkeys(("seq_len", "global_batch_seqs"), counts(_LARGEST, needed=True)),
    "step_time_s": numbers(1e-4, 86_400.0),
    "tokens_per_s_per_gpu": numbers(1e-3, 1e7),
    "tflops_per_gpu": numbers(1e-3, 1e5),
    **dict.fromkeys((*_SHAPE, "gpus_per_node", "lora_rank"), counts(_LARGEST)),
    "layers": counts(4096),
    "vocab": counts(10_000_000),
    "software": TEXT,
    "precision": words(_PRECISIONS, "bf16"),
    "gated_mlp": words(_FLAGS, default=True),
    "scale_out_gbps": numbers(1e-3, 1e5),
    "lora_targets": words(("all", "attention"), "all"),
    "routing_skew": numbers(0.0, 4.0, 0.0),
    "zero": words(_ZERO, 1),
}
"""All columns that a table may have; those of layout and software are read as a scenario reads its keys."""
NEEDED = (*(name for name, column in COLUMNS.items() if column.needed), "tp", "pp")
"""Columns that a table has; an empty cell of `tp` or `pp` is 1."""
# How far memory may be beyond the device's before a row cannot be what ran: the model of memory errs by less.
_FULL = 1.25

# What collectives reach of a NIC's line rate over a healthy fabric (NCCL logs: 45 to 48 of 50 GB/s).
_NIC_FRACTION = 0.92


@dataclass(frozen=True)
class MeasuredStep:
    """One measured training step.

    Attributes:
        line: In the table, from 1.
        metric: Column that says what was measured.
    """

    line: int
    name: str
    metric: str
    training: Training
    machine: Machine
    measured_s: float


def steps_of(source: MeasurementFile, catalog: Catalog) -> list[MeasuredStep]:
    """The steps of a table.

    Raises:
        InputError: A column is unknown, or cells are wrong: all of them, each with its line.
    """
    return read_rows(source, COLUMNS, METRICS, lambda line, values: _step(source, line, values, catalog))


def _step(source: MeasurementFile, line: int, values: dict[str, Any], catalog: Catalog) -> MeasuredStep:
    device = catalog.accelerator(values["gpu"])
    name = values.get("software")
    software = profiles.default(device) if name is None else profiles.profile(name, device)
    model = _model(source, values, catalog)
    check_precision(values["precision"], device)
    layout = _layout(values)
    check(model, layout, values["seq_len"], values["n_gpu"])
    training = Training(
        model=model,
        layout=layout,
        seq_len=values["seq_len"],
        software=dataclasses.replace(software, **of_software(values)),
        precision=values["precision"],
        routing_skew=values["routing_skew"],
        lora=Lora(rank=values["lora_rank"], targets=values["lora_targets"]) if "lora_rank" in values else None,
    )
    full = memory(training, device).fullest
    if full.total_bytes > _FULL * full.capacity_bytes:
        raise InputError(
            f"this layout needs {full.total_bytes / 2**30:.0f} GiB of memory, {device.name} has"
            f" {full.capacity_bytes / 2**30:.0f} GiB",
            key="tp",
            found=str(layout),
            hint="is a column of the layout missing, such as `zero` or `recompute`?",
        )
    metric = next(name for name in METRICS if name in values)
    seconds = _seconds(values, metric, training)
    return MeasuredStep(line, values["id"], metric, training, _machine(values, device, catalog), seconds)


def _model(source: MeasurementFile, values: Mapping[str, Any], catalog: Catalog) -> Model:
    shape: dict[str, Any] = {name: values[name] for name in _SHAPE if name in values}
    try:
        known = model_of_cell(source, values["model"], catalog)
    except InputError:
        file = model_file(source.path.parent, values["model"])
        if not {"layers", "hidden", "heads"} <= shape.keys() or (file is not None and file.exists()):
            raise
    else:
        return dataclasses.replace(known, **shape) if shape else known
    gated, heads, hidden = values["gated_mlp"], shape["heads"], shape["hidden"]
    usual: dict[str, Any] = {"kv_heads": heads, "head_dim": hidden // heads, "ffn": 4 * hidden, "vocab": 51200}
    return Model(
        name=values["model"],
        gated_mlp=gated,
        tied_embeddings=not gated,
        norm="rms" if gated else "layer",
        learned_positions=0 if gated else values["seq_len"],
        max_seq=values["seq_len"],
        **{**usual, **shape},
    )


def _layout(values: Mapping[str, Any]) -> Layout:
    """Layout of a row; ZeRO 1 by default, and sequence parallel with tensor parallelism."""
    cells = {**values, **{key: values[column] for column, key in _ALIASES.items() if column in values}}
    given = of_layout(cells, ("zero", "recompute"))
    recompute, modules = _recompute(values.get("recompute", "none"))
    given |= {"recompute": recompute, "zero": values["zero"]}
    given |= {"recompute_modules": modules} if modules else {}
    given.setdefault("sequence_parallel", given.get("tp", 1) > 1)
    given.setdefault("reshard", given.get("pp", 1) == 1)
    return written_layout(given, values["global_batch_seqs"], values["n_gpu"])


def _recompute(text: str) -> tuple[Any, tuple[str, ...]]:
    if text in ("none", "selective", "full"):
        return text, ()
    modules = tuple(text.replace("+", " ").replace(";", " ").split())
    allowed = ("none", "selective", "full", *RECOMPUTE_MODULES)
    for module in modules:
        if module not in RECOMPUTE_MODULES:
            message, hint = f"unknown recomputation `{module}`", did_you_mean(module, allowed)
            raise InputError(message, key="recompute", found=text, allowed=allowed, hint=hint)
    return "none", modules


def _machine(values: Mapping[str, Any], device: Accelerator, catalog: Catalog) -> Machine:
    server = catalog.server(device.server)
    domain = max(values.get("gpus_per_node", server.accelerators), device.scale_up_domain)
    nics_bps = catalog.nic(server.nic).rate_bps * server.nics_per_accelerator
    gbps = values.get("scale_out_gbps", nics_bps / 1e9)
    return dataclasses.replace(
        Machine.of_device(device, gbps * 1e9 * _NIC_FRACTION, domain),
        scale_up_peers=device.scale_up_domain - 1 if device.scale_up_kind == "mesh" else 0,
        nvls=device.nvls,
    )


def _seconds(values: Mapping[str, Any], metric: str, training: Training) -> float:
    value, ranks = float(values[metric]), int(values["n_gpu"])
    if metric == "step_time_s":
        return value
    if metric == "tokens_per_s_per_gpu":
        return training.step_tokens / (value * ranks)
    of, frozen = (training.model, training.seq_len), training.lora is not None
    useful = architecture.model_flops_per_token(*of, causal=True, frozen=frozen) * training.step_tokens
    return useful / (value * 1e12 * ranks)


# The least share of a step that a pace moves: of steps that are all network, a run says next to nothing.
_LEAST = 0.05
# Bounds of a run's pace, and the rounds in which it is found.
_FASTEST, _SLOWEST, _ROUNDS = 0.2, 5.0, 8
_STEP = 1e-3


@dataclass(frozen=True)
class StepPaces:
    """Paces of measured steps.

    Attributes:
        at: Places of the runs, [run, trait].
        off: Logarithm of the pace at which the prediction meets the measurement, [run].
        slope: Share of the step that the pace moves, [run].
    """

    at: F
    off: F
    slope: F


def paces(jobs: Sequence[Job], measured_s: F) -> StepPaces:
    """The pace at which each prediction meets its measurement, by Newton's method."""
    at = np.stack([place(traits_of(training)) for training, _ in jobs])
    start = np.log(predicted(jobs, np.ones(len(jobs))))
    slope = np.maximum((np.log(predicted(jobs, np.full(len(jobs), math.exp(_STEP)))) - start) / _STEP, _LEAST)
    off, wanted = np.zeros(len(jobs)), np.log(measured_s)
    for _ in range(_ROUNDS):
        off = np.clip(off + (wanted - start) / slope, math.log(_FASTEST), math.log(_SLOWEST))
        start = np.log(predicted(jobs, np.exp(off)))
    return StepPaces(at, off, slope)


def predicted(jobs: Sequence[Job], pace: F) -> F:
    """Step seconds where ranks take so many times as long."""

    def change(columns: Columns) -> Columns:
        return dataclasses.replace(columns, job=columns.job.replace(pace=pace))

    return estimate([training for training, _ in jobs], [machine for _, machine in jobs], change=change).step_s


def own_runs(jobs: Sequence[Job], names: Sequence[str], found: StepPaces, widths: Scatter) -> tuple[OwnRun, ...]:
    """Steps of one system as records that a profile can know."""
    spread = np.sqrt(noise(found.at, found.off, found.slope, widths))
    return tuple(
        OwnRun(machine.accelerator.name, name, math.exp(pace), width, traits_of(training))
        for (training, machine), name, pace, width in zip(jobs, names, found.off.tolist(), spread.tolist(), strict=True)
    )


def calibrate(source: MeasurementFile, catalog: Catalog) -> Calibrated:
    """The pace of each system, software on a device, of a table's rows, from these rows alone.

    Raises:
        InputError: The table is wrong.
    """
    systems: dict[tuple[str, str], list[MeasuredStep]] = {}
    for step in steps_of(source, catalog):
        system = profiles.key_of(step.training.software), step.machine.accelerator.name
        systems.setdefault(system, []).append(step)
    constants: list[ConstantFit] = []
    judged: list[RowFit] = []
    runs: dict[str, tuple[OwnRun, ...]] = {}
    for (key, device), those in systems.items():
        jobs, widths = [(step.training, step.machine) for step in those], scatter()
        _check_paces(source, those, jobs)
        found = paces(jobs, np.array([step.measured_s for step in those]))
        runs[key] = (*runs.get(key, ()), *own_runs(jobs, [step.name for step in those], found, widths))
        constants.append(_typical(f"{key} on {device}", found, widths))
        judged += _judged(those, jobs, found, widths)
    judged.sort(key=lambda row: row.line)
    return Calibrated(
        kind="training",
        unit="s",
        constants=tuple(constants),
        rows=tuple(judged),
        written=calibrated.written(runs, source.path.name),
        use="`software: {constants: FILE}` in a scenario's training section",
        skipped=(),
    )


def _check_paces(source: MeasurementFile, steps: Sequence[MeasuredStep], jobs: Sequence[Job]) -> None:
    """Whether each step lies between the forecasts at the bounds of a pace.

    Raises:
        InputError: Steps do not: no pace explains them, but another unit may.
    """
    fast_s, plain_s, slow_s = (predicted(jobs, np.full(len(jobs), pace)) for pace in (_FASTEST, 1.0, _SLOWEST))
    measured_s = np.array([step.measured_s for step in steps])
    problems = []
    for number in np.flatnonzero((measured_s < fast_s) | (measured_s > slow_s)).tolist():
        step, times = steps[number], float(measured_s[number] / plain_s[number])
        in_ms = "is it in milliseconds?" if 200.0 < times < 5000.0 else "is a unit, the batch or the model wrong?"
        problems.append(
            Problem(
                f"no pace explains this step of {short(step.measured_s)} s: the forecast is {short(plain_s[number])} s",
                file=str(source.path),
                line=step.line,
                key=step.metric,
                hint=in_ms,
            )
        )
    if problems:
        raise InputError.many(problems)


def _typical(of: str, found: StepPaces, widths: Scatter) -> ConstantFit:
    """The mean pace of the measured runs, and how sure that of a run like them is, without what is its own."""
    each, variances = expected(found.at, found.off, noise(found.at, found.off, found.slope, widths), found.at, widths)
    value, variance = float(np.mean(each)), float(np.mean(variances))
    low, high = (math.exp(value + sign * math.sqrt(variance)) for sign in (-1, 1))
    settled = 1.0 - variance / (widths.system**2 + widths.alike**2)
    return ConstantFit(of=of, name="pace", before=1.0, value=math.exp(value), low=low, high=high, settled=settled)


def _judged(steps: Sequence[MeasuredStep], jobs: Sequence[Job], found: StepPaces, widths: Scatter) -> list[RowFit]:
    after, _ = expected(found.at, found.off, noise(found.at, found.off, found.slope, widths), found.at, widths)
    left_out = np.full(len(steps), np.nan)
    for number in range(len(steps) if len(steps) > 1 else 0):
        others = np.arange(len(steps)) != number
        at, off, slope = found.at[others], found.off[others], found.slope[others]
        left_out[number] = expected(at, off, noise(at, off, slope, widths), found.at[~others], widths)[0][0]
    known = np.where(np.isnan(left_out), 0.0, left_out)
    columns = [predicted(jobs, np.exp(each)).tolist() for each in (np.zeros(len(steps)), after, known)]
    columns[2] = np.where(np.isnan(left_out), np.nan, columns[2]).tolist()
    return [
        row_fit(step.line, step.name, [step.measured_s, *values]) for step, *values in zip(steps, *columns, strict=True)
    ]


def left_open(found: StepPaces, spread: F, at: F, slope: F, widths: Scatter) -> tuple[F, F]:
    """Logarithm of the pace of other runs, and one standard deviation of the logarithm of their measured step."""
    pace, variance = expected(found.at, found.off, spread, at, widths)
    return pace, np.sqrt(slope**2 * variance + widths.run**2 * TAIL / (TAIL - 2.0))


kinds.add(
    "training",
    MeasurementKind(
        name="training",
        summary="Training steps, one row per run: what ran where, laid out how, and how long a step took.",
        columns=(*NEEDED, " or ".join(METRICS)),
        recognizes=lambda source: source.has(NEEDED, METRICS),
        calibrate=calibrate,
        key="workload.training.software.constants",
        work="training",
    ),
)
