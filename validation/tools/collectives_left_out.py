"""Fits the constants that are read off logs, to all operators' logs and to all but each one's.

python validation/tools/collectives_left_out.py [--write] [--judge]

`--write` writes what `validation_page.py` reads, validation/data/nccl/left_out.csv: a row for every operator and
constant; the operator `none` is the fit to all logs, whose values, rounded, are those of the product. `--judge` fits
nothing, but takes those. Either writes the bands of model error, src/railyard/collective/model_error.csv.
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING

from railyard import catalog
from railyard_validation.collectives import left_out as left

if TYPE_CHECKING:
    from collections.abc import Iterator

ROOT = Path(__file__).resolve().parents[2]
DATA = ROOT / "validation" / "data" / "nccl"
FITS, BANDS = DATA / "left_out.csv", ROOT / "src" / "railyard" / "collective" / "model_error.csv"


def main() -> None:
    """Fits; prints the errors of each operator as it goes, and writes the tables."""
    asked = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    asked.add_argument("--write", action="store_true", help="write the fitted constants")
    asked.add_argument("--judge", action="store_true", help="take the constants that are written")
    options = asked.parse_args()
    known = left.Logs(DATA, catalog.load())
    fits, judged = [], []
    for fit in left.read(FITS) if options.judge else _fits(known):
        fits.append(fit)
        if fit.operator in known.operators:
            judged.append(left.judge(known, fit))
            found = judged[-1]
            print(f"{fit.operator}: {left.errors(found.rows)}; with it {left.errors(found.before)}", flush=True)
    print(f"all: {left.errors([row for one in judged for row in one.rows])}")
    if options.write:
        left.write(fits, FITS)
    if options.write or options.judge:
        left.write_bands(left.bands(judged), BANDS)


def _fits(known: left.Logs) -> Iterator[left.FittedWithout]:
    yield left.FittedWithout("none", known.fit(known.logs))
    for operator in known.operators:
        yield known.fit_without(operator)


if __name__ == "__main__":
    main()
