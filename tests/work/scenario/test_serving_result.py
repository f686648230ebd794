"""The serving part of a result: what a run writes is accepted, and whatever is taken away or turned is named."""

from __future__ import annotations

import functools
import json
from types import SimpleNamespace

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from railyard.face import api
from railyard.face.cli import guard
from railyard.graph import Record
from railyard.graph.parquet import read_record
from railyard.kit.errors import InputError
from railyard.measure.result.reading import result_from
from railyard.measure.result.serving import ModelServing
from railyard.measure.result.variants import ServingVariant
from railyard.work.serving.measuring import write_variant

SCENARIO = {
    "name": "small",
    "cluster": {"accelerators": 16, "server": "hgx-h100", "back_end": {"topology": "rail-optimized", "fabric": "roce"}},
    "workload": {
        "serving": {
            "model": "llama-3.1-8b",
            "requests": {"synthetic": {"rate": 20, "input": {"mean": 800, "p99": 4000}, "output": 40, "count": 120}},
            "pools": {"prefill": {"replicas": 2, "tp": 2}, "decode": {"replicas": 2, "tp": 2}},
            "slo": {"ttft": "1 s", "tpot": "50 ms"},
            "capacity": {"first": 60, "tolerance": 0.5},
        }
    },
}
KEPT = json.dumps(api.run(SCENARIO, out=None).result.plain())


def places(value, way=()):
    """Every way to a key, through objects and the first entry of lists."""
    if isinstance(value, dict):
        for key, inner in value.items():
            yield (*way, key)
            yield from places(inner, (*way, key))
    elif isinstance(value, list) and value:
        yield from places(value[0], (*way, 0))


VARIANT = json.loads(KEPT)["variants"][0]
FREE = {("settings",), ("warnings",)}
KEYS = [way for way in places(VARIANT) if isinstance(way[-1], str) and way[:1] not in FREE]
PARTS = [way for way in KEYS if way[:2] == ("serving", "ttft_parts") and len(way) == 4]
BANDS = [way for way in KEYS if way[-1] in ("typical", "typical_w", "typical_usd") and "rented_total" not in way]
COUNTS = [("serving", "requests", name) for name in ("count", "done", "dropped", "unfinished")]


def spoiled(way, change):
    """The result with one value of its first variant changed, or without it."""
    result = json.loads(KEPT)
    place = result["variants"][0]
    for key in way[:-1]:
        place = place[key]
    if change is None:
        del place[way[-1]]
    else:
        place[way[-1]] = change(place[way[-1]])
    return json.dumps(result)


def test_a_run_is_accepted_and_every_key_of_it_is_checked():
    result_from(KEPT)
    assert set(VARIANT) == set(ServingVariant.model_fields)
    assert set(VARIANT["serving"]) == set(ModelServing.model_fields) - {"faults", "begun_anew"}  # nothing died


def test_every_key_that_a_run_writes_is_wanted():
    """Whichever is taken away is missed, and its place is said."""
    for way in KEYS:
        with pytest.raises(InputError) as caught:
            result_from(spoiled(way, None))
        assert any((problem.key or "").startswith("result.variants[0]") for problem in caught.value.problems), way


NUMBERS = [way for way in KEYS if isinstance(functools.reduce(lambda at, key: at[key], way, VARIANT), float)]


@given(st.sampled_from(NUMBERS), st.sampled_from(["x", [], True, float("nan"), float("inf")]))
@settings(deadline=None, max_examples=60)
def test_what_is_no_number_is_refused_in_its_place(way, value):
    with pytest.raises(InputError) as caught:
        result_from(spoiled(way, lambda _: value))
    assert any((problem.key or "").endswith(str(way[-1])) for problem in caught.value.problems)


@given(st.sampled_from([*PARTS, *BANDS, *COUNTS]), st.sampled_from([3, 10, 1000]))
@settings(deadline=None, max_examples=100)
def test_figures_that_do_not_agree_are_refused(way, more):
    """A part, a typical value, or a count that is four times what it was: the band of tokens/s reaches twice."""
    with pytest.raises(InputError) as caught:
        result_from(spoiled(way, lambda value: value + more * max(abs(value), 1)))
    text = str(caught.value)
    assert any(
        words in text
        for words in ("add up", "not in order", "the bill of the hour", "less than or equal to 1", "each end")
    )


@pytest.mark.parametrize("name", ["ttft_s", "tpot_s", "itl_s", "e2e_s"])
def test_percentiles_ascend(name):
    with pytest.raises(InputError, match="do not ascend"):
        result_from(spoiled(("serving", name, "p90"), lambda value: 1e6 * value))


# The trace of a serving run for Perfetto: its events to the last one.

