"""A record for eyes: a trace that ui.perfetto.dev and chrome://tracing open."""

from __future__ import annotations

from typing import TYPE_CHECKING

from railyard.graph.perfetto import flows, tasks
from railyard.graph.perfetto.tasks import write_events
from railyard.graph.task_graph import TaskGraph

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from railyard.graph.record import Record


def write(
    record: Record,
    path: Path,
    *,
    ranks: Sequence[int] | None = None,
    link_name: Callable[[int], str] = str,
    who_name: Callable[[int], str] = str,
) -> None:
    """Writes a trace; the file appears complete or not at all.

    Args:
        record: Tasks of a graph get one track per rank and stream, requests one a replica and their phases,
            journeys one process a stage; all else one process for each `who`, in as many lanes as overlap.
        path: Where to; a name that ends in `.gz` is compressed (Perfetto opens that too).
        ranks: Of a task graph, which ranks; None takes up to `tasks.RANKS`, spread evenly.
        link_name: Names the sampled links.
        who_name: Names the replicas.

    Raises:
        InputError: A rank does not exist.
    """
    if isinstance(record.work, TaskGraph):
        about = {name: str(record.meta.get(name, "")) for name in ("engine", "seed")}
        write_events(tasks.events(record, ranks), path, {"displayTimeUnit": "ns", "otherData": about})
    elif record.rows == "journeys":
        write_events(flows.stage_events(record), path, {"displayTimeUnit": "ms"})
    elif "iterations" in record.tables:
        write_events(flows.request_events(record, who_name), path, {"displayTimeUnit": "ms"})
    else:
        about = {"engine": str(record.meta.get("engine", ""))}
        write_events(flows.flow_events(record, link_name), path, {"displayTimeUnit": "ns", "otherData": about})
