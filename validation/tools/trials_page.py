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
for was fixed. `railyard validate trials --only NAME` runs one.

**{right} of {all} variants on record come out as they should.** All {variants} of:

{good}

The others, or those whose first run after the fix missed some:

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
    good: dict[str, list[str]] = {}
    lines = []
    for name, trial in trials.items():
        row = known.get(name, {})
        first, now, correction = row.get("first", ""), row.get("now", ""), row.get("correction", "")
        if now == str(VARIANTS) and first in ("", now) and not correction:
            topic, _, rest = name.partition("-")
            good.setdefault(topic, []).append(f"`{rest or name}` ({trial.expected.rstrip('.')})")
        else:
            lines.append("| " + " | ".join((name, trial.expected, _of(first), _of(now), correction)) + " |")
    now = [int(row["now"]) for row in known.values() if row["now"]]
    listed = "\n".join(f"- {topic}: {'; '.join(items)}." for topic, items in good.items())
    return TEXT.format(variants=VARIANTS, right=sum(now), all=VARIANTS * len(now), good=listed, rows="\n".join(lines))


def _of(right: str) -> str:
    return f"{right} of {VARIANTS}" if right else ""


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