US = 1_000_000
REQUEST, MOVE = {"cat": "request", "pid": 2, "tid": 0}, {"cat": "transfer", "name": "keys and values", "pid": 1}


def ps(*times_us):
    return np.array([-1 if time < 0 else round(time * US) for time in times_us])


def run_of():
    """Request 0 is answered where its prompt was computed; 1 moves from replica 0 to 3; 2 moves too; 3 was dropped.

    Iterations of replica 3 are logged, those of replica 2, to which request 2 moves, are not.
    """
    optional = {
        "status": np.array([0, 0, 0, 1], np.uint8),
        "decode_replica": np.array([-1, 3, 2, -1], np.int32),
        "preemptions": np.array([0, 2, 0, 0], np.int32),
        "prefill_start_ps": ps(13, 21, 32, -1),
        "first_token_ps": ps(17, 29, 37, -1),
        "transfer_start_ps": ps(-1, 29, 38, -1),
        "transfer_end_ps": ps(-1, 43, 45, -1),
    }
    log = {
        "replica": np.array([0, 3, 3], np.int32), "tokens": np.array([700, 2, 131]), "decodes": np.array([0, 2, 3]),
        "start_ps": ps(21, 43, 50), "end_ps": ps(29, 47.5, 59), "count": np.array([1, 3, 1]),
        "kv_tokens": np.array([0, 1900, 5]),
    }  # fmt: skip
    return Record(
        rows="requests",
        who=np.array([3, 0, 0, -1], np.int32),
        what=np.zeros(4, np.int32),
        start_ps=ps(12, 20, 32, 41),
        end_ps=ps(59, 71, 83, -1),
        size_bytes=np.zeros(4, np.int64),
        optional=optional,
        tables={"iterations": log},
    )


def written(folder):
    job = SimpleNamespace(
        deployment=SimpleNamespace(pool_of_replica=np.array([0, 0, 1, 1])),
        pools=(SimpleNamespace(role="prefill"), SimpleNamespace(role="decode")),
        requests=SimpleNamespace(arrival_ps=ps(11, 19, 31, 40)),
    )
    found = SimpleNamespace(arrival_s=np.array([11e-6, 19e-6, 31e-6, 40e-6]), __dataclass_fields__=("arrival_s",))
    write_variant(folder, job, run_of(), found)
    return json.loads((folder / "trace.json").read_text())["traceEvents"]


def span(row, name, start_us, end_us):
    begin = {**REQUEST, "id": row, "name": name, "ph": "b", "ts": start_us, "args": {"request": row}}
    return [begin, {**REQUEST, "id": row, "name": name, "ph": "e", "ts": end_us}]


def name(kind, pid, tid, text):
    return {"ph": "M", "name": kind, "pid": pid, "tid": tid, "args": {"name": text}}


def slice_of(word, replica, ts, dur, **counts):
    return {"ph": "X", "name": word, "pid": 1, "tid": replica, "ts": ts, "dur": dur, "args": counts}


def test_all_events(tmp_path):
    assert written(tmp_path) == [
        name("process_name", 1, 0, "replicas"),
        name("process_name", 2, 0, "requests"),
        name("thread_name", 1, 0, "prefill 0"),
        name("thread_name", 1, 3, "decode 3"),
        slice_of("prefill", 0, 21, 8, iterations=1, tokens=700, decodes=0, kv_tokens=0),
        slice_of("decode", 3, 43, 4.5, iterations=3, tokens=2, decodes=2, kv_tokens=1900),
        slice_of("mixed", 3, 50, 9, iterations=1, tokens=131, decodes=3, kv_tokens=5),
        *span(0, "queue", 11, 13), *span(0, "prompt", 13, 17), *span(0, "answer", 17, 59),
        *span(1, "queue", 19, 21), *span(1, "prompt", 21, 29), *span(1, "keys and values", 29, 43),
        *span(1, "answer", 43, 71),
        {**MOVE, "id": 1, "ph": "s", "tid": 0, "ts": 28.999},
        {**MOVE, "id": 1, "ph": "f", "bp": "e", "tid": 3, "ts": 43},
        *span(2, "queue", 31, 32), *span(2, "prompt", 32, 37), *span(2, "keys and values", 38, 45),
        *span(2, "answer", 45, 83),
    ]  # fmt: skip


def test_the_table_has_every_request(tmp_path):
    written(tmp_path)
    columns = ["arrival_s", "replica", "decode_replica", "preemptions"]
    table = pl.read_parquet(tmp_path / "requests.parquet", columns=columns).select(columns)
    assert table.rows() == [(11e-6, 3, -1, 0), (19e-6, 0, 3, 2), (31e-6, 0, 2, 0), (40e-6, -1, -1, 0)]


