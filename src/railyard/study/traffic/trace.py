"""The flows of a packet run for eyes: Chrome trace JSON, which ui.perfetto.dev opens; one process a sending host.

Flows of a host that overlap lie in lanes below each other. An arrow leads to a flow from the one whose end let it
start. Times in microseconds, cut to nanoseconds; see `railyard.graph.perfetto` for the format.
"""

from __future__ import annotations

import gzip
import io
import json
from heapq import heapreplace
from typing import TYPE_CHECKING, Any

import numpy as np

from railyard.units import format_size

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from numpy.typing import NDArray

    from railyard.study.traffic.report import Report

FLOWS = 100_000
"""Flows that a trace holds at most: of more, those of hosts spread evenly."""

_PS_PER_NS = 1000


def write_trace(report: Report, path: Path) -> None:
    """Writes the trace, compressed."""
    with path.open("wb") as raw, gzip.GzipFile(filename="", mode="wb", fileobj=raw, mtime=0) as packed:
        out = io.TextIOWrapper(packed, encoding="utf-8")
        out.write('{"displayTimeUnit":"ns","otherData":{"engine":"packet"},"traceEvents":[\n')
        for number, line in enumerate(_lines(report)):
            out.write(",\n" if number else "")
            out.write(line)
        out.write("\n]}\n")
        out.flush()
        out.detach()


def chosen(report: Report) -> NDArray[np.int64]:
    """Finished flows that are shown, by source and start."""
    rows = np.flatnonzero(report.ended)
    if len(rows) > FLOWS:
        hosts = np.unique(report.flows.source[rows])
        kept = hosts[np.unique(np.linspace(0, len(hosts) - 1, max(1, FLOWS * len(hosts) // len(rows))).astype(int))]
        rows = rows[np.isin(report.flows.source[rows], kept)]
    order = np.lexsort((rows, report.start_ps[rows], report.flows.source[rows]))
    return np.asarray(rows[order])


def lanes(start: NDArray[np.int64], end: NDArray[np.int64]) -> list[int]:
    """The lane of each of one host's flows, given by start: the first that is free, in order of becoming free."""
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


def _lines(report: Report) -> Iterator[str]:
    flows, rows = report.flows, chosen(report)
    source = flows.source[rows]
    start, end = report.start_ps[rows] // _PS_PER_NS, report.finish_ps[rows] // _PS_PER_NS
    lane = np.zeros(len(rows), np.int64)
    edges = np.flatnonzero(np.diff(source, prepend=-1, append=-1))
    for low, high in zip(edges[:-1].tolist(), edges[1:].tolist(), strict=True):
        lane[low:high] = lanes(start[low:high], end[low:high])
        host = int(source[low])
        yield _event(ph="M", name="process_name", pid=host, args={"name": f"h{host}"})
        yield _event(ph="M", name="process_sort_index", pid=host, args={"sort_index": host})
    for at, row in enumerate(rows.tolist()):
        size, received = int(flows.size_bytes[row]), report.receiver_finish_ps[row] // _PS_PER_NS
        yield _event(
            ph="X", name=f"to h{flows.target[row]}, {format_size(size)}", cat="flow", pid=int(source[at]),
            tid=int(lane[at]), ts=_us(start[at]), dur=_us(end[at] - start[at]),
            args={"line": int(flows.line[row]), "bytes": size, "received_us": _us(received)},
        )  # fmt: skip
    yield from _arrows(report, rows, lane)
    yield from _depths(report)


def _arrows(report: Report, rows: NDArray[np.int64], lane: NDArray[np.int64]) -> Iterator[str]:
    """From the flow that ended last of those that a flow waits for, where both are shown."""
    flows = report.flows
    place = np.full(len(flows), -1, np.int64)
    place[rows] = np.arange(len(rows))
    for at, row in enumerate(rows.tolist()):
        waited = flows.dep_idx[flows.dep_ptr[row] : flows.dep_ptr[row + 1]]
        ended = np.where(report.finish_ps[waited] >= 0, report.finish_ps[waited], -1)
        if not len(waited) or place[waited[ended.argmax()]] < 0:
            continue
        before = int(waited[ended.argmax()])
        for phase, shown, time in (
            ("s", int(place[before]), report.finish_ps[before] - _PS_PER_NS),
            ("f", at, report.start_ps[row]),
        ):
            host = int(flows.source[rows[shown]])
            ends = {"bp": "e"} if phase == "f" else {}
            yield _event(
                ph=phase, **ends, id=at, name="lets start", cat="dependency", pid=host, tid=int(lane[shown]),
                ts=_us(time // _PS_PER_NS),
            )  # fmt: skip


def _depths(report: Report) -> Iterator[str]:
    """Sampled queues as counters, under a process of their own."""
    queues = report.probed.get("queues")
    if not queues:
        return
    pid = report.flows.hosts
    yield _event(ph="M", name="process_name", pid=pid, args={"name": "queues"})
    for row in queues["rows"]:
        for time_us, depth in zip(queues["time_us"], row["depth_bytes"], strict=True):
            yield _event(ph="C", name=row["link"], pid=pid, ts=round(time_us, 3), args={"bytes": depth})


def _us(time_ns: Any) -> float:
    return round(int(time_ns) / 1000, 3)


def _event(**fields: Any) -> str:
    return json.dumps(fields, separators=(",", ":"))
