"""Writes validation/data/serving/left_out.csv: errors of TPOT with each row's model, or device, left out of the fit.

python validation/tools/serving_left_out.py

The fits start from the priors and take some minutes on a sample of the table. `validation/tools/validation_page.py`
calls this by itself when the table or the constants have changed since.
"""

from __future__ import annotations

import csv
import hashlib
from pathlib import Path

import numpy as np

from railyard import catalog
from railyard.workload.serving.software import CONSTANTS
from railyard_validation.serving import fit as fitting
from railyard_validation.serving.cases import Case, case_of
from railyard_validation.serving.model import table
from railyard_validation.serving.table import read, same_measurement

ROOT = Path(__file__).resolve().parents[2]
DATA = ROOT / "validation" / "data" / "serving"
TABLE, FOUND = DATA / "measured.csv", DATA / "left_out.csv"
CONSTANTS_OF = ROOT / "src" / "railyard" / "workload" / "serving" / "data"
# Every so many rows stand in the fits: a quarter of them tells the constants nearly as well as all.
EVERY = 4
PARTS = {"model": lambda case: case.model.name, "device": lambda case: case.device.name}


def digest() -> str:
    """Of all that the errors follow from but the code."""
    text = hashlib.sha256(str(EVERY).encode())
    for path in (TABLE, CONSTANTS_OF / "fitted.json", CONSTANTS_OF / "constants.toml"):
        text.update(path.read_bytes())
    return text.hexdigest()[:16]


def is_fresh() -> bool:
    """Whether the errors on record belong to the table and the constants as they are."""
    return FOUND.is_file() and FOUND.read_text(encoding="utf-8").split("\n", 1)[0] == f"# {digest()}"


def recorded() -> dict[str, list[float]]:
    """|error| of every row of the sample, by what was left out."""
    with FOUND.open(encoding="utf-8", newline="") as handle:
        next(handle)
        rows = list(csv.DictReader(handle))
    return {name: [abs(float(row[name])) for row in rows] for name in PARTS}


def main() -> None:
    mark, known = digest(), catalog.load()
    rows = read(TABLE)
    stands = same_measurement(rows)
    found = [case_of(row, known) for row in rows if stands[row.line] == row.line]
    cases = [case for case in found if isinstance(case, Case) and fitting.told_s(case)][::EVERY]
    whole = table(cases)
    free = tuple(name for name in CONSTANTS if name not in fitting.FIRST_TOKEN)
    errors = {name: np.expm1(fitting.left_out(whole, by, fitting.tpot_misses, free)) for name, by in PARTS.items()}
    with FOUND.open("w", encoding="utf-8", newline="") as handle:
        handle.write(f"# {mark}\n")
        writer = csv.writer(handle, lineterminator="\n")
        writer.writerow(["id", *PARTS])
        for number, case in enumerate(cases):
            writer.writerow([case.row.id, *(f"{errors[name][number]:.3f}" for name in PARTS)])


if __name__ == "__main__":
    main()