def test_the_table_is_a_record_from_arrivals_on(tmp_path):
    written(tmp_path)
    record = read_record(tmp_path / "requests.parquet")
    assert (record.start_ps // US).tolist() == [11, 19, 31, 40]
    assert record.column("transfer_end_ps").tolist() == ps(-1, 43, 45, -1).tolist()
    assert record.table("iterations")["kv_tokens"].tolist() == [0, 1900, 5]
    assert not record.has("arrival_s")


# What a user is told of a bad trace, a load without end, and requests that no replica holds: on the command
# line.

AZURE = "TIMESTAMP,ContextTokens,GeneratedTokens\n2023-11-16 18:15:46.68,100,10\n"
VIDUR = "arrived_at,num_prefill_tokens,num_decode_tokens\n0.5,10,10\n"
MOONCAKE = '{"timestamp": 10, "input_length": 600, "output_length": 10, "hash_ids": [1, 2]}\n'
SERVING_BAD_TRACES_SCENARIO = """name: asked
cluster: {accelerators: 8, server: hgx-h100, back_end: {topology: rail-optimized, fabric: roce}}
workload:
  serving:
    model: llama-3.1-8b
    requests: {REQUESTS}
    pools: {both: {replicas: REPLICAS}}
    slo: {ttft: 1 s}
"""


@pytest.fixture
def told(tmp_path, capsys):
    """Runs a scenario: exit code and everything that was printed, with single spaces."""

    def run(requests, replicas=4):
        path = tmp_path / "asked.yaml"
        path.write_text(
            SERVING_BAD_TRACES_SCENARIO.replace("REQUESTS", requests).replace("REPLICAS", str(replicas)),
            encoding="utf-8",
        )
        code = guard.run(["run", str(path), "--out", str(tmp_path / "runs")])
        printed = capsys.readouterr()
        return code, " ".join((printed.out + printed.err).split())

    return run


@pytest.mark.parametrize(
    ("place", "text", "words"),
    [
        ("hole.csv:3", AZURE + "2023-11-16 18:15:47,,10\n", "a hole: ContextTokens is empty"),
        ("hole.jsonl:2", MOONCAKE + '{"timestamp": 15, "input_length": 6, "hash_ids": []}\n', "`output_length` is"),
        ("negative.csv:3", VIDUR + "-1.0,10,10\n", "arrived_at is negative"),
        ("negative.jsonl:1", MOONCAKE.replace("10,", "-10,", 1), "timestamp is negative"),
        ("tokens.csv:3", AZURE + "2023-11-16 18:15:47,-5,10\n", "ContextTokens is negative"),
        ("unknown.csv:1", AZURE.replace("GeneratedTokens", "GeneratedTokens,Color"), "unknown column `Color`"),
        ("order.csv:3", AZURE + "2023-11-16 18:15:40,5,10\n", "out of order"),
        ("order.jsonl:2", MOONCAKE + MOONCAKE.replace("10,", "5,", 1), "out of order"),
        ("answer.csv:3", AZURE + "2023-11-16 18:15:47,5,0\n", "without an answer"),
        ("date.csv:3", AZURE + "yesterday,5,1\n", "must be a date and a time"),
        ("cells.csv:3", AZURE + "2023-11-16 18:15:47,5\n", "as many cells"),
    ],
)
def test_a_wrong_row_is_named_by_its_line(tmp_path, told, place, text, words):
    name, _ = place.split(":")
    (tmp_path / name).write_text(text, encoding="utf-8")
    code, said = told(f"trace: {name}")
    assert code == 2
    assert words in said
    assert place in said.replace(" ", "")


def test_rows_out_of_order_and_without_answers_can_be_taken_as_they_are(tmp_path, told):
    (tmp_path / "mixed.csv").write_text(AZURE + "2023-11-16 18:15:40,5,10\n2023-11-16 18:15:50,5,0\n", encoding="utf-8")
    code, said = told("trace: mixed.csv, sort: true, drop_empty: true")
    assert code == 0, said
    assert "TTFT" in said


def test_a_load_that_can_never_drain_is_ended_and_said(tmp_path, told):
    drawn = "synthetic: {rate: 2000, input: 4000, output: 500, count: 30000}"
    code, said = told(drawn, replicas=1)
    assert code == 0
    assert "overload: the queue grew without bound and the run was ended after" in said
    assert "of 30000 requests were not answered" in said


def test_a_request_longer_than_any_cache_is_refused_and_said(tmp_path, told):
    (tmp_path / "long.csv").write_text(AZURE + "2023-11-16 18:15:47,9000000,10\n", encoding="utf-8")
    code, said = told("trace: long.csv")
    assert code == 0
    assert "1 request is longer than the cache of any replica: refused" in said
