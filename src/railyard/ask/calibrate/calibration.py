"""Measures a device operator by operator, and reads the constants of a catalogue entry off what was measured."""

from __future__ import annotations

import datetime
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any

from railyard.ask.calibrate.device import median_s
from railyard.ask.calibrate.plan import predicted_s
from railyard.kit.errors import InputError
from railyard.kit.files import write_text

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from railyard.ask.calibrate.device import Facts, MeasurableDevice
    from railyard.ask.calibrate.plan import MeasurementPlan
    from railyard.catalog import Accelerator, Model


# Times that a launch is repeated: enough for the clock, few enough that the queue of launches never fills.
_LAUNCHES = 400
SHARES = ("gemm_efficiency", "gemm_efficiency_8bit", "attention_efficiency", "memory_efficiency")
"""Constants of a catalogue entry that are shares of its peaks."""


@dataclass(frozen=True, slots=True)
class OperatorSample:
    """One operator.

    Attributes:
        kind: `product`, `grouped`, `attention`, `attention-both`, `copy`, `norm` or a collective's name.
        dims: As numbers: what `prediction.predicted_s` takes.
        work: FLOP of products and attention, bytes through memory of passes, bytes on the busiest link of collectives.
        predicted_s: By the model with the catalogue entry as it was.
        calibrated_s: By the model with the constants that were read off these samples.
    """

    kind: str
    shape: str
    datatype: str
    dims: tuple[int, ...]
    seconds: float
    spread: float
    work: float
    share: float | None = None
    predicted_s: float | None = None
    calibrated_s: float | None = None

    def error(self, predicted: float | None) -> float | None:
        """(predicted - measured) / measured."""
        return None if predicted is None else predicted / self.seconds - 1.0


@dataclass(frozen=True, slots=True)
class Calibration:
    """Measurements of a device, and the constants that follow.

    Attributes:
        constants: By field of the catalogue entry: `gemm_efficiency`, `gemm_efficiency_8bit`, `attention_efficiency`,
            `memory_efficiency` (shares), `launch_s` (seconds), `copied_bytes_s` (read and written); where measured.
        software: What belongs to a software profile: `launch_s`, `grouped_fraction`, `attention_backward`.
        skipped: Operators that the device refused, with its reason.
    """

    entry: str
    facts: Facts
    date: str
    samples: tuple[OperatorSample, ...]
    constants: dict[str, float]
    software: dict[str, float]
    skipped: tuple[str, ...] = ()


def calibrate(
    device: MeasurableDevice,
    entry: Accelerator,
    model: Model,
    plan: MeasurementPlan,
    *,
    progress: Callable[[str, float], None],
    collectives: bool = True,
) -> Calibration:
    """Measures a device by a plan.

    Args:
        device: The device.
        entry: Its catalogue entry: peaks, and what the model predicts with.
        model: Any model of the catalogue, of which only the form counts.
        plan: What is measured.
        progress: Called with what is measured now, and the share that is done.
        collectives: Whether to measure collectives where there are several devices.
    """
    samples: list[OperatorSample] = []
    skipped: list[str] = []
    operators = list(_operators(device, entry, plan))
    for done, operator in enumerate(operators):
        progress(f"{operator.kind} {operator.datatype} {operator.shape}", done / len(operators))
        try:
            sample = _measured(device, entry, model, operator, plan.least_s)
        except device.refusals as error:
            reason = (str(error).splitlines() or ["no reason"])[0]
            skipped.append(f"{operator.kind} {operator.datatype} {operator.shape}: {reason}")
            continue
        samples += [sample] if sample else []
    progress("launches", 1.0)
    tiny = device.tiny()
    tiny()
    launch_s = min(device.host_seconds(tiny, _LAUNCHES) / _LAUNCHES for _ in range(5))
    gap_s = device.gap_s(_LAUNCHES)
    if collectives:
        progress("collectives", 1.0)
        samples += _collectives(device, plan)
    constants = {**_constants(samples), "launch_s": max(gap_s, 1e-9)}
    better = calibrated(entry, constants)
    return Calibration(
        entry=entry.name,
        facts=device.facts(),
        date=datetime.datetime.now(tz=datetime.UTC).date().isoformat(),
        samples=tuple(
            replace(one, calibrated_s=predicted_s(better, model, one.kind, one.dims, one.datatype)) for one in samples
        ),
        constants=constants,
        software={"launch_s": launch_s, **_software(samples)},
        skipped=tuple(skipped),
    )


def calibrated(entry: Accelerator, constants: dict[str, float]) -> Accelerator:
    """A catalogue entry with measured constants in their places."""
    changes: dict[str, Any] = {name: value for name, value in constants.items() if name in SHARES}
    return replace(entry, **changes, launch_ps=round(constants["launch_s"] * 1e12))


