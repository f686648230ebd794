"""Writes docs/validation/trials.md: what came out of the trials, at their first run and now.

python validation/tools/trials_page.py
"""

from __future__ import annotations

import csv
from pathlib import Path

from railyard_validation.trials.trial import trials

ROOT = Path(__file__).resolve().parents[2]
TABLE = ROOT / "validation" / "data" / "trials.csv"
PAGE = ROOT / "docs" / "validation" / "trials.md"
VARIANTS = 4
TEXT = """# Trials

Questions that Railyard once answered wrongly, asked again in variants that nobody chose: other sizes, fabrics, models,
places. Each trial draws {variants} variants from seed 25, runs the commands that a user would run, and judges the
answers by what must come out: closed forms, hand calculation, contracts. Trials were committed before what they look
for was mended. `railyard validate trials --only NAME` runs one.

*First run* is the first one after the mending; where it is empty, its result was not kept. Where *last run* is empty
too, no result is on record.

**{right} of {all} variants on record come out as they should.**

| trial | what must come out | first run | last run | what was corrected, or is left |
|---|---|---|---|---|
{rows}

Written by `validation/tools/trials_page.py` from `validation/data/trials.csv`.
"""


def records() -> dict[str, dict[str, str]]:
    """The rows of the table by the name of their trial."""
    with TABLE.open(encoding="utf-8", newline="") as handle:
        return {row["trial"]: row for row in csv.DictReader(handle)}


def page() -> str:
    """All of it."""
    known = records()
    lines = []
    for name, trial in trials.items():
        row = known.get(name, {})
        cells = (name, trial.expected, _of(row.get("first", "")), _of(row.get("now", "")), row.get("correction", ""))
        lines.append("| " + " | ".join(cells) + " |")
    now = [int(row["now"]) for row in known.values() if row["now"]]
    return TEXT.format(variants=VARIANTS, right=sum(now), all=VARIANTS * len(now), rows="\n".join(lines))


def _of(right: str) -> str:
    return f"{right} of {VARIANTS}" if right else ""


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
