"""What the folder of a serving run holds besides the report: every request as a table, and a trace for Perfetto.

In the trace each replica is a track of iterations; runs of like iterations are one slice. A request is a span of its
own and an arrow from the replica that computed its prompt to the one that computed its answer.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from railyard.engine.serving import ServingRun
    from railyard.measure.serving.served import Served
    from railyard.study.serving.prepare import ServingJob

MOST_SLICES = 50_000
MOST_REQUESTS = 2_000
_US = 1e-6
_REPLICAS, _REQUESTS = 1, 2


def write_variant(folder: Path, job: ServingJob, run: ServingRun, found: Served) -> None:
    """Writes `requests.parquet` and `trace.json`."""
    import polars as pl

    columns = {name: getattr(found, name) for name in found.__dataclass_fields__}
    extra = {"replica": run.replica, "decode_replica": run.decode_replica, "preemptions": run.preemptions}
    pl.DataFrame({**columns, **extra}).write_parquet(folder / "requests.parquet")
    events = {"traceEvents": list(_events(job, run)), "displayTimeUnit": "ms"}
    (folder / "trace.json").write_text(json.dumps(events, separators=(",", ":")), encoding="utf-8")


def _events(job: ServingJob, run: ServingRun) -> Iterator[dict[str, Any]]:
    yield _name("process_name", _REPLICAS, 0, "replicas")
    yield _name("process_name", _REQUESTS, 0, "requests")
    pool = job.deployment.pool_of_replica
    for replica in np.unique(run.log["replica"]):
        yield _name("thread_name", _REPLICAS, int(replica), f"{job.pools[pool[replica]].role} {int(replica)}")
    yield from _iterations(run)
    yield from _spans(run, job)


def _name(kind: str, process: int, thread: int, text: str) -> dict[str, Any]:
    return {"ph": "M", "name": kind, "pid": process, "tid": thread, "args": {"name": text}}


def _iterations(run: ServingRun) -> Iterator[dict[str, Any]]:
    log = run.log
    for row in range(min(len(log["replica"]), MOST_SLICES)):
        tokens, decodes = int(log["tokens"][row]), int(log["decodes"][row])
        yield {
            "ph": "X",
            "name": "decode" if tokens == decodes else ("prefill" if decodes == 0 else "mixed"),
            "pid": _REPLICAS,
            "tid": int(log["replica"][row]),
            "ts": float(log["start_ps"][row]) * _US,
            "dur": float(log["end_ps"][row] - log["start_ps"][row]) * _US,
            "args": {
                "iterations": int(log["count"][row]),
                "tokens": tokens,
                "decodes": decodes,
                "kv_tokens": int(log["kv_tokens"][row]),
            },
        }


def _spans(run: ServingRun, job: ServingJob) -> Iterator[dict[str, Any]]:
    """The first requests: waiting, prompt, keys and values on their way, answer; and the arrow between replicas."""
    logged = set(run.log["replica"].tolist())
    arrival = job.requests.arrival_ps
    for row in np.flatnonzero(run.status == 0)[:MOST_REQUESTS].tolist():
        moved = run.decode_replica[row] >= 0 and run.transfer_end_ps[row] >= 0
        begins = run.transfer_end_ps[row] if moved else run.first_token_ps[row]
        phases = [
            ("queue", arrival[row], run.prefill_start_ps[row]),
            ("prompt", run.prefill_start_ps[row], run.first_token_ps[row]),
            ("answer", begins, run.done_ps[row]),
        ]
        if moved:
            phases.insert(2, ("keys and values", run.transfer_start_ps[row], run.transfer_end_ps[row]))
        for name, start, end in phases:
            shared = {"cat": "request", "id": row, "pid": _REQUESTS, "tid": 0, "name": name}
            yield {**shared, "ph": "b", "ts": float(start) * _US, "args": {"request": row}}
            yield {**shared, "ph": "e", "ts": float(end) * _US}
        if moved and {int(run.replica[row]), int(run.decode_replica[row])} <= logged:
            arrow = {"cat": "transfer", "name": "keys and values", "id": row, "pid": _REPLICAS}
            sent = float(run.first_token_ps[row]) * _US
            yield {**arrow, "ph": "s", "tid": int(run.replica[row]), "ts": sent - 1e-3}
            yield {**arrow, "ph": "f", "bp": "e", "tid": int(run.decode_replica[row]), "ts": float(begins) * _US}