@dataclass(frozen=True, slots=True)
class _Operator:
    """One operator to be measured: how to make it, and its work."""

    kind: str
    shape: str
    datatype: str
    dims: tuple[int, ...]
    make: Callable[[], Callable[[], object] | None]
    work: float
    peak: float | None


def _operators(device: MeasurableDevice, entry: Accelerator, plan: MeasurementPlan) -> Iterator[_Operator]:
    yield from _products(device, entry, plan)
    yield from _attention(device, entry, plan)
    yield from _passes(device, entry, plan)


def _products(device: MeasurableDevice, entry: Accelerator, plan: MeasurementPlan) -> Iterator[_Operator]:
    for datatype in device.datatypes:
        for dims in plan.products:
            m, n, k = dims
            make = partial(device.product, m, n, k, datatype)
            yield _Operator("product", _text(dims), datatype, dims, make, 2.0 * m * n * k, _peak(entry, datatype))
    wide = device.datatypes[0]
    for grouped in plan.grouped:
        experts, m, n, k = grouped
        shape, work = f"{experts} of {_text((m, n, k))}", 2.0 * experts * m * n * k
        make = partial(device.grouped, experts, m, n, k)
        yield _Operator("grouped", shape, wide, grouped, make, work, _peak(entry, wide))


def _attention(device: MeasurableDevice, entry: Accelerator, plan: MeasurementPlan) -> Iterator[_Operator]:
    wide = device.datatypes[0]
    for dims in plan.attention:
        batch, heads, sequence, width = dims
        # Causal: half of two products of sequence by sequence by width; backward has five where forward has two.
        work = 2.0 * batch * heads * sequence * sequence * width
        for backward, kind, times in ((False, "attention", 1.0), (True, "attention-both", 3.5)):
            make = partial(device.attention, batch, heads, sequence, width, backward=backward)
            yield _Operator(kind, _text(dims), wide, dims, make, times * work, _peak(entry, wide))


def _passes(device: MeasurableDevice, entry: Accelerator, plan: MeasurementPlan) -> Iterator[_Operator]:
    peak = entry.memory_bps / 8.0
    for size in plan.copies:
        dims, make = (2 * size,), partial(device.copy, size)
        yield _Operator("copy", f"{size >> 20} MiB", "", dims, make, 2.0 * size, peak)
    for rows, width in plan.norms:
        moved = device.norm_bytes(rows, width)
        make = partial(device.norm, rows, width)
        yield _Operator("norm", _text((rows, width)), "", (moved,), make, float(moved), peak)


def _text(dims: tuple[int, ...]) -> str:
    return "x".join(map(str, dims))


def _measured(
    device: MeasurableDevice, entry: Accelerator, model: Model, operator: _Operator, least_s: float
) -> OperatorSample | None:
    """The sample of an operator, or None where the device cannot run it or the entry knows no peak for it."""
    call = operator.make() if operator.peak else None
    if call is None or operator.peak is None:
        return None
    seconds, spread = median_s(device, call, least_s=least_s)
    predicted = predicted_s(entry, model, operator.kind, operator.dims, operator.datatype)
    return OperatorSample(
        kind=operator.kind,
        shape=operator.shape,
        datatype=operator.datatype,
        dims=operator.dims,
        seconds=seconds,
        spread=spread,
        work=operator.work,
        share=operator.work / seconds / operator.peak,
        predicted_s=predicted,
    )


def _collectives(device: MeasurableDevice, plan: MeasurementPlan) -> list[OperatorSample]:
    found = device.collectives(plan.collectives)
    ranks = device.facts().devices
    # What nccl-tests call bus bandwidth: bytes that each link of a ring carries.
    ring = (ranks - 1) / ranks
    return [
        OperatorSample(
            kind=kind,
            shape=f"{size >> 20} MiB",
            datatype="",
            dims=(size,),
            seconds=seconds,
            spread=0.0,
            work=size * ring * (2.0 if kind == "all-reduce" else 1.0),
        )
        for (kind, size), seconds in found.items()
    ]


def _peak(entry: Accelerator, datatype: str) -> float | None:
    return entry.flops.get(datatype) or (entry.flops.get("fp16") if datatype == "bf16" else None)


def _best(samples: list[OperatorSample], *kinds: str, datatypes: tuple[str, ...] = ()) -> float | None:
    shares = [
        sample.share
        for sample in samples
        if sample.kind in kinds and sample.share is not None and (not datatypes or sample.datatype in datatypes)
    ]
    return min(max(shares), 1.0) if shares else None


