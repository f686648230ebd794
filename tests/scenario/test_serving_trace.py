"""The trace of a serving run for Perfetto: its events to the last one."""

from __future__ import annotations

import json
from types import SimpleNamespace

import numpy as np
import polars as pl

from railyard.graph import Record
from railyard.graph.parquet import read_record
from railyard.work.serving.measuring import write_variant

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
