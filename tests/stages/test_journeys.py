"""The record of requests through stages: who waited for whom, what the times are made of, and its files."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import numpy as np
import polars as pl
import pytest

from railyard.engine.stages import CAUSES, Between, StageStep, Takers, Tool, through
from railyard.graph import Record, RequestTable
from railyard.graph.parquet import read_record
from railyard.kit.errors import InputError
from railyard.measure.serving.journeys import spent, spent_until
from railyard.work.pipeline.measuring import shown, write_variant

from .pipelines import ASKED, SMALL, job, search

if TYPE_CHECKING:
    from pathlib import Path

MS = 10**9
ASKED_FEW = {**ASKED, "rate": 7, "count": 23}
COMPUTE, TRANSFER = CAUSES.index("compute"), CAUSES.index("transfer")


def joined(quorum: int | None = None) -> Record:
    """Two requests, at 7 and 11 ms: only the second takes `a` (300 ms, 9 ms away); both `b` (200 ms, 5 ms away)."""
    requests = RequestTable(np.array([7, 11], np.int64) * MS, np.array([50, 200], np.int32), np.array([3, 3], np.int32))
    long = Takers(share=0.0, long_tokens=100)
    steps = {
        "a": StageStep(Tool("a", 0.3, size_bytes=1e6), when=long),
        "b": StageStep(Tool("b", 0.2, size_bytes=5e5)),
        "c": StageStep(Tool("c", 0.05), after=("a", "b"), quorum=quorum),
    }
    return through(steps, requests, between=Between(0.001, 1e9), seed=3)


def test_a_visit_names_the_stage_that_decided_and_the_travel_from_there() -> None:
    record = joined()
    last = record.parts["c"]
    assert record.parts["a"].who.tolist() == [1]
    assert last.column("predecessor").tolist() == [1, 0]
    assert (last.column("travel_ps") // MS).tolist() == [5, 9]
    assert (last.start_ps // MS).tolist() == [7 + 200 + 5, 11 + 300 + 9]
    assert (record.end_ps // MS).tolist() == [7 + 200 + 5 + 50, 11 + 300 + 9 + 50]
    assert record.who.tolist() == [2, 2]
    assert record.column("status").tolist() == [0, 0]


def test_a_quorum_of_one_is_decided_by_the_first() -> None:
    """A request that passes a stage by is through with it at once."""
    record = joined(quorum=1)
    assert record.parts["c"].column("predecessor").tolist() == [-1, 1]
    assert (record.end_ps // MS).tolist() == [7 + 50, 11 + 200 + 5 + 50]


def test_times_are_followed_back_on_the_path_that_decided() -> None:
    expected = np.zeros((2, 3, len(CAUSES)))
    expected[0, 1, COMPUTE], expected[1, 0, COMPUTE] = 0.2, 0.3
    expected[:, 2, TRANSFER] = 0.005, 0.009
    np.testing.assert_allclose(spent_until(joined(), "c"), expected, rtol=1e-12)
    expected[:, 2, COMPUTE] = 0.05
    np.testing.assert_allclose(spent(joined()), expected, rtol=1e-12)


def test_requests_are_asked_of_a_record_that_has_them() -> None:
    record = joined()
    assert record.requests.input_tokens.tolist() == [50, 200]
    with pytest.raises(InputError, match="no request table"):
        _ = record.parts["a"].requests


def test_the_files_give_the_record_back_and_figures_beside_it(tmp_path: Path) -> None:
    """`queue_s` is a figure of the request in one file and a column of the visit in the other."""
    ready = job({"find": search(0.011), "small": {**SMALL, "when": {"share": 0.5}}}, ASKED_FEW)
    record = ready.run(ready.requests)
    seen = shown(ready.section, record)
    write_variant(tmp_path, record, seen.served)
    again = read_record(tmp_path / "requests.parquet")
    assert not again.has("queue_s")
    np.testing.assert_array_equal(spent(again), seen.end_to_end)
    for name in ("first_token_ps", "queue_s", "predecessor"):
        np.testing.assert_array_equal(again.parts["small"].column(name), record.parts["small"].column(name))
    gaps = again.parts["small"].parts["serving"].table("gaps")["count"]
    assert gaps.sum() == (ready.requests.output_tokens[record.parts["small"].who] - 1).sum()
    table = pl.read_parquet(tmp_path / "requests.parquet")
    assert table["small_begin_s"].is_not_nan().sum() == len(record.parts["small"])
    assert table["queue_s"].to_list() == seen.served.queue_s.tolist()


def test_the_trace_has_a_span_for_every_visit(tmp_path: Path) -> None:
    ready = job({"find": search(0.011), "rank": search(0.003, when={"share": 0.4})}, ASKED_FEW)
    record = ready.run(ready.requests)
    write_variant(tmp_path, record, shown(ready.section, record).served)
    events = json.loads((tmp_path / "trace.json").read_text("utf-8"))["traceEvents"]
    assert [one["args"]["name"] for one in events if one["ph"] == "M"] == ["find", "rank"]
    ends = {(one["cat"], one["id"]): one["ts"] for one in events if one["ph"] == "e"}
    rank = record.parts["rank"]
    assert len(ends) == 23 + len(rank)
    assert 0 < len(rank) < 23
    assert ends["rank", int(rank.who[0])] == pytest.approx(rank.end_ps[0] * 1e-6, rel=1e-12)
