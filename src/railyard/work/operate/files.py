"""Output files of a run: Parquet tables for programs, and a Perfetto trace to look at."""

from __future__ import annotations

import base64
import json
from typing import TYPE_CHECKING, Any

import numpy as np

from railyard.graph.perfetto.tasks import write_events
from railyard.kit.files import write_frame
from railyard.measure.result.operate import HeatFigures, SeriesFigures
from railyard.work.operate.running import Away, LeaveReason
from railyard.work.operate.steady import columns

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from numpy.typing import NDArray

    from railyard.work.operate.loop import ClusterRun


COLUMNS = 360
ROWS = 128
"""Maximum rows and columns of the heat map; several nodes or times share a cell."""
STEPS = 200
"""Levels of a cell's use, from idle to full; higher values say why nodes were out of service, see `Away`."""
SEEN = 0.1
"""Share of a row's nodes, at least one, that must be broken to show as broken: large rows always have a few."""
SAMPLES = 360
"""Maximum samples of the series."""


def heat(run: ClusterRun) -> HeatFigures:
    """Heat map: each cell shows the use of some nodes over a span, or why they were out for most of it."""
    tree = run.state.tree
    busy, away = busy_us(run), away_us(run)
    rows = busy.shape[0]
    each = np.bincount(_row(run), tree.accelerators, minlength=rows)[:, None] * _span_us(run)
    gone = away.sum(axis=0)
    share = np.clip(busy / np.maximum(each - gone, 1.0), 0.0, 1.0)
    cells = np.rint(share * STEPS).astype(np.uint8)
    cells = np.where(gone > each / 2, (STEPS + 1 + away.argmax(axis=0)).astype(np.uint8), cells)
    node = float(tree.accelerators.max()) * _span_us(run)
    broken = away[Away.BROKEN] > np.maximum(node / 2, each * SEEN)
    cells = np.where(broken, STEPS + 1 + Away.BROKEN, cells)
    first = [int(np.searchsorted(_row(run), number)) for number in range(rows)]
    return HeatFigures(
        rows=rows,
        columns=COLUMNS,
        first=tuple(tree.names[node] for node in first),
        cells=base64.b64encode(cells.astype(np.uint8).tobytes()).decode(),
    )


