"""`railyard calibrate`: what is at hand is measured, or records of it are read, and written as constants to use."""

from __future__ import annotations

import tempfile
from dataclasses import asdict
from datetime import UTC, datetime
from json import dumps, loads
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from railyard.face.terminal import Force, Json, Progress, Table, emit, say, wrapped
from railyard.face.verb import CALIBRATION, FormField, Page, Reply, Request, verb
from railyard.kit.errors import InputError
from railyard.kit.files import keep_existing, write_text
from railyard.measure.numbers import percent, seconds

if TYPE_CHECKING:
    from railyard.ask.calibrate.calibration import Calibration, OperatorSample
    from railyard.ask.calibrate.device import MeasurableDevice
    from railyard.ask.calibrate.measurements import Calibrated
    from railyard.ask.calibrate.recorded_fit import RunsReport
    from railyard.catalog import Accelerator, Catalog
    from railyard.measure.result.measured import CalibrationAnswer

DEVICES = ("auto", "cuda", "cpu")
_MODEL = "llama-3-8b"
_UNSTEADY = 0.2


@verb(
    "calibrate device",
    example="railyard calibrate device --device cpu --quick",
    group="observe",
    details=True,
    order=80,
)
def calibrate_device(
    request: Request,
    *,
    device: Annotated[
        str,
        typer.Option("--device", metavar="KIND", help="auto or cuda (ROCm too) through PyTorch; cpu through NumPy."),
    ] = "auto",
    entry: Annotated[str | None, typer.Option("--entry", metavar="NAME", help="Catalogue entry of the device.")] = None,
    out: Annotated[
        Path | None, typer.Option("--out", metavar="FILE.yaml", help="Write a catalogue file with what was measured.")
    ] = None,
    force: Force = False,
    quick: Annotated[bool, typer.Option("--quick", help="Fewer shapes: seconds instead of minutes.")] = False,
    collectives: Annotated[
        bool, typer.Option("--collectives/--no-collectives", help="Measure collectives between several devices.")
    ] = True,
    json: Json = False,
) -> None:
    """Measure the accelerator of this machine, compare it with the model, and write it as a catalogue file."""
    import railyard.catalog as catalog
    from railyard.ask.calibrate.calibration import calibrate, overlay, write

    keep_existing(out, force=force)
    found_device = _device(device)
    known = catalog.load()
    name, entry_text = found_device.entry(known, entry)
    record = _preliminary(found_device, name, entry_text) if entry_text else known.accelerator(name)
    with Progress(wanted=not json) as progress:
        found = calibrate(
            found_device,
            record,
            known.model(_MODEL),
            _plan(device, quick=quick),
            progress=progress,
            collectives=collectives,
        )
    text = overlay(found, entry_text)
    _checked(text)
    if out is not None:
        write(text, out, force=force)
    if json:
        emit(dumps(_json(found, out), indent=1, allow_nan=False))
        return
    _print(found, record, details=request.details)
    for line in found.skipped:
        say(f"skipped: {line}")
    unsteady = sum(sample.spread > _UNSTEADY for sample in found.samples)
    if unsteady:
        say(
            f"{unsteady} of {len(found.samples)} operators varied by more than {100 * _UNSTEADY:.0f} %:"
            " was the device busy?"
        )
    say(f"wrote {out}" if out else "hint: `--out FILE` writes this as a catalogue file for `catalog:` of a scenario")


@verb(
    "calibrate serving",
    example="railyard calibrate serving --runs validation/data/serving_runs/RTX4090",
    group="observe",
    order=82,
)
def calibrate_serving(
    *,
    runs: Annotated[Path, typer.Option("--runs", metavar="FOLDER", help="Recorded runs of a serving engine.")],
    out: Annotated[
        Path | None, typer.Option("--out", "-o", metavar="FILE.toml", help="Write the constants that were fitted.")
    ] = None,
    force: Force = False,
    json: Json = False,
) -> None:
    """Fit the constants of an engine on your devices from recorded runs, for `validate serving --profiles`."""
    import railyard.catalog as catalog
    from railyard.ask.calibrate.recorded import read_runs
    from railyard.ask.calibrate.recorded_fit import profiles_of, validate_runs
    from railyard.work.serving.software import table_profile, written

    keep_existing(out, force=force)
    known = catalog.load()
    recorded = read_runs(runs)
    engines = ", ".join(dict.fromkeys(run.engine for run in recorded))
    profiles, steps = profiles_of(recorded, known, f"{engines}: {len(recorded)} recorded runs in {runs.name}")
    if out is not None:
        write_text(out, written(profiles))
    report = validate_runs(runs, known, profiles=profiles)
    if json:
        content = {
            "profiles": [asdict(profile) for profile in profiles.values()],
            "validation": loads(report.to_json()),
            "out": str(out) if out else None,
        }
        emit(dumps(content, indent=1, allow_nan=False))
        return
    emit(f"{runs_sentence(report)}\n")
    table = Table(("run", "constant", "published tables", "fitted"), right=(2, 3))
    for step in steps:
        before = table_profile("vllm", step.setting.device.architecture)
        for name in step.given:
            table.add(
                step.setting.run.name, name, f"{getattr(before, name):.4g}", f"{getattr(step.software, name):.4g}"
            )
    table.print()
    emit("")
    runs_table(report)
    say(f"wrote {out}" if out else "hint: `--out FILE.toml` writes the profiles")


