"""Writes src/railyard/work/training/data/scatter.toml: how runs of one system scatter about left-out predictions.

python validation/tools/fit_scatter.py

Run it after `fit_profiles.py`.
"""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path

from railyard import catalog
from railyard_validation.training.cases import read_cases
from railyard_validation.training.fit import scored
from railyard_validation.training.leave_out import PUBLISHED, left_out
from railyard_validation.training.scatter import fit_scatter, systems

ROOT = Path(__file__).resolve().parents[2]
SHIPPED = ROOT / "src/railyard/work/training/data/scatter.toml"
HEAD = """\
# How published training steps of one system (source, software, device) scatter about predictions that never saw their
# source: standard deviations of natural logarithms of the pace, and the distance over which runs are alike.
# Written by validation/tools/fit_scatter.py; railyard.work.training.pace says what each means.
"""


def main() -> None:
    known = catalog.load()
    cases = [case for case in read_cases(PUBLISHED, known)[0] if scored(case)]
    widths = fit_scatter(systems(left_out(cases, "source", known)[0]))
    lines = [f"{name} = {value:g}" for name, value in asdict(widths).items()]
    SHIPPED.write_text(HEAD + "\n".join(lines) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