def _row(run: ClusterRun) -> NDArray[np.int64]:
    """int64[nodes], the heat map row of each node."""
    nodes = run.state.tree.nodes
    return np.asarray(np.arange(nodes) * min(ROWS, nodes) // nodes)


def _span_us(run: ClusterRun) -> float:
    return max(run.ledger.time_us, 1) / COLUMNS


def busy_us(run: ClusterRun) -> NDArray[np.float64]:
    """float64[rows, columns], accelerator-microseconds that jobs occupied in each cell."""
    table = run.ledger.columns("allocations")
    count = table["count"]
    each = np.repeat(np.array(run.state.each)[table["job"]], count)
    nodes = np.array(run.ledger.nodes, np.int64)
    return _spread(run, nodes, np.repeat(table["start_us"], count), np.repeat(table["end_us"], count), each)


def away_us(run: ClusterRun) -> NDArray[np.float64]:
    """float64[3, rows, columns], accelerator-microseconds out of service by `Away`."""
    table = run.ledger.columns("outages")
    each = run.state.tree.accelerators[table["node"]]
    rows = (table["node"], table["start_us"], table["end_us"], each)
    return np.stack([_spread(run, *(column[table["why"] == why] for column in rows)) for why in Away])


def _spread(
    run: ClusterRun, nodes: NDArray[np.int64], start: NDArray[np.int64], end: NDArray[np.int64], each: NDArray[np.int64]
) -> NDArray[np.float64]:
    """Sums constant rates on nodes, each from a start to an end, into cells."""
    row, span = _row(run), max(run.ledger.time_us, 1)
    changes = np.zeros((int(row[-1]) + 1, COLUMNS + 2))
    for times, sign in ((start, 1.0), (end, -1.0)):
        at = times / span * COLUMNS
        cell, part = at.astype(np.int64), at % 1.0
        np.add.at(changes, (row[nodes], cell), sign * each * (1 - part))
        np.add.at(changes, (row[nodes], cell + 1), sign * each * part)
    return np.asarray(np.cumsum(changes[:, :COLUMNS], axis=1) * _span_us(run))


def series(run: ClusterRun) -> SeriesFigures:
    """The samples of the run, thinned evenly."""
    table = run.ledger.columns("series")
    step = -(-len(table["time_us"]) // SAMPLES)
    table = {name: column[::step] for name, column in table.items()}
    total = run.state.tree.total

    def part(values: NDArray[np.int64], whole: int) -> tuple[float, ...]:
        found: list[float] = np.round(values / whole, 6).tolist()
        return tuple(found)

    return SeriesFigures(
        time_s=tuple((table["time_us"] / 1e6).tolist()),
        waiting=tuple(table["waiting"].tolist()),
        running=tuple(table["running"].tolist()),
        busy=part(table["busy"], total),
        idle=part(table["free"], total),
        in_shared_nodes=part(table["broken_free"], total),
        in_shared_groups=part(table["broken_idle"], run.state.tree.nodes),
        out=part(np.maximum(total - table["busy"] - table["free"], 0), total),
    )


MOST_SLICES = 300_000
"""Maximum slices of a trace. Viewers struggle beyond that; the largest allocations are kept."""


def write(run: ClusterRun, folder: Path) -> None:
    """Writes jobs, allocations, samples, faults and outages as Parquet, and a Perfetto trace."""
    _parquet(columns(run), folder / "jobs.parquet")
    allocations = run.ledger.columns("allocations")
    first, count = allocations.pop("first"), allocations.pop("count")
    nodes = [run.ledger.nodes[a : a + n] for a, n in zip(first.tolist(), count.tolist(), strict=True)]
    _parquet({**allocations, "nodes": nodes}, folder / "allocations.parquet")
    _parquet(run.ledger.columns("series"), folder / "series.parquet")
    _parquet(run.ledger.columns("faults"), folder / "faults.parquet")
    _parquet(run.ledger.columns("outages"), folder / "outages.parquet")
    write_events(_events(run), folder / "operate.perfetto.json.gz", {"displayTimeUnit": "ms"})


def _parquet(columns_: dict[str, Any], path: Path) -> None:
    import polars as pl

    schema = {"nodes": pl.List(pl.Int64)} if path.stem == "allocations" else None
    write_frame(path, pl.DataFrame(columns_, schema_overrides=schema))


def _events(run: ClusterRun) -> Iterator[str]:
    """One process with a track per node, and counters of the cluster."""
    state = run.state
    yield json.dumps({"ph": "M", "pid": 1, "name": "process_name", "args": {"name": "nodes"}})
    yield json.dumps({"ph": "M", "pid": 2, "name": "process_name", "args": {"name": "cluster"}})
    for node, name in enumerate(state.tree.names):
        yield json.dumps({"ph": "M", "pid": 1, "tid": node, "name": "thread_name", "args": {"name": name}})
    yield from _slices(run)
    for time, waiting, running, busy, *_ in run.ledger.series:
        values = {"waiting": waiting, "running": running, "busy accelerators": busy}
        for name, value in values.items():
            yield json.dumps({"ph": "C", "pid": 2, "name": name, "ts": time, "args": {name: value}})


def _slices(run: ClusterRun) -> Iterator[str]:
    """Allocations by node. Jobs that share a node overlap, so these are asynchronous slices."""
    rows = sorted(run.ledger.allocations, key=lambda row: (-(row[2] - row[1]) * row[5], row))
    shown = 0
    for number, (job, start, end, outcome, first, count) in enumerate(rows):
        shown += count
        if shown > MOST_SLICES:
            return
        about = {"job": run.jobs.name[job], "tenant": run.jobs.tenants[run.state.tenant[job]]}
        about["outcome"] = LeaveReason(outcome).name.lower()
        partial = run.state.each[job] < int(run.state.tree.accelerators[run.ledger.nodes[first]])
        for node in run.ledger.nodes[first : first + count]:
            head = {"pid": 1, "tid": node, "name": run.jobs.name[job], "cat": about["tenant"], "args": about}
            if partial:
                yield json.dumps({**head, "ph": "b", "ts": start, "id": number})
                yield json.dumps({**head, "ph": "e", "ts": end, "id": number})
            else:
                yield json.dumps({**head, "ph": "X", "ts": start, "dur": end - start})
