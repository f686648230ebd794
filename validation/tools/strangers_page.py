"""Writes docs/validation/strangers.md: training runs whose source no constant and no profile has seen.

python validation/tools/strangers_page.py
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from railyard import catalog
from railyard.work.training.pace import scatter
from railyard_validation.training.cases import read_cases
from railyard_validation.training.compare import validate_training
from railyard_validation.training.scatter import halves, systems

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from railyard.catalog import Catalog
    from railyard_validation.training.compare import TrainingResult

ROOT = Path(__file__).resolve().parents[2]
TABLE = ROOT / "validation" / "data" / "training" / "strangers.csv"
PAGE = ROOT / "docs" / "validation" / "strangers.md"
TEXT = """# Training runs of strangers

**{headline}**

`validation/data/training/strangers.csv` has runs that were added when the constants stood: none of them is in a fit, no
profile of software was read off their times (AutoModel's states which kernels its source code calls), and what was
expected of each kind was written down before its first prediction (`validation/expectations/training.md`). Predicted
with the constants that ship. Written by `validation/tools/strangers_page.py`; BigScience's rows are all of its last
table before the launch, and the launch.

| source | runs | mean error | median | signed | worst |
|---|---|---|---|---|---|
{sources}

Runs that are more than {far:.0%} off:

| run | measured step, seconds | predicted | error | software | what is open |
|---|---|---|---|---|---|
{rows}

DeepSpeed's ZeRO-3 of 2021 is the one cause that was sought with its rows in view: predicted as any other ZeRO-3 they
came out 36 to 79 % too fast. It gathers each weight as its module begins, ahead by no more than its prefetch bucket,
and copies each rank's part by a launch of its own; nothing was fitted, and the rows are quoted from memory. IBM's 13B
sums gradients in 16 bits, the profile taken in 32.

## With a few of their own runs

Cut in two as in [calibrated](calibrated.md), by widths that have not seen them either; the mean over 20 draws.

| source | runs | without calibration | with 3 steps | with 10 |
|---|---|---|---|---|
{calibrated}

Where the prediction was near already, three runs can make the others worse, for they may be runs that are off for a
reason of their own: BigScience's slow ones with tensor parallelism 8 speak for their neighbours then.

## What is left

What is not explained: BigScience's runs with tensor parallelism 8 and micro-batch 2 (its own tables have them 8 to 15 %
slower than micro-batch 4, the model 1 %) and with 104 heads; of MT-NLG, 0.02 s of each micro-batch's 0.20 and 6 s of
each step; AutoModel's runs of 70B, whose batch columns do not multiply out, and which take 1.8 times as long as its
others would say.
"""


FEWEST, STEPS, DRAWS, FAR = 4, (0, 3, 10), 20, 0.1


def main() -> None:
    entries = catalog.load()
    report = validate_training(TABLE, entries)
    done = [row for row in report.rows if row.error is not None]
    families: dict[str, list[TrainingResult]] = {}
    for row in done:
        families.setdefault(row.source, []).append(row)
    known = [abs(row.error or 0.0) for row in done if row.tier == "A"]
    headline = (
        f"{percent(np.mean(known))} mean error, {percent(np.median(known))} median, of {len(known)} runs with all"
        f" facts; {percent(np.mean([abs(row.error or 0.0) for row in done]))} of all {len(done)}."
    )
    text = TEXT.format(
        headline=headline,
        sources="\n".join(_source(name, rows) for name, rows in families.items()),
        far=FAR,
        rows="\n".join(_row(row) for row in done if abs(row.error or 0.0) > FAR),
        calibrated="\n".join(_calibrated(entries)),
    )
    PAGE.write_text(text, encoding="utf-8")


def _source(name: str, rows: Sequence[TrainingResult]) -> str:
    signed = np.array([row.error for row in rows], np.float64)
    size = np.abs(signed)
    figures = (percent(size.mean()), percent(np.median(size)), f"{100 * signed.mean():+.1f} %", percent(size.max()))
    return line(name, str(len(rows)), *figures)


def _calibrated(entries: Catalog) -> Iterator[str]:
    for system in systems(read_cases(TABLE, entries)[0]):
        if len(system.cases) >= FEWEST:
            errors = (halves(system, scatter(), count, DRAWS).errors for count in STEPS)
            yield line(system.source, str(len(system.cases)), *(percent(np.mean(each)) for each in errors))


def _row(row: TrainingResult) -> str:
    opened = "; ".join(row.defaults)
    error = f"{100 * (row.error or 0.0):+.1f} %"
    name = row.id if row.tier == "A" else f"{row.id} (tier {row.tier})"
    return line(name, f"{row.measured:.4g}", f"{row.predicted:.4g}", error, row.profile, opened)


def percent(share: float | np.floating) -> str:
    return f"{100 * float(share):.1f} %"


def line(*cells: str) -> str:
    return "| " + " | ".join(cells) + " |"


if __name__ == "__main__":
    main()