def _constants(samples: list[OperatorSample]) -> dict[str, float]:
    """The catalogue's constants as it defines them: each the best share that any shape reached."""
    found = {
        "gemm_efficiency": _best(samples, "product", datatypes=("bf16", "fp32")),
        "gemm_efficiency_8bit": _best(samples, "product", datatypes=("fp8",)),
        "attention_efficiency": _best(samples, "attention"),
        "memory_efficiency": _best(samples, "copy", "norm"),
    }
    copied = [sample.work / sample.seconds for sample in samples if sample.kind == "copy"]
    return {name: value for name, value in found.items() if value} | {"copied_bytes_s": max(copied, default=0.0)}


def _software(samples: list[OperatorSample]) -> dict[str, float]:
    """Shares that belong to software: grouped products and backward attention against the best of the device."""
    dense, grouped = _best(samples, "product", datatypes=("bf16", "fp32")), _best(samples, "grouped")
    forward = {sample.shape: sample for sample in samples if sample.kind == "attention"}
    backward = [
        (sample.work - forward[sample.shape].work) / (sample.seconds - forward[sample.shape].seconds)
        for sample in samples
        if sample.kind == "attention-both" and sample.seconds > forward[sample.shape].seconds
    ]
    best = max((sample.work / sample.seconds for sample in forward.values()), default=0.0)
    found = {}
    if dense and grouped:
        found["grouped_fraction"] = grouped / dense
    if backward and best:
        found["attention_backward"] = max(backward) / best
    return found


# A machine of one such device, so that a scenario can name it.
_SERVER = """servers:
  {name}-host: {{extends: hgx-h100, summary: A machine with one {name}, accelerator: {name}, accelerators: 1,
    scale_up_domain: 1, nics: 1, accelerator_numa: [0], nic_numa: [0], numa_nodes: 1}}"""


def overlay(found: Calibration, entry_text: str = "") -> str:
    """The text of a catalogue file that `catalog:` of a scenario takes."""
    facts = found.facts
    # A quote or a line break in what a driver says must not end the text.
    source = f"railyard calibrate device, {found.date}: {facts}".replace('"', "'").replace("\\", "/")
    source = " ".join(source.split())
    lines = [
        f"# Measured by `railyard calibrate device` on {found.date}: {' '.join(str(facts).split())}",
        *(f"# {name}: {value}" for name, value in facts.readings.items()),
        "#",
        "# operator            shape                     operands    seconds  of peak",
        *(f"# {line}" for line in _table(found)),
        "#",
        "# For a software profile (`software:` of a scenario):",
        *(f"#   {line}" for line in _overlay_software(found)),
        "accelerators:",
        f"  {found.entry}:",
        "    sources:",
        f'      measured: {{source: "{source}", year: {found.date[:4]}, confidence: measured}}',
    ]
    if entry_text:
        peak = "cores x clock x FLOP of the registers' width a cycle; 32-bit, because NumPy has no 16-bit product"
        lines += [
            f'      peak: {{source: "{peak}", year: {found.date[:4]}, confidence: estimated}}',
            f'      guess: {{source: "not measurable from a program", year: {found.date[:4]}, confidence: estimated}}',
            *entry_text.rstrip("\n").splitlines(),
            f"    memory_bandwidth: {{value: {found.constants['copied_bytes_s'] / 1e9:.3f} GB/s, from: measured}}",
        ]
    server = [_SERVER.format(name=found.entry)] if entry_text else []
    return "\n".join([*lines, *_values(found, entry_text=bool(entry_text)), *server]) + "\n"


def _values(found: Calibration, *, entry_text: bool) -> list[str]:
    constants = dict(found.constants)
    if entry_text:
        # A processor's peak of memory is the best copy itself, and it has no 8-bit products.
        constants["memory_efficiency"] = 1.0
        constants.setdefault("gemm_efficiency_8bit", constants["gemm_efficiency"])
    lines = [
        f"    {name}: {{value: {100.0 * constants[name]:.2f} %, from: measured}}"
        for name in SHARES
        if name in constants
    ]
    return [*lines, f"    launch: {{value: {constants['launch_s'] * 1e9:.0f} ns, from: measured}}"]


def _table(found: Calibration) -> list[str]:
    return [
        f"{sample.kind:19s} {sample.shape:25s} {sample.datatype or '-':8s} {sample.seconds:10.3e} "
        + (f"{100.0 * sample.share:6.1f} %" if sample.share is not None else "")
        for sample in found.samples
    ]


def _overlay_software(found: Calibration) -> list[str]:
    return [
        f"launch: {found.software['launch_s'] * 1e6:.2f} us",
        *(f"{name}: {value:.3f}" for name, value in found.software.items() if name != "launch_s"),
    ]


def write(text: str, path: Path, *, force: bool = False) -> None:
    """Writes a file whole or not at all.

    Raises:
        InputError: The file already exists, or cannot be written.
    """
    if path.exists() and not force:
        raise InputError("the file already exists", file=path, hint="`--force` replaces it")
    write_text(path, text)
