"""Requests for eyes: each replica is a track of iterations, of which runs of like ones are one slice.

A request is a span of its own, cut into its phases, and an arrow from the replica that computed its prompt to the one
that computed its answer.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from railyard.graph.perfetto.tasks import event, metadata

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from railyard.graph.record import Record

MOST_SLICES = 50_000
MOST_REQUESTS = 2_000
_US = 1e-6
_REPLICAS, _REQUESTS = 1, 2


def events(record: Record, who_name: Callable[[int], str]) -> Iterator[str]:
    """Every event of the trace, as JSON.

    Args:
        record: Of a serving run.
        who_name: Names a replica.

    Raises:
        InputError: The record lacks iterations or phases.
    """
    phases = ("status", "prefill_start_ps", "first_token_ps", "decode_replica", "transfer_start_ps", "transfer_end_ps")
    record.require("the trace of requests", *phases, tables=["iterations"])
    yield event(ph="M", name="process_name", pid=_REPLICAS, tid=0, args={"name": "replicas"})
    yield event(ph="M", name="process_name", pid=_REQUESTS, tid=0, args={"name": "requests"})
    for replica in np.unique(record.table("iterations")["replica"]).tolist():
        yield metadata("thread_name", _REPLICAS, replica, "name", who_name(replica))
    yield from _iterations(record)
    yield from _spans(record)


def _iterations(record: Record) -> Iterator[str]:
    log = record.table("iterations")
    for row in range(min(len(log["replica"]), MOST_SLICES)):
        tokens, decodes = int(log["tokens"][row]), int(log["decodes"][row])
        yield event(
            ph="X",
            name="decode" if tokens == decodes else ("prefill" if decodes == 0 else "mixed"),
            pid=_REPLICAS,
            tid=int(log["replica"][row]),
            ts=float(log["start_ps"][row]) * _US,
            dur=float(log["end_ps"][row] - log["start_ps"][row]) * _US,
            args={
                "iterations": int(log["count"][row]),
                "tokens": tokens,
                "decodes": decodes,
                "kv_tokens": int(log["kv_tokens"][row]),
            },
        )


def _spans(record: Record) -> Iterator[str]:
    """The first requests: waiting, prompt, keys and values on their way, answer; and the arrow between replicas."""
    logged = set(record.table("iterations")["replica"].tolist())
    decoder, arrives_ps = record.column("decode_replica"), record.column("transfer_end_ps")
    first_ps = record.column("first_token_ps")
    for row in np.flatnonzero(record.column("status") == 0)[:MOST_REQUESTS].tolist():
        moved = decoder[row] >= 0 and arrives_ps[row] >= 0
        for name, start, end in _phases(record, row, moved=bool(moved)):
            shared = {"cat": "request", "id": row, "pid": _REQUESTS, "tid": 0, "name": name}
            yield event(**shared, ph="b", ts=float(start) * _US, args={"request": row})
            yield event(**shared, ph="e", ts=float(end) * _US)
        replica, other = int(record.who[row]), int(decoder[row])
        if moved and {replica, other} <= logged:
            arrow = {"cat": "transfer", "name": "keys and values", "id": row, "pid": _REPLICAS}
            yield event(**arrow, ph="s", tid=replica, ts=float(first_ps[row]) * _US - 1e-3)
            yield event(**arrow, ph="f", bp="e", tid=other, ts=float(arrives_ps[row]) * _US)


def _phases(record: Record, row: int, *, moved: bool) -> list[tuple[str, int, int]]:
    """Name, start and end of each phase of a request."""
    start_ps, first_ps = record.column("prefill_start_ps")[row], record.column("first_token_ps")[row]
    found = [("queue", record.start_ps[row], start_ps), ("prompt", start_ps, first_ps)]
    if not moved:
        return [*found, ("answer", first_ps, record.end_ps[row])]
    leaves_ps, arrives_ps = record.column("transfer_start_ps")[row], record.column("transfer_end_ps")[row]
    return [*found, ("keys and values", leaves_ps, arrives_ps), ("answer", arrives_ps, record.end_ps[row])]


def stage_events(record: Record) -> Iterator[str]:
    """Requests through stages: each stage is a process, and a request a span in every stage that it takes; as JSON.

    Args:
        record: Of journeys, a part a stage.
    """
    for process, (name, visits) in enumerate(record.parts.items()):
        yield metadata("process_name", process, 0, "name", name)
        for visit in np.flatnonzero(visits.ended & (visits.who < MOST_REQUESTS)).tolist():
            row = int(visits.who[visit])
            span = {"cat": name, "id": row, "pid": process, "tid": 0, "name": f"request {row}"}
            yield event(**span, ph="b", ts=float(visits.start_ps[visit]) * _US, args={"request": row})
            yield event(**span, ph="e", ts=float(visits.end_ps[visit]) * _US)