@verb(
    "calibrate runs",
    example="railyard calibrate runs --table examples/measured/steps.csv",
    group="observe",
    details=True,
    json=True,
    order=81,
    page=Page(
        "Calibrate",
        "Fits constants to your measured steps, serving runs or collective logs; later runs of this folder use them.",
        order=14,
        name="calibrate",
        given=lambda request: {"shelf": None if request.runs is None else request.runs.parent / CALIBRATION},
    ),
)
def calibrate_runs(
    request: Request,
    *,
    table: Annotated[
        Path,
        typer.Option("--table", metavar="FILE", help="Your measurements; the columns decide the kind."),
        FormField("Measured steps, serving runs or a log of nccl-tests"),
    ],
    out: Annotated[
        Path | None, typer.Option("--out", "-o", metavar="FILE.toml", help="Write the constants that were fitted.")
    ] = None,
    force: Force = False,
    shelf: Annotated[
        Path | None, typer.Option("--shelf", hidden=True, help="Folder in which later runs of the page find constants.")
    ] = None,
) -> Reply:
    """Fit constants to a few measurements of your own, each with its standard deviation."""
    import railyard.catalog as catalog
    from railyard.ask.calibrate import measurements
    from railyard.ask.calibrate.calibration import write

    keep_existing(out, force=force)
    kind, source = measurements.read(table)
    found = kind.calibrate(source, catalog.load())
    answer = _document(found, table.name)
    text = f"# {answer.origin()}\n{found.written}"
    if shelf is not None:
        shelf.mkdir(parents=True, exist_ok=True)
        write_text(shelf / f"{kind.name}.toml", text)
    if out is not None:
        write(text, out, force=force)

    def show() -> None:
        _constants_table(found)
        if request.details:
            emit("")
            _judged_table(found)
            if found.kind == "training":
                say("note: forecasts leave out the fabric between NICs; `run` of one layout may differ by some percent")
        for line in found.skipped:
            say(f"skipped: {line}")
        say(f"wrote {out}: {found.use}" if out else f"hint: `--out FILE.toml` writes the constants, for {found.use}")

    return Reply(
        answer, show, lambda: {**found.plain(), "written": text, "out": str(out) if out else None}, keep=answer
    )


def _document(found: Calibrated, file: str) -> CalibrationAnswer:
    from railyard.measure.result.measured import CalibrationAnswer
    from railyard.work.study.provenance import version

    return CalibrationAnswer(
        format="railyard-calibration/1",
        name=file,
        version=version(),
        date=datetime.now(UTC).date().isoformat(),
        **{name: value for name, value in found if name != "written"},
    )


def _constants_table(found: Calibrated) -> None:
    table = Table(("constant", "of", "shipped", "yours", "+-", "share from your rows"), right=(2, 3, 4, 5))
    for one in found.constants:
        spread = (one.high - one.low) / (2.0 * one.value)
        table.add(one.name, one.of, f"{one.before:.4g}", f"{one.value:.4g}", percent(spread), percent(one.settled))
    table.print()


def _judged_table(found: Calibrated) -> None:
    from statistics import fmean, median

    unit = found.unit
    table = Table(("row", f"measured, {unit}", "shipped", "yours", "without this row"), right=(1, 2, 3, 4))
    for row in found.rows:
        errors = [row.before, row.after, row.left_out]
        signed = [f"{100.0 * (value / row.measured - 1.0):+.1f} %" if value is not None else "" for value in errors]
        table.add(row.name, f"{row.measured:.4g}", *signed)
    for name, of in (("mean |error|", fmean), ("median |error|", median)):
        cells = []
        for column in ("before", "after", "left_out"):
            values = [(getattr(row, column), row.measured) for row in found.rows]
            known = [abs(value / measured - 1.0) for value, measured in values if value is not None]
            cells.append(percent(of(known)) if known else "")
        table.add(name, "", *cells)
    table.print()


def runs_sentence(report: RunsReport) -> str:
    """How many runs are predicted well."""
    from railyard.ask.calibrate.recorded_fit import WITHIN

    found = report.summary()
    return (
        f"TTFT of {found['ttft_within']} and TPOT of {found['tpot_within']} of {found['n']} runs are predicted within a"
        f" KS distance of {WITHIN:g}."
    )


