"""Saves the state of a run to one file, replaced atomically: a killed run resumes and ends with the same bytes.

The file is an `.npz` of columns, with everything else as JSON and no pickled objects. Derived state (free nodes, order
of promises) is rebuilt on loading.
"""

from __future__ import annotations

import hashlib
import json
import os
import zipfile
from dataclasses import asdict, fields
from heapq import heapify
from typing import TYPE_CHECKING, Any

import numpy as np

from railyard.kit.errors import InputError
from railyard.kit.files import appearing, opened
from railyard.work.operate.failures.fault import Effect
from railyard.work.operate.free import FreeNodes
from railyard.work.operate.running import ActiveFault
from railyard.work.operate.state import LOSSES, BookedMark

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from numpy.typing import NDArray

    from railyard.work.operate.loop import ClusterRun
    from railyard.work.operate.state import State

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
