"""Files of a run: Parquet for programs, a Perfetto trace for eyes."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from railyard.graph.perfetto.events import write_events
from railyard.kit.files import write_frame
from railyard.work.operate.accounts import columns
from railyard.work.operate.ledger import Outcome

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from railyard.work.operate.loop import Operation

MOST_SLICES = 300_000
"""Slices of a trace; beyond that viewers do not open it well, and the largest allocations are shown."""


def write(run: Operation, folder: Path) -> None:
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


def _events(run: Operation) -> Iterator[str]:
    """A process for nodes with a track each, and counters of the cluster."""
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


def _slices(run: Operation) -> Iterator[str]:
    """What each node did; parts of nodes overlap, and are asynchronous slices."""
    rows = sorted(run.ledger.allocations, key=lambda row: (-(row[2] - row[1]) * row[5], row))
    shown = 0
    for number, (job, start, end, outcome, first, count) in enumerate(rows):
        shown += count
        if shown > MOST_SLICES:
            return
        about = {"job": run.jobs.name[job], "tenant": run.jobs.tenants[run.state.tenant[job]]}
        about["outcome"] = Outcome(outcome).name.lower()
        partial = run.state.each[job] < int(run.state.tree.accelerators[run.ledger.nodes[first]])
        for node in run.ledger.nodes[first : first + count]:
            head = {"pid": 1, "tid": node, "name": run.jobs.name[job], "cat": about["tenant"], "args": about}
            if partial:
                yield json.dumps({**head, "ph": "b", "ts": start, "id": number})
                yield json.dumps({**head, "ph": "e", "ts": end, "id": number})
            else:
                yield json.dumps({**head, "ph": "X", "ts": start, "dur": end - start})
