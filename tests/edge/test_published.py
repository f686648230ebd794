"""Published figures of training over the world's links: INTELLECT-1, DiLoCo's scaling laws, Streaming DiLoCo."""

from __future__ import annotations

import csv
from pathlib import Path

import numpy as np
import pytest

from railyard.work.local.method import BACKWARD, Synchronous
from railyard.work.training.sync.local import DiLoCo, StreamingDiLoCo, utilization

DATA = Path(__file__).parents[2] / "validation" / "data" / "edge"
GRID = np.logspace(-1, 3, 50)
"""Gbit/s that the papers tried: what they publish is the least of these, a step is 20.7 %."""


def rows(name):
    with (DATA / name).open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


@pytest.mark.parametrize("row", rows("intellect1.csv"), ids=lambda row: row["where"])
def test_intellect_1(row):
    # Ten billion parameters over up to three continents (arXiv 2412.01152, table 2): from the published all-reduce.
    used = utilization(DiLoCo(100, 0, 8, 0.0), float(row["all_reduce_s"]), float(row["inner_min"]) * 60.0 / 100.0)
    assert 100 * used == pytest.approx(float(row["compute_utilization"]), abs=0.15)
    assert 43.3 * used == pytest.approx(float(row["mfu"]), rel=0.01)


def method(row):
    steps, parts = int(row["inner_steps"]), max(int(row["layers"]) // 3, 1)
    kinds = {
        "data-parallel": Synchronous(),
        "diloco": DiLoCo(steps, 0, 16, BACKWARD),
        "streaming": StreamingDiLoCo(steps, 0, parts, BACKWARD, 16),
        "streaming overlapped": StreamingDiLoCo(steps, 0, parts, 1.0 + BACKWARD, 16),
        "streaming overlapped 4 bits": StreamingDiLoCo(steps, 0, parts, 1.0 + BACKWARD, 4),
    }
    return kinds[row["method"]]


def test_rates_that_diloco_needs():
    # Table 4 of arXiv 2501.18512 and table 6 of 2503.09799: three rates in four within one step of the papers' grid.
    apart = []
    for row in rows("streaming_diloco.csv"):
        updates, step_s = method(row), float(row["step_s"])
        bits = float(row["parameters"]) * updates.bits
        for goal in (50, 80, 90, 95, 99):
            ours = next(rate for rate in GRID if utilization(updates, bits / (rate * 1e9), step_s) >= goal / 100)
            apart.append(round(float(np.log(ours / float(row[f"cu{goal}"])) / np.log(GRID[1] / GRID[0]))))
    distance = np.abs(apart)
    assert len(apart) == 145
    assert [(distance == 0).sum(), (distance <= 1).sum(), distance.max()] == [19, 106, 4]
