"""Constants of training software from a few measured steps, with how sure they are."""

from __future__ import annotations

import dataclasses
import math
from typing import TYPE_CHECKING

import numpy as np

from railyard.calibrate.tables.kind import Calibrated, Constant, Judged
from railyard.calibrate.tables.posterior import Prior, posterior
from railyard.calibrate.tables.training_rows import steps_of
from railyard.workload.training import profiles
from railyard.workload.training.estimate import estimate
from railyard.workload.training.profiles import integral

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from numpy.typing import NDArray

    from railyard.calibrate.tables.kind import Source
    from railyard.calibrate.tables.training_rows import Step
    from railyard.catalog import Catalog
    from railyard.model.machine import Machine
    from railyard.workload.training.spec import Training

    F = NDArray[np.float64]

SPREAD = 0.02
"""What one user's measurements of steps leave: runs that were repeated differ by 1 to 2 %."""
# Constants that say less than this of what was open stay as they are in what is written.
_SETTLED = 0.05


def calibrate(source: Source, catalog: Catalog) -> Calibrated:
    """Constants of each profile of software that a table's rows ran, from these rows alone.

    Raises:
        InputError: The table is wrong.
    """
    steps = steps_of(source, catalog)
    constants: list[Constant] = []
    judged: list[Judged] = []
    for key in dict.fromkeys(profiles.key_of(step.training.software) for step in steps):
        those = [step for step in steps if profiles.key_of(step.training.software) == key]
        found, rows = _of_profile(key, those)
        constants += found
        judged += rows
    judged.sort(key=lambda row: row.line)
    moved = tuple(one for one in constants if one.settled >= _SETTLED)
    use = "`software: {constants: FILE}` in a scenario's training section"
    return Calibrated("training", "s", moved, tuple(judged), written(moved, source), use)


def _of_profile(key: str, steps: Sequence[Step]) -> tuple[list[Constant], list[Judged]]:
    jobs = [(step.training, step.machine) for step in steps]
    measured = np.array([step.measured_s for step in steps])
    found = fitted(jobs, measured)
    after, before = predicted(jobs, found.values), predicted(jobs, {})
    constants = [
        Constant(key, name, start, value, low=value * math.exp(-width), high=value * math.exp(width), settled=settled)
        for (name, value), start, width, settled in zip(
            found.values.items(), found.before, found.width, found.settled, strict=True
        )
    ]
    left_out = measured * np.exp(found.left_out)
    columns = (measured.tolist(), before.tolist(), after.tolist(), left_out.tolist())
    rows = [Judged(step.line, step.name, *values) for step, *values in zip(steps, *columns, strict=True)]
    return constants, rows


@dataclasses.dataclass(frozen=True)
class Fitted:
    """Constants of one profile from steps.

    Attributes:
        values: By field of `SoftwareProfile`.
        before: What the profile ships, in the order of `values`.
        width: One standard deviation of the logarithm of each.
        settled: Share of what was open that the steps settled, of each.
        left_out: log(predicted / measured) of each step, with the constants of all others.
    """

    values: Mapping[str, float]
    before: tuple[float, ...]
    width: tuple[float, ...]
    settled: tuple[float, ...]
    left_out: F


def fitted(jobs: Sequence[tuple[Training, Machine]], measured_s: F, *, apart: bool = True) -> Fitted:
    """The constants that steps of one profile leave most likely.

    Args:
        jobs: What ran on what.
        measured_s: How long each took, seconds.
        apart: Whether each step is also predicted without itself.
    """
    software, ranges = jobs[0][0].software, profiles.ranges()
    names = tuple(name for name in ranges if float(getattr(software, name)) > 0.0)
    before = tuple(float(getattr(software, name)) for name in names)
    width = np.array([ranges[name].spread for name in names])
    at = np.log(before)
    low = np.minimum(np.log([ranges[name].low for name in names]), at)
    high = np.maximum(np.log([ranges[name].high for name in names]), at)

    def misses(logs: F) -> F:
        return np.log(predicted(jobs, dict(zip(names, np.exp(logs).tolist(), strict=True))) / measured_s)

    groups = None if apart else ["all"] * len(jobs)
    found = posterior(misses, Prior(at, width, low, high), SPREAD, groups=groups)
    return Fitted(
        values=dict(zip(names, (float(f"{value:.4g}") for value in np.exp(found.at)), strict=True)),
        before=before,
        width=tuple(found.width.tolist()),
        settled=tuple((1.0 - (found.width / width) ** 2).tolist()),
        left_out=found.left_out,
    )


def predicted(jobs: Sequence[tuple[Training, Machine]], values: Mapping[str, float]) -> F:
    """Step seconds under changed constants."""
    changed = [
        training.replace(software=dataclasses.replace(training.software, **integral(values))) for training, _ in jobs
    ]
    return estimate(changed, [machine for _, machine in jobs]).step_s


def written(constants: Sequence[Constant], source: Source) -> str:
    """The file that `software: {constants: FILE}` takes."""
    lines = [f"# Written by `railyard calibrate runs` from {source.path.name}; +- is one standard deviation."]
    for key in dict.fromkeys(one.of for one in constants):
        lines += ["", f'[training."{key}"]']
        for one in constants:
            if one.of == key:
                spread = 50.0 * (one.high - one.low) / one.value
                lines.append(f"{one.name} = {one.value:.4g}  # was {one.before:.4g}; +- {spread:.0f} %")
    return "\n".join(lines) + "\n"
