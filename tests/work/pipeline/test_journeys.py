"""The record of requests through stages: who waited for whom, what the times are made of, and its files."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import numpy as np
import polars as pl
import pytest

from railyard import catalog
from railyard.engine.stage import CAUSES, RequestRule, Tool
from railyard.engine.stage_chain import StageStep, StageTransfer, through
from railyard.graph import Record, RequestTable
from railyard.graph.parquet import read_record
from railyard.kit.errors import InputError
from railyard.measure.serving.latencies import spent, spent_until
from railyard.work.pipeline.measuring import shown, write_variant
from railyard.work.scenario import load
from railyard.work.serving.measuring import latencies
from railyard.work.serving.measuring import measure as measure_serving
from railyard.work.serving.reuse import Index, search_s
from railyard.work.study.study import prepare

from .pipelines import ASKED, LARGE, SMALL, job, measured, scenario, search

if TYPE_CHECKING:
    from pathlib import Path

MS = 10**9
ASKED_FEW = {**ASKED, "rate": 7, "count": 23}
COMPUTE, TRANSFER = CAUSES.index("compute"), CAUSES.index("transfer")


def joined(quorum: int | None = None) -> Record:
    """Two requests, at 7 and 11 ms: only the second takes `a` (300 ms, 9 ms away); both `b` (200 ms, 5 ms away)."""
    requests = RequestTable(np.array([7, 11], np.int64) * MS, np.array([50, 200], np.int32), np.array([3, 3], np.int32))
    long = RequestRule(share=0.0, long_tokens=100)
    steps = {
        "a": StageStep(Tool("a", 0.3, size_bytes=1e6), when=long),
        "b": StageStep(Tool("b", 0.2, size_bytes=5e5)),
        "c": StageStep(Tool("c", 0.05), after=("a", "b"), quorum=quorum),
    }
    return through(steps, requests, between=StageTransfer(0.001, 1e9), seed=3)


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


# What the result says of a pipeline's models agrees with what the same models say alone.

TALKS: dict[str, Any] = {"rate": 6, "turns": 4.0, "input": 900, "output": 400, "count": 300}
TIGHT: dict[str, Any] = {"host": "20 GB"}


def alone(stage: dict[str, Any], asked: dict[str, Any]) -> dict[str, Any]:
    """The model's `kv` as a serving workload without stages."""
    model = {key: value for key, value in stage.items() if key not in {"kind", "server"}}
    values = {
        "cluster": {"accelerators": 8, "server": stage["server"]},
        "workload": {"serving": {**model, "requests": {"synthetic": asked}}},
    }
    ready = prepare(load.from_values(values))[0]
    run = ready.run(ready.requests)
    served = latencies(ready, ready.requests, run)
    found: dict[str, Any] = measure_serving(ready, run, (served, served)).variant.serving.kv.plain()
    return found


def test_caches_of_a_model_are_those_of_the_serving_workload() -> None:
    """Hits, loads from host memory, and preemptions, with a cache too small for the requests."""
    server = {"kind": "model", "model": "llama-3-8b", "server": "l40s-8", "cache": TIGHT}
    stage = {**server, "pools": {"both": {"replicas": 1}}}
    asked = {**TALKS, "rate": 12}
    known, found = alone(stage, asked), measured({"a": stage}, asked)["serving"]["kv"]
    assert known["preemptions"] > 0
    assert known["loaded_rate"] > 0
    for name in ("hit_rate", "loaded_rate", "preemptions", "peak_share"):
        assert found[name] == pytest.approx(known[name], rel=1e-9), name


def test_what_a_cascade_finds_in_its_caches_is_said() -> None:
    """Its first answers do not stream, for another model may replace them; their hits count all the same."""
    large = {**LARGE, "when": {"share": 0.0}, "after": ["small"]}
    # Conversations that began before the first request find a cold cache: the run is long enough for the others.
    talks = {**TALKS, "count": 1500}
    assert measured({"small": SMALL, "large": large}, talks)["serving"]["kv"]["hit_rate"] > 0.3


@pytest.mark.parametrize(("prefill", "decode"), [("l40s-8", "hgx-h100"), ("hgx-h100", "l40s-8")])
def test_pools_of_two_kinds_have_servers_of_their_own(prefill: str, decode: str) -> None:
    """Whichever of them the stage names."""
    pools = {"prefill": {"replicas": 1, "server": prefill}, "decode": {"replicas": 1, "server": decode}}
    for server in (prefill, decode):
        stage = {"kind": "model", "model": "llama-3-8b", "server": server, "pools": pools}
        found = measured({"a": stage}, {"rate": 2, "input": 300, "output": 20, "count": 20})
        assert [row["accelerator"] for row in found["serving"]["pools"]] == [
            "h100-sxm" if name == "hgx-h100" else "l40s" for name in (prefill, decode)
        ]


