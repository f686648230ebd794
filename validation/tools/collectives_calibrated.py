"""What `railyard calibrate runs` is worth for collectives: half of each log's sizes calibrated, the other half judged.

python validation/tools/collectives_calibrated.py

The constants begin as they were fitted without the log's operator (validation/data/nccl/left_out.csv). Sizes go into
the halves by turns; then the halves change places. Prints mean and median |error| by class of size, before and after.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np

from railyard import catalog
from railyard.ask.calibrate.kinds.collectives import Predicted
from railyard.ask.calibrate.nccl.rows import MIB, operator_of
from railyard_validation.collectives import left_out as left

DATA = Path(__file__).resolve().parents[2] / "validation" / "data" / "nccl"
LEAST = 6
"""Sizes of a log; of fewer a half says nothing."""


def main() -> None:
    """Prints a line a log, and all together."""
    known = catalog.load()
    logs = left.Logs(DATA, known)
    starts = {fit.without: fit.x for fit in left.read(DATA / "left_out.csv")}
    every: list[tuple[bool, float, float]] = []
    for log in logs.logs:
        own = Predicted(log, known)
        if len(own.rows) < LEAST or not own.felt:
            continue
        found = _halves(own, starts[operator_of(log)])
        every += found
        print(f"{log.file}: {_words(found)}", flush=True)
    print(f"all: {_words(every)}")


def _halves(own: Predicted, start: left.F) -> list[tuple[bool, float, float]]:
    """Whether each row is from 1 MiB, and its |error| before and after, calibrated on the half that it is not in."""
    found = []
    before = np.abs(own.times_us(start) / own.measured_us - 1.0)
    for half in (0, 1):
        x, _ = own.fit(start, range(1 - half, len(own.rows), 2), leave_out=False)
        after = np.abs(own.times_us(x) / own.measured_us - 1.0)
        found += [
            (own.rows[row].bytes >= MIB, float(before[row]), float(after[row])) for row in range(half, len(own.rows), 2)
        ]
    return found


def _words(rows: list[tuple[bool, float, float]]) -> str:
    parts = []
    for large, name in ((False, "below 1 MiB"), (True, "from 1 MiB")):
        pairs = np.array([row[1:] for row in rows if row[0] is large])
        if len(pairs):
            mean, middle = pairs.mean(axis=0), np.median(pairs, axis=0)
            ends = f"mean {mean[0]:.1%} -> {mean[1]:.1%}, median {middle[0]:.1%} -> {middle[1]:.1%}"
            parts.append(f"{name} ({len(pairs)}) {ends}")
    return "; ".join(parts)


if __name__ == "__main__":
    main()
