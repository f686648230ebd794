"""Writes docs/validation/ablation.md: what each detail of the training model is worth. A few minutes.

python validation/tools/ablation.py
"""

from __future__ import annotations

import datetime
from pathlib import Path
from typing import TYPE_CHECKING

from railyard import catalog
from railyard_validation.training.ablation import ablation
from railyard_validation.training.cases import read_cases

if TYPE_CHECKING:
    from railyard_validation.training.ablation import Worth

ROOT = Path(__file__).resolve().parents[2]
TRAINING = ROOT / "validation" / "data" / "training"
# Of the sweep on one node every tenth run is counted, so that it does not outweigh all else.
EVERY = 10
HEAD = """# Ablation

Written by `python validation/tools/ablation.py`, {date}. Each detail of the training model is switched off by
itself, and the mean |error| of the same {rows} steps (the judged ones, and every tenth of vTrain's on one node) is
counted again: with the constants as they are, and with constants fitted anew without the detail, since a constant
may take over what the detail explained. The families are those whose error the detail moves most, with constants
fitted anew. A detail that moves nothing here is kept where it is a fact that users change (a gap between kernels, a
fixed part).

| switched off | in its place | constants kept | fitted anew | moves most |
|---|---|---|---|---|
"""


def main() -> None:
    known = catalog.load()
    cases = read_cases(TRAINING / "runs.csv", known)[0]
    cases += read_cases(TRAINING / "runs_single_node.csv", known)[0][::EVERY]
    found = ablation(cases)
    whole = found[0]
    today = datetime.datetime.now(tz=datetime.UTC).date()
    rows = sum(case.row.get("tier", "A") == "A" or "Megatron-Bridge" in case.family for case in cases)
    text = HEAD.format(date=today, rows=rows) + "".join(_line(worth, whole) for worth in found)
    (ROOT / "docs" / "validation" / "ablation.md").write_text(text, encoding="utf-8")


def _line(worth: Worth, whole: Worth) -> str:
    name, without = (worth.detail.name, worth.detail.without) if worth.detail else ("nothing", "")
    moved = {family: worth.refitted[family] - whole.refitted[family] for family in whole.refitted if family != "all"}
    most = sorted(moved, key=lambda family: -abs(moved[family]))[:2]
    said = "; ".join(
        f"{family} {100 * whole.refitted[family]:.1f} to {100 * worth.refitted[family]:.1f} %"
        for family in most
        if abs(moved[family]) > 5e-4
    )
    return f"| {name} | {without} | {100 * worth.kept['all']:.1f} % | {100 * worth.refitted['all']:.1f} % | {said} |\n"


if __name__ == "__main__":
    main()
