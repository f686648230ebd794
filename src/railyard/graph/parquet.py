"""Parquet files of the two waists: a row a task, request or flow; what is no row lies in the file's metadata."""

from __future__ import annotations

import json
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

import numpy as np

from railyard.errors import InputError
from railyard.files import read_frame, write_frame
from railyard.graph.columns import COLUMNS, CORE, TABLES
from railyard.graph.record import Record
from railyard.graph.task_graph import Communicators, Label, TaskGraph

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from pathlib import Path

    import polars as pl
    from numpy.typing import NDArray

    from railyard.graph.columns import Column

GRAPH_FORMAT = "railyard/1 task graph"
RECORD_FORMAT = "railyard/1 record"
TABLE_FORMAT = "railyard/1 table of a record"
_GRAPH_COLUMNS = ("kind", "rank", "peer", "duration_ps", "size_bytes", "count", "collective", "stream", "label")
# By the field of the graph: its name in the file.
_OPTIONAL_COLUMNS = {"loss_index": "beside", "release_ps": "release_ps", "delay_ps": "delay_ps", "need": "need"}


def write_graph(graph: TaskGraph, path: Path) -> None:
    """Writes the graph alone; the file appears whole or not at all."""
    write_frame(path, _graph_frame(graph), {"format": GRAPH_FORMAT, "graph": _graph_metadata(graph)})


def read_graph(path: Path) -> TaskGraph:
    """Reads a graph.

    Raises:
        InputError: The file is missing or of another format.
    """
    frame, metadata = _read(path, GRAPH_FORMAT)
    return _graph(frame, metadata["graph"])


def write_record(record: Record, path: Path, *, figures: Mapping[str, NDArray[Any]] | None = None) -> None:
    """Writes the rows, with the columns of the task graph where there is one; side tables and parts beside them.

    Every file appears complete or not at all; that of the rows comes last.

    Args:
        record: What happened.
        path: Of the rows.
        figures: Further columns, measured of the record; who reads it again does not get them.
    """
    for name, part in record.parts.items():
        write_record(part, file_of(path, name))
    for name, table in record.tables.items():
        about = {"format": TABLE_FORMAT, "table": name}
        write_frame(file_of(path, name), _frame(table, TABLES.get(name).columns), about)
    graph = record.work if isinstance(record.work, TaskGraph) else None
    metadata = {
        "format": RECORD_FORMAT,
        "rows": record.rows,
        "labels": json.dumps([asdict(label) for label in record.labels]) if graph is None else "",
        "columns": json.dumps(list(record.optional)),
        "tables": json.dumps(list(record.tables)),
        "parts": json.dumps(list(record.parts)),
        "meta": json.dumps(record.meta),
    }
    frame = _frame({name: record.column(name) for name in (*CORE, *record.optional)}, _declared(record.optional))
    if graph is not None:
        import polars as pl

        metadata["graph"] = _graph_metadata(graph)
        frame = pl.concat([_graph_frame(graph), frame.drop("size_bytes")], how="horizontal")
    write_frame(path, frame.with_columns(**(figures or {})), metadata)


def read_record(path: Path) -> Record:
    """Reads a record with its side tables, its parts, and the task graph where the file has one.

    Raises:
        InputError: A file is missing or of another format.
    """
    frame, metadata = _read(path, RECORD_FORMAT)
    graph = _graph(frame, metadata["graph"]) if "graph" in metadata else None
    optional = json.loads(metadata["columns"])
    columns = _arrays(frame.select([*CORE, *optional]), _declared(optional))
    return Record(
        rows=metadata["rows"],
        who=columns["who"],
        what=columns["what"],
        start_ps=columns["start_ps"],
        end_ps=columns["end_ps"],
        size_bytes=columns["size_bytes"],
        labels=[Label(**label) for label in json.loads(metadata["labels"])] if graph is None else graph.labels,
        optional={name: columns[name] for name in optional},
        tables={name: read_table(file_of(path, name), name) for name in json.loads(metadata["tables"])},
        parts={name: read_record(file_of(path, name)) for name in json.loads(metadata["parts"])},
        meta=json.loads(metadata["meta"]),
        work=graph,
    )


def is_record(path: Path) -> bool:
    """Whether the rows of a record lie in a file."""
    import polars as pl
    from polars.exceptions import PolarsError

    try:
        return pl.read_parquet_metadata(path).get("format") == RECORD_FORMAT
    except (OSError, PolarsError):
        return False


def file_of(path: Path, name: str) -> Path:
    """Where a side table or a part of the record at `path` lies: `timeline.links.parquet` of `timeline.parquet`."""
    return path.with_name(f"{path.stem}.{name}{path.suffix}")


def read_table(path: Path, name: str) -> dict[str, NDArray[Any]]:
    """A side table of a record by itself.

    Raises:
        InputError: The file is missing or of another format.
    """
    return _arrays(_read(path, TABLE_FORMAT)[0], TABLES.get(name).columns)


def _declared(optional: Iterable[str]) -> dict[str, Column]:
    return {**CORE, **{name: COLUMNS.get(name) for name in optional}}


def _frame(columns: Mapping[str, NDArray[Any]], declared: Mapping[str, Column]) -> pl.DataFrame:
    """Columns as a frame; times that never came are null."""
    import polars as pl

    frame = pl.DataFrame({name: np.ascontiguousarray(values) for name, values in columns.items()})
    moments = [pl.col(name) for name in columns if declared[name].moment]
    return frame.with_columns(pl.when(one >= 0).then(one).name.keep() for one in moments)


def _arrays(frame: pl.DataFrame, declared: Mapping[str, Column]) -> dict[str, NDArray[Any]]:
    known = {name: frame[name].fill_null(-1) if declared[name].moment else frame[name] for name in frame.columns}
    return {name: series.to_numpy() for name, series in known.items()}


def _graph_frame(graph: TaskGraph) -> pl.DataFrame:
    import polars as pl

    fields = {name: name for name in _GRAPH_COLUMNS} | _OPTIONAL_COLUMNS
    columns = {name: getattr(graph, field) for field, name in fields.items()}
    frame = pl.DataFrame({name: values for name, values in columns.items() if values is not None})
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
            "dep_at": None if graph.dep_at is None else graph.dep_at.tolist(),
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
        **{field: frame[name].to_numpy() for field, name in _OPTIONAL_COLUMNS.items() if name in frame.columns},
        dep_at=None if about.get("dep_at") is None else np.array(about["dep_at"], np.uint8),
        loss=np.array(about["loss"], np.float64) if about.get("loss") else None,
    ).validate()


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
        return read_frame(path), metadata
    except PolarsError as error:
        raise InputError("the file is not readable Parquet", file=path, found=str(error).splitlines()[0]) from error
