"""What a few measured training steps say of the pace of one's own system, and of each of them without itself."""

from __future__ import annotations

import dataclasses
import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from railyard.ask.calibrate.tables.kind import Calibrated, Constant, Judged
from railyard.ask.calibrate.tables.training_rows import steps_of
from railyard.model.own_runs import TAIL, expected, noise
from railyard.work.training import pace as calibrated
from railyard.work.training import profiles
from railyard.work.training.designs import estimate
from railyard.work.training.pace import place, scatter, traits_of
from railyard.work.training.spec import OwnRun

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from railyard.ask.calibrate.tables.kind import Source
    from railyard.ask.calibrate.tables.training_rows import Step
    from railyard.catalog import Catalog
    from railyard.model.machine import Machine
    from railyard.model.own_runs import Scatter
    from railyard.work.training.columns import Columns
    from railyard.work.training.spec import Training

    F = NDArray[np.float64]
    Job = tuple[Training, Machine]

# The least share of a step that a pace moves: of steps that are all network, a run says next to nothing.
_LEAST = 0.05
# Bounds of a run's pace, and the rounds in which it is found.
_FASTEST, _SLOWEST, _ROUNDS = 0.2, 5.0, 8
_STEP = 1e-3


@dataclass(frozen=True)
class Paces:
    """What measured steps say.

    Attributes:
        at: Places of the runs, [run, trait].
        off: Logarithm of the pace at which the prediction meets the measurement, [run].
        slope: Share of the step that the pace moves, [run].
    """

    at: F
    off: F
    slope: F


def paces(jobs: Sequence[Job], measured_s: F) -> Paces:
    """The pace at which each prediction meets its measurement, by Newton's method.

    Args:
        jobs: What ran on what.
        measured_s: How long each took, seconds.
    """
    at = np.stack([place(traits_of(training)) for training, _ in jobs])
    start = np.log(predicted(jobs, np.ones(len(jobs))))
    slope = np.maximum((np.log(predicted(jobs, np.full(len(jobs), math.exp(_STEP)))) - start) / _STEP, _LEAST)
    off, wanted = np.zeros(len(jobs)), np.log(measured_s)
    for _ in range(_ROUNDS):
        off = np.clip(off + (wanted - start) / slope, math.log(_FASTEST), math.log(_SLOWEST))
        start = np.log(predicted(jobs, np.exp(off)))
    return Paces(at, off, slope)


def predicted(jobs: Sequence[Job], pace: F) -> F:
    """Step seconds where ranks take so many times as long."""

    def change(columns: Columns) -> Columns:
        return dataclasses.replace(columns, job=dataclasses.replace(columns.job, pace=pace))

    return estimate([training for training, _ in jobs], [machine for _, machine in jobs], change=change).step_s


def own_runs(jobs: Sequence[Job], names: Sequence[str], found: Paces, widths: Scatter) -> tuple[OwnRun, ...]:
    """Steps of one system as records that a profile can know."""
    spread = np.sqrt(noise(found.at, found.off, found.slope, widths))
    return tuple(
        OwnRun(machine.accelerator.name, name, math.exp(pace), width, traits_of(training))
        for (training, machine), name, pace, width in zip(jobs, names, found.off.tolist(), spread.tolist(), strict=True)
    )


def calibrate(source: Source, catalog: Catalog) -> Calibrated:
    """The pace of each system, software on a device, of a table's rows, from these rows alone.

    Raises:
        InputError: The table is wrong.
    """
    systems: dict[tuple[str, str], list[Step]] = {}
    for step in steps_of(source, catalog):
        system = profiles.key_of(step.training.software), step.machine.accelerator.name
        systems.setdefault(system, []).append(step)
    constants: list[Constant] = []
    judged: list[Judged] = []
    runs: dict[str, tuple[OwnRun, ...]] = {}
    for (key, device), those in systems.items():
        jobs, widths = [(step.training, step.machine) for step in those], scatter()
        found = paces(jobs, np.array([step.measured_s for step in those]))
        runs[key] = (*runs.get(key, ()), *own_runs(jobs, [step.name for step in those], found, widths))
        constants.append(_typical(f"{key} on {device}", found, widths))
        judged += _judged(those, jobs, found, widths)
    judged.sort(key=lambda row: row.line)
    use = "`software: {constants: FILE}` in a scenario's training section"
    text = calibrated.written(runs, source.path.name)
    return Calibrated("training", "s", tuple(constants), tuple(judged), text, use)


def _typical(of: str, found: Paces, widths: Scatter) -> Constant:
    """The mean pace of the measured runs, and how sure that of a run like them is, without what is its own."""
    each, variances = expected(found.at, found.off, noise(found.at, found.off, found.slope, widths), found.at, widths)
    value, variance = float(np.mean(each)), float(np.mean(variances))
    low, high = (math.exp(value + sign * math.sqrt(variance)) for sign in (-1, 1))
    settled = 1.0 - variance / (widths.system**2 + widths.alike**2)
    return Constant(of, "pace", 1.0, math.exp(value), low, high, settled)


def _judged(steps: Sequence[Step], jobs: Sequence[Job], found: Paces, widths: Scatter) -> list[Judged]:
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
        Judged(step.line, step.name, step.measured_s, *values) for step, *values in zip(steps, *columns, strict=True)
    ]


def left_open(found: Paces, spread: F, at: F, slope: F, widths: Scatter) -> tuple[F, F]:
    """Logarithm of the pace of other runs, and one standard deviation of the logarithm of their measured step.

    Args:
        found: What known runs say.
        spread: Variance of each.
        at: Places of the others, [other, trait].
        slope: Share of their step that the pace moves, [other].
        widths: How runs scatter.
    """
    pace, variance = expected(found.at, found.off, spread, at, widths)
    return pace, np.sqrt(slope**2 * variance + widths.run**2 * TAIL / (TAIL - 2.0))
