"""Files of a run: Parquet tables for programs, a Perfetto trace to look at, and the saved state it resumes from.

The file is an `.npz` of columns, with everything else as JSON and no pickled objects. Derived state (free nodes, order
of promises) is rebuilt on loading.
"""

from __future__ import annotations

import base64
import hashlib
import json
import os
import zipfile
from dataclasses import asdict, fields
from heapq import heapify
from typing import TYPE_CHECKING, Any

import numpy as np

from railyard.graph.perfetto.tasks import write_events
from railyard.kit.errors import InputError
from railyard.kit.files import appearing, opened, write_frame
from railyard.measure.result.operate import HeatFigures, SeriesFigures
from railyard.work.operate.failures.fault import Effect
from railyard.work.operate.free import FreeNodes
from railyard.work.operate.running import ActiveFault, Away, LeaveReason
from railyard.work.operate.state import LOSSES, BookedMark
from railyard.work.operate.steady import columns

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from pathlib import Path

    from numpy.typing import NDArray

    from railyard.work.operate.loop import ClusterRun
    from railyard.work.operate.state import State


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


FORMAT = "railyard-operate-state/8"
_JOB_COLUMNS = [
    "status",
    "done_us",
    "first_us",
    "end_us",
    "begun_us",
    "since_us",
    "ready_us",
    "clear_us",
    "version",
    "contention_ppm",
    "straggler_ppm",
    "hung",
    "missing",
    "known_missing",
    "unserved_us",
    "attempts",
    "preempted",
    "failed",
    "vain",
    "best_us",
    "met",
    "spent",
]
_STATE_VALUES = ("now_us", "usage_us", "usage", "used", "busy", "waiting", "erased")
_LEDGER_NUMBERS = ("ended", "busy_us", "up_us", "useless_us", "time_us", "next_us")
_LEDGER_TABLES = ("allocations", "nodes", "series", "faults", "outages")
_RUN_VALUES = ("arrived", "known", "pending", "spares")


def fingerprint(run: ClusterRun) -> str:
    """Hash of everything that defines a run except its faults and its contention."""
    text = hashlib.sha256()
    for item in fields(run.jobs):
        value = getattr(run.jobs, item.name)
        if isinstance(value, np.ndarray):
            text.update(np.ascontiguousarray(value).data)
    text.update(json.dumps([asdict(one) for one in run.jobs.asks]).encode())
    tree = run.state.tree
    for column in (tree.accelerators, *tree.group, *(() if tree.owner is None else (tree.owner,))):
        text.update(np.ascontiguousarray(column).data)
    about = [asdict(run.rules), run.until_us, run.steady_us, run.ledger.every_us]
    text.update(json.dumps(about, sort_keys=True).encode())
    return text.hexdigest()


def save(run: ClusterRun, path: Path, about: str = "") -> None:
    """Writes the state; the file is either complete or unchanged."""
    state, ledger = run.state, run.ledger
    placed = [np.asarray(nodes, np.int64) for nodes in state.placed.values()]
    columns: dict[str, NDArray[Any]] = {
        **{f"job_{name}": np.array(getattr(state, name), np.int64) for name in _JOB_COLUMNS},
        **{f"ledger_{name}": np.array(getattr(ledger, name), np.int64) for name in _LEDGER_TABLES},
        **_marks(state.marks, len(run.jobs)),
        "slowed": np.array(state.slowed, np.int64).reshape(-1, 4),
        "events": np.array(run.events, np.int64).reshape(-1, 4),
        "up": state.free.up,
        "broken": state.broken,
        "used_by": state.used_by,
        "owner": state.owner,
        "placed_nodes": np.concatenate([*placed, np.empty(0, np.int64)]),
        "placed_ends": np.cumsum([len(nodes) for nodes in placed], dtype=np.int64),
        "known": np.frombuffer(json.dumps(_known(run, about), default=int).encode(), np.uint8),
    }
    path.parent.mkdir(parents=True, exist_ok=True)
    with appearing(path) as unfinished, unfinished.open("wb") as handle:
        np.savez(handle, allow_pickle=False, **columns)
        handle.flush()
        os.fsync(handle.fileno())