def runs_table(report: RunsReport) -> None:
    """Distances of every run, medians, and what was fitted on it."""
    headings = ("run", "requests", "KS of TTFT", "KS of TPOT", "TTFT p50", "measured", "TPOT p50", "measured", "fitted")
    table = Table(headings, right=(1, 2, 3, 4, 5, 6, 7))
    for row in report.rows:
        if row.ttft is None or row.tpot is None:
            continue
        middle = [seconds(side["p50"]) for one in (row.ttft, row.tpot) for side in (one.predicted_s, one.measured_s)]
        gaps = (f"{row.ttft.distance:.3f}", f"{row.tpot.distance:.3f}")
        fitted = f"{len(row.fitted)} constants" if row.fitted else "test set"
        table.add(row.id, str(row.requests), *gaps, *middle, fitted)
    table.print()


def _device(kind: str) -> MeasurableDevice:
    if kind not in DEVICES:
        raise InputError(f"there is no kind of device `{kind}`", key="device", found=kind, allowed=DEVICES)
    if kind == "cpu":
        from railyard.ask.calibrate.device import NumpyDevice

        return NumpyDevice()
    from railyard.ask.calibrate.torch_device import TorchDevice

    return TorchDevice()


def _plan(kind: str, *, quick: bool) -> Any:
    from railyard.ask.calibrate import plan

    if kind == "cpu":
        return plan.SMALL_QUICK if quick else plan.SMALL
    return plan.LARGE_QUICK if quick else plan.LARGE


def _preliminary(found_device: MeasurableDevice, name: str, entry_text: str) -> Accelerator:
    """The entry of a device that the catalogue does not hold, its bandwidth by one copy, all shares 1."""
    from railyard.ask.calibrate.calibration import Calibration, overlay
    from railyard.ask.calibrate.device import median_s

    size = 2**25
    seconds, _ = median_s(found_device, found_device.copy(size), least_s=0.05)
    constants = {"copied_bytes_s": 2.0 * size / seconds, "launch_s": 1e-6}
    constants |= {"gemm_efficiency": 1.0, "attention_efficiency": 1.0}
    blank = Calibration(name, found_device.facts(), "2000-01-01", (), constants, {"launch_s": 0.0})
    return _checked(overlay(blank, entry_text)).accelerator(name)


def _checked(text: str) -> Catalog:
    """The catalogue with the file's entries over it: what is written is what can be read."""
    import railyard.catalog as catalog

    with tempfile.TemporaryDirectory(prefix="railyard-calibrate-") as folder:
        path = Path(folder) / "entries.yaml"
        path.write_text(text, encoding="utf-8")
        return catalog.load(path)


def _print(found: Calibration, record: Accelerator, *, details: bool) -> None:
    from statistics import median

    misses = [abs(value) for one in found.samples if (value := one.error(one.calibrated_s)) is not None]
    error = f"; calibrated times miss the measured ones by {percent(median(misses))} (median)" if misses else ""
    emit(wrapped(f"{found.facts} is measured as {found.entry}{error}.") + "\n")
    if details:
        _samples(found)
    _constants(found, record)


def _samples(found: Calibration) -> None:
    headings = ("operator", "shape", "operands", "measured", "spread", "rate", "of peak", "catalogue", "calibrated")
    table = Table(headings, right=(3, 4, 5, 6, 7, 8))
    for sample in found.samples:
        table.add(
            sample.kind,
            sample.shape,
            sample.datatype or "-",
            _seconds(sample.seconds),
            percent(sample.spread),
            _rate(sample),
            percent(sample.share),
            percent(sample.error(sample.predicted_s)),
            percent(sample.error(sample.calibrated_s)),
        )
    table.print()
    emit("\nlaunch on the host    " + _seconds(found.software["launch_s"]) + "\n")


def _constants(found: Calibration, record: Accelerator) -> None:
    constants = Table(("constant", "measured", "catalogue"), right=(1, 2))
    for name, value in found.constants.items():
        if name == "launch_s":
            constants.add("launch", _seconds(value), _seconds(record.launch_ps * 1e-12))
        elif name != "copied_bytes_s":
            constants.add(name, percent(value), percent(getattr(record, name)))
    for name in ("grouped_fraction", "attention_backward"):
        if name in found.software:
            constants.add(f"{name} (software)", percent(found.software[name]), "")
    constants.print()


def _seconds(value: float) -> str:
    for factor, unit in ((1.0, "s"), (1e3, "ms"), (1e6, "us")):
        if value * factor >= 1.0:
            return f"{value * factor:.3g} {unit}"
    return f"{value * 1e9:.3g} ns"


def _rate(sample: OperatorSample) -> str:
    rate = sample.work / sample.seconds
    if sample.kind.startswith(("product", "grouped", "attention")):
        return f"{rate / 1e12:.3g} TFLOP/s"
    return f"{rate / 1e9:.4g} GB/s"


def _json(found: Calibration, out: Path | None) -> dict[str, Any]:
    content = asdict(found)
    for row, sample in zip(content["samples"], found.samples, strict=True):
        row["error"], row["calibrated_error"] = (
            sample.error(predicted) for predicted in (sample.predicted_s, sample.calibrated_s)
        )
    return {**content, "out": str(out) if out else None}
