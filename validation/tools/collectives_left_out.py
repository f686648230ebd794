"""Fits the constants that are read off logs: to all, to all but each operator's, and to those before each half year.

python validation/tools/collectives_left_out.py [--write] [--judge]

`--write` writes what `validation_page.py` reads, validation/data/nccl/left_out.csv: a row for every fit and constant;
`none` is the fit to all logs, whose values, rounded, are those of the product. `--judge` fits nothing, but takes those.
Either writes the bands of model error, src/railyard/collective/model_error.csv, from the forecasts of half years.
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
FITS, BANDS = DATA / "left_out.csv", ROOT / "src/railyard/collective/model_error.csv"


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
        if fit.without != "none":
            judged.append(left.judge(known, fit))
            found = judged[-1]
            print(f"{fit.without}: {left.errors(found.rows)}; with it {left.errors(found.before)}", flush=True)
    later = [one for one in judged if one.without in known.cuts]
    others = [one for one in judged if one not in later]
    for name, some in (("operators", others), ("half years", later)):
        print(f"all {name}: {left.errors([row for one in some for row in one.rows])}")
    if options.write:
        left.write(fits, FITS)
    if options.write or options.judge:
        left.write_bands(left.bands(later), BANDS)


def _fits(known: left.Logs) -> Iterator[left.FittedWithout]:
    yield left.FittedWithout("none", known.fit(known.logs))
    for without in (*known.operators, *known.cuts):
        yield known.fit_without(without)


if __name__ == "__main__":
    main()
