"""Writes validation/data/serving/left_out.csv: errors with each row's source, model, or device left out of the fit.

python validation/tools/serving_left_out.py

`validation/tools/validation_page.py` calls this by itself when the table or the constants have changed since.
"""

from __future__ import annotations

import csv
import hashlib
from pathlib import Path

from railyard import catalog
from railyard_validation.serving.left_out import EVERY, METRICS, PARTS, errors

ROOT = Path(__file__).resolve().parents[2]
DATA = ROOT / "validation" / "data" / "serving"
TABLE, FOUND = DATA / "measured.csv", DATA / "left_out.csv"
CONSTANTS_OF = ROOT / "src/railyard/work/serving/data"


def digest() -> str:
    """Of all that the errors follow from but the code."""
    text = hashlib.sha256(str(EVERY).encode())
    for path in (TABLE, CONSTANTS_OF / "fitted.json", CONSTANTS_OF / "constants.toml"):
        text.update(path.read_bytes())
    return text.hexdigest()[:16]


def is_fresh() -> bool:
    """Whether the errors on record belong to the table and the constants as they are."""
    return FOUND.is_file() and FOUND.read_text(encoding="utf-8").split("\n", 1)[0] == f"# {digest()}"


def recorded() -> dict[str, dict[str, dict[str, float]]]:
    """Signed error of every row of the sample, by metric, what was left out, and row."""
    with FOUND.open(encoding="utf-8", newline="") as handle:
        next(handle)
        rows = list(csv.DictReader(handle))
    found: dict[str, dict[str, dict[str, float]]] = {metric: {name: {} for name in PARTS} for metric in METRICS}
    for row in rows:
        for name in PARTS:
            if row[name]:
                found[row["metric"]][name][row["id"]] = float(row[name])
    return found


def main() -> None:
    mark = digest()
    found = errors(TABLE, catalog.load())
    with FOUND.open("w", encoding="utf-8", newline="") as handle:
        handle.write(f"# {mark}\n")
        writer = csv.writer(handle, lineterminator="\n")
        writer.writerow(["metric", "id", *PARTS])
        for metric in METRICS:
            ids = dict.fromkeys(row for name in PARTS for row in found[name][metric])
            for row in ids:
                cells = (found[name][metric].get(row) for name in PARTS)
                writer.writerow([metric, row, *("" if cell is None else f"{cell:.3f}" for cell in cells)])


if __name__ == "__main__":
    main()
