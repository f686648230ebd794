"""Perfetto tracks of flows and of requests.

Rows of one process that overlap lie in lanes below each other. An arrow leads to a row from the one whose end let it
start.

A request is a span of its own, cut into its phases, and an arrow from the replica that computed its prompt to the one
that computed its answer.
"""

from __future__ import annotations

from heapq import heapreplace
from typing import TYPE_CHECKING, Any

import numpy as np

from railyard.graph.perfetto.tasks import PS_PER_NS, event, metadata
from railyard.kit.quantities import format_size

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from numpy.typing import NDArray

    from railyard.graph.record import Record


FLOWS = 100_000
"""Rows that a trace holds at most: of more, those of processes spread evenly."""

_NAMES = {"tasks": "rank ", "kernels": "rank ", "requests": "replica ", "flows": "h"}


def chosen(record: Record) -> NDArray[np.int64]:
    """Rows that have ended and are shown, by who and start."""
    rows = np.flatnonzero(record.ended)
    if len(rows) > FLOWS:
        everyone = np.unique(record.who[rows])
        places = np.unique(np.linspace(0, len(everyone) - 1, max(1, FLOWS * len(everyone) // len(rows))).astype(int))
        rows = rows[np.isin(record.who[rows], everyone[places])]
    order = np.lexsort((rows, record.start_ps[rows], record.who[rows]))
    return np.asarray(rows[order])


def lanes(start: NDArray[np.int64], end: NDArray[np.int64]) -> list[int]:
    """The lane of each of one process's rows, given by start: the first that is free, in order of becoming free."""
    free: list[tuple[int, int]] = []
    found = []
    for begin, finish in zip(start.tolist(), end.tolist(), strict=True):
        if free and free[0][0] <= begin:
            found.append(free[0][1])
            heapreplace(free, (finish, found[-1]))
        else:
            found.append(len(free))
            free.append((finish, found[-1]))
            free.sort()
    return found


def flow_events(record: Record, link_name: Callable[[int], str]) -> Iterator[str]:
    """Every event of the trace, as JSON."""
    rows, prefix = chosen(record), _NAMES.get(record.rows, "")
    who = record.who[rows]
    start, end = record.start_ps[rows] // PS_PER_NS, record.end_ps[rows] // PS_PER_NS
    lane = np.zeros(len(rows), np.int64)
    edges = np.flatnonzero(np.diff(who, prepend=-2, append=-2))
    for low, high in zip(edges[:-1].tolist(), edges[1:].tolist(), strict=True):
        lane[low:high] = lanes(start[low:high], end[low:high])
        process = int(who[low])
        yield event(ph="M", name="process_name", pid=process, args={"name": f"{prefix}{process}"})
        yield event(ph="M", name="process_sort_index", pid=process, args={"sort_index": process})
    for at, row in enumerate(rows.tolist()):
        yield event(
            ph="X", name=_name(record, row, prefix), cat=record.rows.removesuffix("s"), pid=int(who[at]),
            tid=int(lane[at]), ts=_us(start[at]), dur=_us(end[at] - start[at]), args=_args(record, row),
        )  # fmt: skip
    yield from _arrows(record, rows, lane)
    yield from _depths(record, link_name)


def _name(record: Record, row: int, prefix: str) -> str:
    if record.has("target"):
        return f"to {prefix}{record.column('target')[row]}, {format_size(int(record.size_bytes[row]))}"
    return record.labels[record.what[row]].name if record.labels else record.rows.removesuffix("s")


def _args(record: Record, row: int) -> dict[str, Any]:
    args: dict[str, Any] = {"line": int(record.column("line")[row])} if record.has("line") else {}
    args["bytes"] = int(record.size_bytes[row])
    if record.has("receiver_finish_ps"):
        args["received_us"] = _us(record.column("receiver_finish_ps")[row] // PS_PER_NS)
    return args


def _arrows(record: Record, rows: NDArray[np.int64], lane: NDArray[np.int64]) -> Iterator[str]:
    """Arrows from the row whose end let another start, if both are shown."""
    if not record.has("blocker"):
        return
    blocker = record.column("blocker")
    place = np.full(len(record), -1, np.int64)
    place[rows] = np.arange(len(rows))
    for at, row in enumerate(rows.tolist()):
        before = int(blocker[row])
        if before < 0 or place[before] < 0:
            continue
        for phase, shown, time in (
            ("s", int(place[before]), record.end_ps[before] - PS_PER_NS),
            ("f", at, record.start_ps[row]),
        ):
            ends = {"bp": "e"} if phase == "f" else {}
            yield event(
                ph=phase, **ends, id=at, name="lets start", cat="dependency", pid=int(record.who[rows[shown]]),
                tid=int(lane[shown]), ts=_us(time // PS_PER_NS),
            )  # fmt: skip


def _depths(record: Record, link_name: Callable[[int], str]) -> Iterator[str]:
    """Sampled queues as counters, under a process of their own."""
    if "queue_series" not in record.tables:
        return
    series, links = record.table("queue_series"), record.table("sampled_links")["link"]
    process = int(record.meta.get("host_count", record.who.max(initial=-1) + 1))
    yield event(ph="M", name="process_name", pid=process, args={"name": "queues"})
    times_us = (series["time_ps"] / 1e6).round(4).tolist()
    for column, link in enumerate(links.tolist()):
        for time_us, depth in zip(times_us, series["depth_bytes"][:, column].tolist(), strict=True):
            yield event(ph="C", name=link_name(link), pid=process, ts=round(time_us, 3), args={"bytes": depth})


def _us(time_ns: Any) -> float:
    return round(int(time_ns) / 1000, 3)


MOST_SLICES = 50_000
MOST_REQUESTS = 2_000
_US = 1e-6
_REPLICAS, _REQUESTS = 1, 2


def request_events(record: Record, who_name: Callable[[int], str]) -> Iterator[str]:
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
