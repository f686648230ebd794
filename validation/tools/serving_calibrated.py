"""What a few runs of one's own are worth: sweeps cut in two, constants of the one half, errors of the other.

python validation/tools/serving_calibrated.py [SWEEPS]

A sweep is what one source published of one engine, model, device and precision in closed loops of one replica. Of one
half (every second row) at most six rows, evenly spread, give constants by what `railyard calibrate runs` does; the
other half is predicted with those, and with the constants that ship. Times per token, by the closed form that
calibration uses.
"""

from __future__ import annotations

import sys
from collections import defaultdict
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from railyard import catalog
from railyard.ask.calibrate.kinds.serving import Loop, fitted
from railyard.work.serving.closed_loop import ServingDemand
from railyard.work.serving.software import ServingSoftwareColumns, profile
from railyard_validation.serving import fit as fitting
from railyard_validation.serving.left_out import cases_of, source_of
from railyard_validation.serving.model import part, table

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from railyard.work.serving.software import ServingSoftware
    from railyard_validation.serving.model import Table

TABLE = Path(__file__).resolve().parents[1] / "data" / "serving" / "measured.csv"
RUNS, FEWEST, SWEEPS = 6, 12, 12


def main(most: int) -> None:
    cases = [
        case
        for case in cases_of(TABLE, catalog.load())
        if case.kind == "closed" and case.decode.workers == 1 and not case.drafts and fitting.told_s(case)
    ]
    whole, sweeps = table(cases), defaultdict(list)
    for number, case in enumerate(cases):
        sweeps[source_of(case), case.engine, case.model.name, case.device.name, case.layout.precision].append(number)
    chosen = sorted((rows for rows in sweeps.values() if len(rows) >= FEWEST), key=len, reverse=True)[:most]
    shipped, mine = [], []
    for rows in chosen:
        one, other = rows[::2], rows[1::2]
        few = [one[step] for step in np.linspace(0, len(one) - 1, min(RUNS, len(one))).round().astype(int)]
        case = cases[rows[0]]
        before = profile(case.engine, case.device)
        found = fitted(loop(whole, few), before)
        columned = ((one.name, one.value, one.settled) for one in found.constants)
        after = {name: value for name, value, settled in columned if settled}
        errors = [misses(loop(whole, other), known) for known in (before, replace(before, **after))]
        shipped.append(errors[0])
        mine.append(errors[1])
        name = "/".join((case.engine, case.model.name, case.device.name, case.layout.precision))
        medians = [100 * np.median(each) for each in errors]
        print(
            f"{name:55s} {len(few)} of {len(rows):3d} rows: shipped {medians[0]:5.1f} %, calibrated {medians[1]:5.1f} %"
        )
    for name, errors in (("shipped", shipped), ("calibrated", mine)):
        each = np.concatenate(errors)
        print(f"{name}: median {100 * np.median(each):.1f} %, 90th percentile {100 * np.quantile(each, 0.9):.1f} %")


def loop(whole: Table, rows: list[int]) -> Loop:
    some = part(whole, np.array(rows))
    told = np.array([[fitting.told_s(case) for case in some.cases], [0.0] * len(rows)])
    demand = ServingDemand(some.users, some.prompt, some.output, some.most, some.drafts, some.drafting, some.middle)
    return Loop(some.behind, demand, told, np.ones_like(told))


def misses(some: Loop, software: ServingSoftware) -> NDArray[np.float64]:
    found = some.seconds(ServingSoftwareColumns([software] * some.measured_s.shape[1]))[0]
    return np.abs(found / some.measured_s[0] - 1.0)


if __name__ == "__main__":
    main(int(sys.argv[1]) if sys.argv[1:] else SWEEPS)
