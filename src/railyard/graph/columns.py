"""Parquet forms of the two waists: one row a task, everything that is not a row in the file's metadata."""

from __future__ import annotations

import json
from dataclasses import asdict
from typing import TYPE_CHECKING

import numpy as np

from railyard.errors import InputError
from railyard.graph.task_graph import Communicators, Label, TaskGraph
from railyard.graph.timeline import Timeline

if TYPE_CHECKING:
    from pathlib import Path

    import polars as pl

GRAPH_FORMAT = "railyard/1 task graph"
TIMELINE_FORMAT = "railyard/1 timeline"
_GRAPH_COLUMNS = ("kind", "rank", "peer", "duration_ps", "size_bytes", "count", "collective", "stream", "label")
_OPTIONAL_COLUMNS = ("beside", "release_ps")
_TIME_COLUMNS = ("start_ps", "end_ps", "blocker", "alone_ps", "latency_ps")


def write_graph(graph: TaskGraph, path: Path) -> None:
    """Writes the graph alone; the file appears whole or not at all."""
    _write(_graph_frame(graph), {"format": GRAPH_FORMAT, "graph": _graph_metadata(graph)}, path)


def read_graph(path: Path) -> TaskGraph:
    """Reads a graph.

    Raises:
        InputError: The file is missing or of another format.
    """
    frame, metadata = _read(path, GRAPH_FORMAT)
    return _graph(frame, metadata["graph"])


def write_timeline(timeline: Timeline, path: Path) -> None:
    """Writes graph and times together; the file appears whole or not at all."""
    import polars as pl

    names = [*_TIME_COLUMNS, *(["beside_ps"] if timeline.beside_ps is not None else [])]
    times = pl.DataFrame({name: getattr(timeline, name) for name in names})
    metadata = {
        "format": TIMELINE_FORMAT,
        "graph": _graph_metadata(timeline.graph),
        "meta": json.dumps(timeline.meta),
        "link_bytes": json.dumps([float(value) for value in timeline.link_bytes]),
    }
    _write(pl.concat([_graph_frame(timeline.graph), times], how="horizontal"), metadata, path)


def read_timeline(path: Path) -> Timeline:
    """Reads a timeline with its graph.

    Raises:
        InputError: The file is missing or of another format.
    """
    frame, metadata = _read(path, TIMELINE_FORMAT)
    start, end, blocker, alone, latency = (frame[name].to_numpy() for name in _TIME_COLUMNS)
    link_bytes = np.array(json.loads(metadata["link_bytes"]), np.float64)
    graph, meta = _graph(frame, metadata["graph"]), json.loads(metadata["meta"])
    longer = frame["beside_ps"].to_numpy() if "beside_ps" in frame.columns else None
    return Timeline(graph, start, end, blocker, alone, latency, link_bytes, meta, beside_ps=longer)


def _graph_frame(graph: TaskGraph) -> pl.DataFrame:
    import polars as pl

    names = [*_GRAPH_COLUMNS, *(name for name in _OPTIONAL_COLUMNS if getattr(graph, name) is not None)]
    frame = pl.DataFrame({name: getattr(graph, name) for name in names})
    flat = pl.DataFrame(
        {"row": np.repeat(np.arange(len(graph), dtype=np.int64), np.diff(graph.dep_ptr)), "dep": graph.dep_idx}
    )
    lists = flat.group_by("row", maintain_order=True).agg("dep")
    rows = pl.DataFrame({"row": np.arange(len(graph), dtype=np.int64)})
    return frame.with_columns(
        rows.join(lists, on="row", how="left", maintain_order="left")["dep"].alias("dependencies")
    )


def _graph_metadata(graph: TaskGraph) -> str:
    return json.dumps(
        {
            "ranks": graph.ranks,
            "labels": [asdict(label) for label in graph.labels],
            "communicators": {
                "ptr": graph.communicators.ptr.tolist(),
                "ranks": graph.communicators.ranks.tolist(),
                "group": graph.communicators.group,
            },
            "loss": None if graph.loss is None else graph.loss.tolist(),
        }
    )


def _graph(frame: pl.DataFrame, text: str) -> TaskGraph:
    about = json.loads(text)
    lists = frame["dependencies"]
    lengths = lists.list.len().fill_null(0).to_numpy()
    ptr = np.zeros(len(frame) + 1, np.int64)
    np.cumsum(lengths, out=ptr[1:])
    groups = about["communicators"]
    return TaskGraph(
        ranks=about["ranks"],
        **{name: frame[name].to_numpy() for name in _GRAPH_COLUMNS},
        dep_ptr=ptr,
        dep_idx=lists.drop_nulls().explode().drop_nulls().to_numpy().astype(np.int32),
        labels=[Label(**label) for label in about["labels"]],
        communicators=Communicators(
            np.array(groups["ptr"], np.int64), np.array(groups["ranks"], np.int32), list(groups["group"])
        ),
        **{name: frame[name].to_numpy() for name in _OPTIONAL_COLUMNS if name in frame.columns},
        loss=np.array(about["loss"], np.float64) if about.get("loss") else None,
    ).validate()


def _write(frame: pl.DataFrame, metadata: dict[str, str], path: Path) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    unfinished = path.with_name(path.name + ".tmp")
    frame.write_parquet(unfinished, metadata=metadata)
    unfinished.replace(path)


def _read(path: Path, wanted: str) -> tuple[pl.DataFrame, dict[str, str]]:
    import polars as pl
    from polars.exceptions import PolarsError

    if not path.is_file():
        raise InputError("there is no such file", file=path)
    try:
        metadata = pl.read_parquet_metadata(path)
        found = metadata.get("format", "no format named in its metadata")
        if found != wanted:
            raise InputError("the file is of another format", file=path, found=found, allowed=wanted)
        return pl.read_parquet(path), metadata
    except PolarsError as error:
        raise InputError("the file is not readable Parquet", file=path, found=str(error).splitlines()[0]) from error