def _known(run: ClusterRun, about: str) -> dict[str, Any]:
    """State that is not a column, as JSON."""
    state = run.state
    return {
        "format": FORMAT,
        "of": [fingerprint(run), about],
        **{name: getattr(state, name) for name in _STATE_VALUES},
        **{name: getattr(run.ledger, name) for name in _LEDGER_NUMBERS},
        **{name: getattr(run, name) for name in _RUN_VALUES},
        "out": [(node, *row) for node, row in run.ledger.out.items()],
        "live": [(*key, spent) for key, spent in state.live_us.items()],
        "promise": [(job, state.promise[job]) for job in state.placed],
        "queue": run.scheduler.queue,
        "active": [(number, vars(fault)) for number, fault in run.active.items()],
    }


def _marks(marks: Sequence[BookedMark], jobs: int) -> dict[str, NDArray[Any]]:
    return {
        "mark": np.array([(one.time_us, *one.totals, *one.jobs) for one in marks], np.int64).reshape(-1, 6),
        "mark_done": np.array([one.done_us for one in marks], np.int64).reshape(len(marks), jobs),
        "mark_spent": np.array([one.spent for one in marks], np.int64).reshape(len(marks), jobs, 1 + len(LOSSES)),
    }


def load(run: ClusterRun, path: Path, about: str = "") -> bool:
    """Restores a new run from a file.

    Returns:
        Whether there is such a file of the same run; the file of another run is left alone.

    Raises:
        InputError: The file is damaged.
    """
    if not path.is_file():
        return False
    try:
        with opened(path) as handle, np.load(handle, allow_pickle=False) as file:
            columns = {name: file[name] for name in file.files}
        known = json.loads(columns["known"].tobytes())
        if known["format"] != FORMAT or known["of"] != [fingerprint(run), about]:
            return False
        _restore(run, columns, known)
    except (OSError, ValueError, KeyError, EOFError, zipfile.BadZipFile, IndexError, TypeError) as error:
        raise InputError(
            f"the state of the run cannot be read: {error}", file=path, hint="remove it to start over"
        ) from None
    return True


def _restore(run: ClusterRun, columns: Mapping[str, NDArray[Any]], known: Mapping[str, Any]) -> None:
    state, ledger = run.state, run.ledger
    for name in _JOB_COLUMNS:
        setattr(state, name, columns[f"job_{name}"].tolist())
    state.hung = [bool(one) for one in state.hung]
    for owner, names in ((state, _STATE_VALUES), (ledger, _LEDGER_NUMBERS), (run, _RUN_VALUES)):
        for name in names:
            setattr(owner, name, known[name])
    for name in _LEDGER_TABLES:
        rows = columns[f"ledger_{name}"]
        setattr(ledger, name, rows.tolist() if rows.ndim == 1 else [tuple(row) for row in rows.tolist()])
    ledger.out = {node: (since, why) for node, since, why in known["out"]}
    marks = zip(*(columns[name].tolist() for name in ("mark", "mark_done", "mark_spent")), strict=True)
    state.marks = [BookedMark(time, done, spent, (a, b, c), (d, e)) for (time, a, b, c, d, e), done, spent in marks]
    state.live_us = {(job, live, asked): spent for job, live, asked, spent in known["live"]}
    state.slowed = [tuple(row) for row in columns["slowed"].tolist()]
    state.broken, state.used_by = columns["broken"].astype(bool), columns["used_by"]
    run.events = [tuple(row) for row in columns["events"].tolist()]
    heapify(run.events)
    run.active = {number: _active(**fault) for number, fault in known["active"]}
    _place(state, columns, known["promise"])
    run.scheduler.queue = [(tuple(key), job) for key, job in known["queue"]]
    if run.contention is not None:
        run.contention.restore(state)


def _active(nodes: list[int], effect: int, jobs: list[list[int]], **numbers: int) -> ActiveFault:
    hit = [(job, attempt, done_us) for job, attempt, done_us in jobs]
    return ActiveFault(tuple(nodes), Effect(effect), jobs=hit, **numbers)


def _place(state: State, columns: Mapping[str, NDArray[Any]], promises: Sequence[tuple[int, int]]) -> None:
    state.free = FreeNodes(state.tree)
    state.free.out(np.flatnonzero(~columns["up"]).astype(np.int32))
    state.placed, state.promise = {}, {}
    state.jobs_of_node = [[] for _ in range(state.tree.nodes)]
    nodes = np.split(columns["placed_nodes"].astype(np.int32), columns["placed_ends"])
    for (job, promise), where in zip(promises, nodes, strict=False):
        state.placed[job], state.promise[job] = where, promise
        state.free.take(where, state.each[job])
        for node in where.tolist():
            state.jobs_of_node[node].append(job)
    state.share_out(columns["owner"])
    state.ends = sorted((promise, job) for job, promise in state.promise.items())
