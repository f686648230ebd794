"""What `railyard calibrate runs` is worth: each source cut in two, some steps of one half fitted, the other judged.

python validation/tools/calibrated_halves.py

A source's runs of one software on one device are taken by turns into two halves. Constants that have not seen the
source are calibrated on up to ten steps of one half, evenly taken, and predict the other; then the halves change
places. Writes docs/validation/calibrated.md.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from railyard import catalog
from railyard.calibrate.tables.training_fit import fitted, predicted
from railyard.workload.training import profiles
from railyard_validation.training.cases import read_cases
from railyard_validation.training.fit import scored
from railyard_validation.training.leave_out import PUBLISHED, left_out

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from railyard_validation.training.cases import Case

    F = NDArray[np.float64]

PAGE = Path(__file__).resolve().parents[2] / "docs" / "validation" / "calibrated.md"
STEPS = (3, 10)
# Of fewer runs a half is no half.
LEAST = 4
TEXT = """# Training steps after calibration with a few of the same source

Each source's runs of one software on one device, cut in two by turns: constants that have not seen the source are
calibrated (`railyard calibrate runs`) on up to {most} steps of one half and predict the other, and the other way round.
Written by `validation/tools/calibrated_halves.py`.

| source | software | device | steps judged | without calibration | with 3 steps | with 10 |
|---|---|---|---|---|---|---|
{rows}

Median |error| of all: {medians}. The goal, 3.5 % mean with ten steps, is {verdict}.
"""


def main() -> None:
    known = catalog.load()
    cases = [case for case in read_cases(PUBLISHED, known)[0] if scored(case)]
    cases, _ = left_out(cases, "source", known)
    groups: dict[tuple[str, str, str], list[Case]] = {}
    for case in cases:
        software = profiles.key_of(case.training.software)
        groups.setdefault((case.family, software, case.machine.accelerator.name), []).append(case)
    lines, every = [], [[] for _ in range(1 + len(STEPS))]
    for names, own in groups.items():
        if len(own) >= LEAST:
            columns = [_halves(own, count) for count in (0, *STEPS)]
            for place, column in enumerate(columns):
                every[place] += column.tolist()
            cells = (*names, str(len(own)), *(f"{100 * np.mean(column):.1f} %" for column in columns))
            lines.append("| " + " | ".join(cells) + " |")
    means = (f"{100 * np.mean(errors):.1f} %" for errors in every)
    lines.append("| " + " | ".join(("all", "", "", str(len(every[0])), *means)) + " |")
    medians = ", ".join(f"{100 * np.median(errors):.1f} %" for errors in every)
    verdict = "met" if np.mean(every[-1]) <= 0.035 else "missed"
    PAGE.write_text(
        TEXT.format(most=STEPS[-1], rows="\n".join(lines), medians=medians, verdict=verdict), encoding="utf-8"
    )


def _halves(cases: Sequence[Case], count: int) -> F:
    """|error| of every run, predicted by constants of so many steps of the half that it is not in."""
    found = np.zeros(len(cases))
    for half in (0, 1):
        judged = list(range(half, len(cases), 2))
        others = list(range(1 - half, len(cases), 2))
        spread = sorted({round(place) for place in np.linspace(0, len(others) - 1, min(count, len(others)))})
        values = _values([cases[others[place]] for place in spread]) if count else {}
        seconds = predicted([(cases[place].training, cases[place].machine) for place in judged], values)
        found[judged] = np.abs(seconds / np.array([cases[place].measured for place in judged]) - 1.0)
    return found


def _values(cases: Sequence[Case]) -> dict[str, float]:
    jobs = [(case.training, case.machine) for case in cases]
    return dict(fitted(jobs, np.array([case.measured for case in cases]), apart=False).values)


if __name__ == "__main__":
    main()
