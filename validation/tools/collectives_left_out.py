"""Fits the constants that are read off logs, to all operators' logs and to all but each one's.

python validation/tools/collectives_left_out.py [--out FILE.csv]

FILE is what `validation_page.py` reads, validation/data/nccl/left_out.csv: a row for every operator and constant; the
operator `none` is the fit to all logs, whose values, rounded, are those of the product.
"""

from __future__ import annotations

import argparse
from pathlib import Path

from railyard import catalog
from railyard_validation.collectives import left_out as left

DATA = Path(__file__).resolve().parents[1] / "data" / "nccl"


def main() -> None:
    """Fits; prints the errors of each operator as it goes, and writes the table."""
    asked = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    asked.add_argument("--out", type=Path, help="where the fitted constants are written")
    out: Path | None = asked.parse_args().out
    known = left.Logs(DATA, catalog.load())
    fits = [left.FittedWithout("none", known.fit(known.logs))]
    for operator in known.operators:
        fits.append(known.fit_without(operator))
        judged = left.judge(known, fits[-1])
        print(f"{operator}: {left.errors(judged.rows)}, with it {left.errors(judged.before)}", flush=True)
    if out is not None:
        left.write(fits, out)


if __name__ == "__main__":
    main()