def test_a_reranker_is_busy_for_its_batches() -> None:
    """37 requests that never meet, each one batch of 20 x 300 tokens: all of a request but its 3 ms of tokenizing."""
    stage = {"kind": "rerank", "model": "bge-m3", "server": "l40s-8", "tokens": 300, "items": 20, "overhead": "3 ms"}
    serving = measured({"rank": stage}, {"rate": 2, "input": 300, "output": 1, "count": 37})["serving"]
    assert serving["queue_s"]["p99"] == 0
    busy = 37 * (serving["e2e_s"]["mean"] - 0.003) / serving["throughput"]["span_s"]
    assert serving["replicas"] == [
        {
            "busy": pytest.approx(busy, rel=1e-9), "iterations": 37, "input_tokens": 37 * 20 * 300, "output_tokens": 0,
            "cached_tokens": 0, "kv_peak_share": 0.0, "pool": "rank",
        }
    ]  # fmt: skip
    assert serving["pools"][0]["prompt"] == pytest.approx(busy, rel=1e-9)


# What cannot be run is refused before anything runs, with its place in the file.

_FILE = """\
name: p
cluster: {accelerators: 8, server: hgx-h100}
workload:
  pipeline:
    requests: {synthetic: {rate: 1, input: 100, output: 10}}
    stages:
      answer:
        kind: model
        model: llama-3-70b
        pools:
          both: {replicas: 1, tp: 1}
"""


@pytest.mark.parametrize(
    ("stages", "words"),
    [
        ({"a": {**search(0.1), "after": ["b"]}}, "`a` names `b`, which is not a stage before it"),
        ({"a": {**search(0.1), "quorum": 2}}, "cannot be a quorum of 2"),
        ({"a": {**search(0.1), "vectors": "10 G"}}, "the index takes"),
        ({"a": {**search(0.1), "server": "l40s-8", "vectors": 1000, "index": "hnsw"}}, "is walked by the cores"),
        ({"a": {**LARGE, "pools": {"both": {}}}}, "how many replicas"),
        ({"a": {**LARGE, "pools": {"both": {"replicas": 65}}}}, "ports of the network"),
        ({"a": {**LARGE, "pools": {"both": {"replicas": 1, "network": {}}}}}, "the network of the pipeline"),
        ({"a": {"kind": "tool", "delay": "1 s", "p99": "20 s"}}, "no log-normal law"),
        (
            {"embed": {"kind": "emed", "model": "bge-m3", "server": "l40s-8"}},
            "no kind of stage `emed`",
        ),
        ({"a": {"kind": "embed", "model": "bge-m4", "server": "l40s-8"}}, "bge-m3"),
        ({"a": {"kind": "embed", "model": "bge-m3", "server": "l40s"}}, "l40s"),
        ({"a": {"kind": "embed", "model": "bge-m3", "server": "l40s-8", "tokens": 20_000}}, "must fit into the model"),
    ],
)
def test_faults_are_named(stages: dict[str, Any], words: str) -> None:
    with pytest.raises(InputError, match=words):
        prepare(load.from_values(scenario(stages)))


def test_an_overload_is_said_with_its_stage() -> None:
    asked = {"rate": 60, "input": 100, "output": 1, "count": 30_000}
    found = measured({"fast": search(0.001), "slow": search(0.1)}, asked)
    assert found["serving"]["outcome"] == "overload"
    assert any("stage `slow`" in warning for warning in found["warnings"])
    assert found["serving"]["requests"]["unfinished"] > 0


def test_queries_of_a_batch_share_lists() -> None:
    device = catalog.load().accelerator("epyc-9755")
    index = Index("ivf", 10**8, 1024, 96, probed=0.01)
    one, many = search_s(index, device, np.array([1, 10_000]))
    scanned = 10**8 * 96 / (device.memory_bps / 8 * device.memory_efficiency)
    assert one == pytest.approx(0.01 * scanned, rel=1e-6)
    assert many >= scanned  # all lists, and each query's own share of the cores
    flat = search_s(Index("flat", 10**8, 1024, 96), device, np.array([1]))[0]
    assert flat == pytest.approx(scanned, rel=1e-6)
