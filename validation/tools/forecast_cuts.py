#!/usr/bin/env python3
"""Forecasts of one fleet's faults, made on many days, against what came.

Usage: validation/tools/forecast_cuts.py [--write]

`--write` puts the table into docs/validation/forecast.md. A few seconds.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import numpy as np

from railyard.work.operate.failures.history import WEEK, History, forecast, quantile, read, survival

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs/validation/forecast.md"
DATA = ROOT / "tests/work/operate/data/infinitehbd_first_half.csv"
SERVERS, DAYS = 400, 174
CUTS = range(28, 160, 10)
MARK = "<!-- table: validation/tools/forecast_cuts.py -->"
HEADING = (
    "day",
    "faults a week",
    "came",
    "p50 said",
    "of those",
    "came",
    "p90 said",
    "of those",
    "came",
    "out said: mean, p95",
    "came",
)


def lengths_h(history: History, some: np.ndarray) -> tuple[float, float]:
    """Median and 90th percentile of some of the repairs, in hours, in the light of all days."""
    part = History(history.start[some], history.end[some], history.back[some], history.servers, history.days)
    times, share = survival(part, np.ones(int(some.sum())))
    return 24 * quantile(times, share, 0.5), 24 * quantile(times, share, 0.9)


def row(history: History, cut: float) -> tuple[list[str], bool]:
    """What was said on a day and what came; whether the rate came into its band."""
    said, known = forecast(history.until(cut)), history.start < cut
    came = float(np.count_nonzero(~known)) / (history.days - cut) * WEEK
    then, later = lengths_h(history, known), lengths_h(history, ~known)
    out = history.out(np.arange(cut, history.days, 1 / 24))
    inside = said.low <= came <= said.high
    band = f"{said.mean:.1f} ({said.low:.1f} to {said.high:.1f})"
    return [
        str(cut),
        band if inside else f"**{band}**",
        f"{came:.1f}",
        *(f"{one:.0f}" for one in (said.repair_p50_h, then[0], later[0], said.repair_p90_h, then[1], later[1])),
        f"{said.out_mean:.1f}, {said.out_p95:.0f}",
        f"{out.mean():.1f}, {np.percentile(out, 95):.0f}",
    ], inside


def main() -> None:
    """Prints the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--write", action="store_true")
    options = parser.parse_args()
    history = read(DATA, SERVERS, DAYS)
    found = [row(history, cut) for cut in CUTS]
    lines = [HEADING, ["---"] * len(HEADING), *(cells for cells, _ in found)]
    inside = sum(one for _, one in found)
    table = "\n".join("| " + " | ".join(line) + " |" for line in lines)
    table += f"\n\nRates inside their bands: {inside} of {len(found)}."
    print(table)
    if options.write:
        head, _, tail = PAGE.read_text(encoding="utf-8").partition(MARK)
        rest = tail.partition("<!-- end -->")[2]
        PAGE.write_text(f"{head}{MARK}\n\n{table}\n\n<!-- end -->{rest}", encoding="utf-8")


if __name__ == "__main__":
    main()
