"""The state of a run as one file, replaced atomically: a run that was killed goes on and ends with the same bytes.

An `.npz` of integers and floats, without pickled objects. What follows from the rest (free nodes, order of promises)
is made anew.
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
    from collections.abc import Iterable, Mapping, Sequence
    from pathlib import Path

    from numpy.typing import NDArray

    from railyard.work.operate.loop import ClusterRun
    from railyard.work.operate.state import State

FORMAT = "railyard-operate-state/7"
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
_STATE_NUMBERS = ("now_us", "usage_us", "busy", "waiting", "erased")
_LEDGER_NUMBERS = ("ended", "busy_us", "up_us", "useless_us", "time_us", "next_us")
_LEDGER_TABLES = ("allocations", "nodes", "series", "faults", "outages")
_RUN_NUMBERS = ("arrived", "known", "pending")


def fingerprint(run: ClusterRun) -> str:
    """Of everything that a run is made of but its faults and its contention."""
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
    """Writes the state; the file is there complete or as it was."""
    state, ledger = run.state, run.ledger
    columns: dict[str, NDArray[Any]] = {
        f"job_{name}": np.array(getattr(state, name), np.int64) for name in _JOB_COLUMNS
    }
    columns |= {f"ledger_{name}": np.array(getattr(ledger, name), np.int64) for name in _LEDGER_TABLES}
    columns["out"] = np.array([(node, *row) for node, row in ledger.out.items()], np.int64).reshape(-1, 3)
    columns["slowed"] = np.array(state.slowed, np.int64).reshape(-1, 4)
    columns["live"] = np.array([(*key, spent) for key, spent in state.live_us.items()], np.int64).reshape(-1, 4)
    columns |= _marks(state.marks, len(run.jobs))
    columns["events"] = np.array(run.events, np.int64).reshape(-1, 4)
    columns["usage"], columns["used"] = np.array(state.usage), np.array(state.used, np.int64)
    columns["up"], columns["broken"] = state.free.up, state.broken
    columns["used_by"], columns["owner"] = state.used_by, state.owner
    columns["spares"] = np.array(run.spares, np.int64)
    columns["placed"] = np.array(list(state.placed), np.int64)
    columns |= _lists("placed_nodes", state.placed.values())
    columns["promise"] = np.array([state.promise[job] for job in state.placed], np.int64)
    columns["queue"] = np.array([job for _, job in run.scheduler.queue], np.int64)
    columns["queue_keys"] = _keys(run)
    columns |= _faults(run.active)
    columns["about"] = np.frombuffer(json.dumps(_about(run, about)).encode(), np.uint8)
    _write(path, columns)


def _keys(run: ClusterRun) -> NDArray[np.float64]:
    """float64[queue, parts of a key]."""
    queue = run.scheduler.queue
    return np.array([key for key, _ in queue], np.float64).reshape(len(queue), len(queue[0][0]) if queue else 0)


def _about(run: ClusterRun, about: str) -> dict[str, Any]:
    return {
        "format": FORMAT,
        "of": [fingerprint(run), about],
        **{name: getattr(run.state, name) for name in _STATE_NUMBERS},
        **{name: getattr(run.ledger, name) for name in _LEDGER_NUMBERS},
        **{name: getattr(run, name) for name in _RUN_NUMBERS},
    }


def _lists(name: str, lists: Iterable[Any]) -> dict[str, NDArray[Any]]:
    listed = [np.asarray(one, np.int64).ravel() for one in lists]
    return {
        name: np.concatenate([*listed, np.empty(0, np.int64)]),
        f"{name}_ends": np.cumsum([len(one) for one in listed], dtype=np.int64),
    }


def _marks(marks: Sequence[BookedMark], jobs: int) -> dict[str, NDArray[Any]]:
    return {
        "mark": np.array([(one.time_us, *one.totals, *one.jobs) for one in marks], np.int64).reshape(-1, 6),
        "mark_done": np.array([one.done_us for one in marks], np.int64).reshape(len(marks), jobs),
        "mark_spent": np.array([one.spent for one in marks], np.int64).reshape(len(marks), jobs, 1 + len(LOSSES)),
    }


def _faults(active: Mapping[int, ActiveFault]) -> dict[str, NDArray[Any]]:
    rows = [(number, int(one.effect), one.mode, one.began_us, one.repair_us) for number, one in active.items()]
    return {
        "active": np.array(rows, np.int64).reshape(-1, 5),
        **_lists("active_nodes", (one.nodes for one in active.values())),
        **_lists("active_jobs", (one.jobs for one in active.values())),
    }


def _write(path: Path, columns: Mapping[str, NDArray[Any]]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    with appearing(path) as unfinished, unfinished.open("wb") as handle:
        np.savez(handle, allow_pickle=False, **dict(columns))
        handle.flush()
        os.fsync(handle.fileno())


def load(run: ClusterRun, path: Path, about: str = "") -> bool:
    """Puts a new run where a file says that it was.

    Returns:
        Whether there is such a file, of the same run; of another run it is left alone.

    Raises:
        InputError: The file is broken.
    """
    if not path.is_file():
        return False
    try:
        with opened(path) as handle, np.load(handle, allow_pickle=False) as file:
            columns = {name: file[name] for name in file.files}
        known = json.loads(columns["about"].tobytes())
        if known["format"] != FORMAT or known["of"] != [fingerprint(run), about]:
            return False
        _restore(run, columns, known)
    except (OSError, ValueError, KeyError, EOFError, zipfile.BadZipFile, IndexError, TypeError) as error:
        raise InputError(
            f"the state of the run cannot be read: {error}", file=path, hint="remove it to begin anew"
        ) from None
    return True


def _restore(run: ClusterRun, columns: Mapping[str, NDArray[Any]], known: Mapping[str, Any]) -> None:
    state, ledger = run.state, run.ledger
    for name in _JOB_COLUMNS:
        setattr(state, name, columns[f"job_{name}"].tolist())
    state.hung = [bool(one) for one in state.hung]
    for owner, names in ((state, _STATE_NUMBERS), (ledger, _LEDGER_NUMBERS), (run, _RUN_NUMBERS)):
        for name in names:
            setattr(owner, name, known[name])
    for name in _LEDGER_TABLES:
        rows = columns[f"ledger_{name}"]
        setattr(ledger, name, rows.tolist() if rows.ndim == 1 else [tuple(row) for row in rows.tolist()])
    ledger.out = {node: (since, why) for node, since, why in columns["out"].tolist()}
    marks = zip(*(columns[name].tolist() for name in ("mark", "mark_done", "mark_spent")), strict=True)
    state.marks = [BookedMark(time, done, spent, (a, b, c), (d, e)) for (time, a, b, c, d, e), done, spent in marks]
    state.live_us = {(job, live, asked): spent for job, live, asked, spent in columns["live"].tolist()}
    run.events = [tuple(row) for row in columns["events"].tolist()]
    heapify(run.events)
    run.spares = columns["spares"].tolist()
    state.slowed = [tuple(row) for row in columns["slowed"].tolist()]
    run.active = _active(columns)
    state.usage, state.used = columns["usage"].tolist(), columns["used"].tolist()
    state.broken = columns["broken"].astype(bool)
    state.used_by = columns["used_by"]
    _place(state, columns)
    keys, waiting = columns["queue_keys"].tolist(), columns["queue"].tolist()
    run.scheduler.queue = [(tuple(key), job) for key, job in zip(keys, waiting, strict=True)]
    if run.contention is not None:
        run.contention.restore(state)


def _place(state: State, columns: Mapping[str, NDArray[Any]]) -> None:
    state.free = FreeNodes(state.tree)
    state.free.out(np.flatnonzero(~columns["up"]).astype(np.int32))
    state.placed, state.promise = {}, {}
    state.jobs_of_node = [[] for _ in range(state.tree.nodes)]
    nodes = np.split(columns["placed_nodes"].astype(np.int32), columns["placed_nodes_ends"])
    for job, where, promise in zip(columns["placed"].tolist(), nodes, columns["promise"].tolist(), strict=False):
        state.placed[job], state.promise[job] = where, promise
        state.free.take(where, state.each[job])
        for node in where.tolist():
            state.jobs_of_node[node].append(job)
    state.share_out(columns["owner"])
    state.ends = sorted((promise, job) for job, promise in state.promise.items())


def _active(columns: Mapping[str, NDArray[Any]]) -> dict[int, ActiveFault]:
    nodes = np.split(columns["active_nodes"], columns["active_nodes_ends"])
    jobs = np.split(columns["active_jobs"], columns["active_jobs_ends"])
    return {
        number: ActiveFault(
            tuple(where.tolist()),
            Effect(effect),
            mode,
            began,
            repair,
            [tuple(row) for row in hit.reshape(-1, 3).tolist()],
        )
        for (number, effect, mode, began, repair), where, hit in zip(
            columns["active"].tolist(), nodes, jobs, strict=False
        )
    }
