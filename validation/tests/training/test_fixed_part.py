"""The fixed part of a step and its tail, on the published runs."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from railyard import catalog
from railyard_validation.training.compare import validate_training

TABLE = Path(__file__).parents[2] / "data" / "training" / "runs.csv"


@pytest.fixture(scope="module")
def report():
    return validate_training(TABLE, catalog.load())


def test_the_fixed_part_is_right_by_itself(report) -> None:
    """253 ms of 930 ms for GPT-3 on 10,752 H100, 642 ms of 5.18 s for Llama 405B on 8,192: within 15 %."""
    found = {part.few: part for part in report.fixed}
    for few, ranks, fixed_s in (("T0630", 10_752, 0.253), ("T0661", 8192, 0.642)):
        part = found[few]
        assert part.ranks == ranks
        assert part.fixed_s == pytest.approx(fixed_s, rel=0.01)
        assert part.predicted_fixed_s == pytest.approx(fixed_s, rel=0.15)
        assert part.predicted_micro_batch_s == pytest.approx(part.micro_batch_s, rel=0.04)


def test_tails_are_within_three_hundredths_but_for_named_rows(report) -> None:
    off = {row.id for row in report.rows if row.tail and not row.tail.averaged and abs(row.tail.error) > 0.03}
    assert off <= {"T0655", "T0664"}  # the RoCE case, and 405B on 2,560 beside steady runs of 2,048 and 8,192
    assert report.tails()["n"] >= 38


def test_both_are_in_the_json(report) -> None:
    content = json.loads(report.to_json())
    assert {"many", "few", "fixed_s", "predicted_fixed_s", "error"} <= set(content["fixed_part"][0])
    (row,) = [row for row in content["rows"] if row["id"] == "T0630"]
    assert row["tail"]["p95_measured"] == pytest.approx(0.946 / 0.9296, rel=1e-4)
    assert content["tails"]["target"] == 0.03
    assert [row["tail"] for row in content["rows"] if row["id"] == "T0001"] == [None]
