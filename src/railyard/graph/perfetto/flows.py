"""Flows for eyes, or any record of which no graph is known: one process for each `who`.

Rows of one process that overlap lie in lanes below each other. An arrow leads to a row from the one whose end let it
start.
"""

from __future__ import annotations

from heapq import heapreplace
from typing import TYPE_CHECKING, Any

import numpy as np

from railyard.graph.perfetto.tasks import PS_PER_NS, event
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


def events(record: Record, link_name: Callable[[int], str]) -> Iterator[str]:
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
