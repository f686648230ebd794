"""Parquet files of the two waists: one row per task, request or flow; what is no row lies in the file's metadata."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Annotated, Any, Literal

import numpy as np
from pydantic import AfterValidator, BaseModel, ConfigDict, Field, JsonValue, TypeAdapter, ValidationError

from railyard.graph.columns import COLUMNS, CORE, TABLES
from railyard.graph.record import Record
from railyard.graph.task_graph import OBLIGATORY, Communicators, Label, TaskGraph
from railyard.kit.errors import InputError
from railyard.kit.files import read_frame, read_metadata, write_frame

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from pathlib import Path

    import polars as pl
    from numpy.typing import NDArray

    from railyard.graph.columns import Column


# Characters of what was found that an error shows.
_LONGEST = 80
_Rank = Annotated[int, Field(ge=0, lt=1 << 31)]


def _rectangle(rows: list[list[float]]) -> list[list[float]]:
    if len({len(row) for row in rows}) > 1:
        raise ValueError("rows of different lengths")
    return rows


class GroupsAbout(BaseModel):
    """Communicators, as `task_graph.Communicators` says."""

    model_config = ConfigDict(strict=True)

    ptr: list[Annotated[int, Field(ge=0, lt=1 << 63)]]
    ranks: list[_Rank]
    group: list[str]


class GraphAbout(BaseModel):
    """Metadata of a task graph, see `task_graph.TaskGraph`."""

    model_config = ConfigDict(strict=True)

    ranks: _Rank
    labels: list[Label]
    communicators: GroupsAbout
    dep_at: list[Literal[0, 1]] | None = None
    loss: Annotated[list[list[float]], AfterValidator(_rectangle)] | None = None


_Names = list[Annotated[str, Field(pattern=r"^\w{1,64}$")]]

_SHAPES: dict[str, Any] = {
    "graph": GraphAbout,
    "labels": list[Label],
    "columns": list[str],
    "tables": _Names,
    "parts": _Names,
    "meta": dict[str, JsonValue],
}
"""Types of the JSON entries. Side tables and parts are in files of their names."""


def entry(metadata: Mapping[str, str], key: str, path: Path) -> Any:
    """One entry that is JSON: "graph" is a `GraphAbout`, "labels" are `Label`s, the others JSON values.

    Raises:
        InputError: It is not there or of another shape.
    """
    try:
        return TypeAdapter(_SHAPES[key]).validate_json(text_of(metadata, key, path), strict=True)
    except ValidationError as error:
        first = error.errors()[0]
        at = ".".join(str(part) for part in (key, *first["loc"]))
        raise InputError(
            f"the file's metadata cannot be used: {first['msg'].lower()}",
            file=path,
            key=at,
            found=repr(first["input"])[:_LONGEST],
        ) from error


def text_of(metadata: Mapping[str, str], key: str, path: Path) -> str:
    """One entry as it stands.

    Raises:
        InputError: It is not there.
    """
    if key not in metadata:
        raise InputError("the file's metadata lack an entry", file=path, key=key)
    return metadata[key]


GRAPH_FORMAT = "railyard/1 task graph"
RECORD_FORMAT = "railyard/1 record"
TABLE_FORMAT = "railyard/1 table of a record"
# By name: its type.
_GRAPH_COLUMNS = {name: np.dtype(kind).name for name, (_, kind) in OBLIGATORY.items()}
# By the field of the graph: its name in the file and its type.
_OPTIONAL_COLUMNS = {
    "loss_index": ("beside", "int32"),
    "release_ps": ("release_ps", "int64"),
    "delay_ps": ("delay_ps", "int64"),
    "need": ("need", "int32"),
}


def write_graph(graph: TaskGraph, path: Path) -> None:
    """Writes the graph alone; the file appears whole or not at all."""
    write_frame(path, _graph_frame(graph), {"format": GRAPH_FORMAT, "graph": _graph_metadata(graph)})


def read_graph(path: Path) -> TaskGraph:
    """Reads a graph.

    Raises:
        InputError: The file is missing or of another format.
    """
    frame, metadata = _read(path, GRAPH_FORMAT)
    return _graph(frame, metadata, path)


def write_record(record: Record, path: Path, *, figures: Mapping[str, NDArray[Any]] | None = None) -> None:
    """Writes the rows, with the columns of the task graph where there is one; side tables and parts get own files.

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
        "labels": json.dumps(_plain(record.labels)) if graph is None else "",
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
    graph = _graph(frame, metadata, path) if "graph" in metadata else None
    optional, tables, parts, meta = (entry(metadata, key, path) for key in ("columns", "tables", "parts", "meta"))
    labels = entry(metadata, "labels", path) if graph is None else graph.labels
    side = {name: read_table(file_of(path, name), name) for name in tables}
    beneath = {name: read_record(file_of(path, name)) for name in parts}
    try:
        columns = _arrays(frame, _declared(optional), path)
        return Record(
            rows=text_of(metadata, "rows", path),
            who=columns["who"],
            what=columns["what"],
            start_ps=columns["start_ps"],
            end_ps=columns["end_ps"],
            size_bytes=columns["size_bytes"],
            labels=labels,
            optional={name: columns[name] for name in optional},
            tables=side,
            parts=beneath,
            meta=meta,
            work=graph,
        )
    except InputError as error:
        raise error.located(file=path) from None


def is_record(path: Path) -> bool:
    """Whether the rows of a record lie in a file."""
    try:
        return read_metadata(path).get("format") == RECORD_FORMAT
    except InputError:
        return False


def file_of(path: Path, name: str) -> Path:
    """File of a side table or a part of the record at `path`: `timeline.links.parquet` of `timeline.parquet`."""
    return path.with_name(f"{path.stem}.{name}{path.suffix}")


def read_table(path: Path, name: str) -> dict[str, NDArray[Any]]:
    """A side table of a record by itself.

    Raises:
        InputError: The file is missing or of another format.
    """
    frame, known = _read(path, TABLE_FORMAT)[0], TABLES.get(name).columns
    if unknown := [column for column in frame.columns if column not in known]:
        raise InputError(f"no such column of the table `{name}`", file=path, found=unknown[0], allowed=list(known))
    return _arrays(frame, {column: known[column] for column in frame.columns}, path)


def _declared(optional: Iterable[str]) -> dict[str, Column]:
    return {**CORE, **{name: COLUMNS.get(name) for name in optional}}


def _frame(columns: Mapping[str, NDArray[Any]], declared: Mapping[str, Column]) -> pl.DataFrame:
    """Columns as a frame; times that never came are null."""
    import polars as pl

    frame = pl.DataFrame({name: np.ascontiguousarray(values) for name, values in columns.items()})
    moments = [pl.col(name) for name in columns if declared[name].moment]
    return frame.with_columns(pl.when(one >= 0).then(one).name.keep() for one in moments)


def _arrays(frame: pl.DataFrame, declared: Mapping[str, Column], path: Path) -> dict[str, NDArray[Any]]:
    return {name: _array(frame, name, column.dtype, path, column.moment) for name, column in declared.items()}


def _array(frame: pl.DataFrame, name: str, dtype: str, path: Path, moment: bool = False) -> NDArray[Any]:
    """A column of the type that it must have, every row with a value; of a time that never came it is -1.

    A row may be an array of such values: samples of several links.
    """
    import polars as pl

    if name not in frame.columns:
        raise InputError("the file lacks a column", file=path, found=", ".join(frame.columns), allowed=name)
    column = frame[name]
    if str(getattr(column.dtype, "inner", column.dtype)).lower() != dtype or column.dtype.base_type() is pl.List:
        raise InputError(f"column `{name}` is of another type", file=path, found=column.dtype, allowed=dtype)
    if moment:
        column = column.fill_null(-1)
    if column.null_count():
        raise InputError(f"column `{name}` has rows without a value", file=path, found=f"{column.null_count()} rows")
    return column.to_numpy()


def _graph_frame(graph: TaskGraph) -> pl.DataFrame:
    import polars as pl

    fields = {name: name for name in _GRAPH_COLUMNS} | {field: name for field, (name, _) in _OPTIONAL_COLUMNS.items()}
    columns = {name: getattr(graph, field) for field, name in fields.items()}
    frame = pl.DataFrame({name: values for name, values in columns.items() if values is not None})
    return frame.with_columns(_lists(graph.dep_ptr, graph.dep_idx).alias("dependencies"))


def _lists(ptr: NDArray[np.int64], idx: NDArray[np.int32]) -> pl.Series:
    """Rows of a pointer as lists, null where a row is empty.

    Lists of one length are a table, which takes a third of the time of grouping the rows.
    """
    import polars as pl

    length = np.diff(ptr)
    place, parts, count = np.empty(len(length), np.int64), [pl.Series([], dtype=pl.List(pl.Int32))], 0
    for width in np.unique(length).tolist():
        rows = np.flatnonzero(length == width)
        if width:
            parts.append(pl.Series(idx[ptr[rows, None] + np.arange(width)]).cast(pl.List(pl.Int32)))
        else:
            parts.append(pl.Series([None], dtype=pl.List(pl.Int32)))
        place[rows] = count + (np.arange(len(rows)) if width else 0)
        count += len(parts[-1])
    return pl.concat(parts).gather(place)


def _graph_metadata(graph: TaskGraph) -> str:
    return json.dumps(
        {
            "ranks": graph.ranks,
            "labels": _plain(graph.labels),
            "communicators": {
                "ptr": graph.communicators.ptr.tolist(),
                "ranks": graph.communicators.ranks.tolist(),
                "group": graph.communicators.group,
            },
            "dep_at": None if graph.dep_at is None else graph.dep_at.tolist(),
            "loss": None if graph.loss is None else graph.loss.tolist(),
        }
    )


def _plain(labels: Sequence[Label]) -> list[dict[str, str | int]]:
    """Labels as mappings; `asdict` copies each value deeply, which took a fifth of the whole run of a long step."""
    return [vars(label) for label in labels]


def _graph(frame: pl.DataFrame, metadata: Mapping[str, str], path: Path) -> TaskGraph:
    about = entry(metadata, "graph", path)
    ptr, idx = _dependencies(frame, path)
    groups = about.communicators
    optional = {field: (name, dtype) for field, (name, dtype) in _OPTIONAL_COLUMNS.items() if name in frame.columns}
    graph = TaskGraph(
        ranks=about.ranks,
        **{name: _array(frame, name, dtype, path) for name, dtype in _GRAPH_COLUMNS.items()},
        dep_ptr=ptr,
        dep_idx=idx,
        labels=about.labels,
        communicators=Communicators(
            np.array(groups.ptr, np.int64), np.array(groups.ranks, np.int32), list(groups.group)
        ),
        **{field: _array(frame, name, dtype, path) for field, (name, dtype) in optional.items()},
        dep_at=None if about.dep_at is None else np.array(about.dep_at, np.uint8),
        loss=np.array(about.loss, np.float64) if about.loss else None,
    )
    try:
        return graph.validate()
    except InputError as error:
        raise error.located(file=path) from None


def _dependencies(frame: pl.DataFrame, path: Path) -> tuple[NDArray[np.int64], NDArray[np.int32]]:
    """Lists of tasks as pointer and indices."""
    import polars as pl

    if frame.schema.get("dependencies") != pl.List(pl.Int32):
        found = frame.schema.get("dependencies", "no such column")
        raise InputError("column `dependencies` cannot be used", file=path, found=found, allowed="lists of int32")
    lists = frame["dependencies"].list.drop_nulls()
    ptr = np.zeros(len(frame) + 1, np.int64)
    np.cumsum(lists.list.len().fill_null(0).to_numpy(), out=ptr[1:])
    return ptr, lists.explode(empty_as_null=False, keep_nulls=False).to_numpy()


def _read(path: Path, wanted: str) -> tuple[pl.DataFrame, dict[str, str]]:
    if not path.is_file():
        raise InputError("there is no such file", file=path)
    metadata = read_metadata(path)
    found = metadata.get("format", "no format named in its metadata")
    if found != wanted:
        raise InputError("the file is of another format", file=path, found=found, allowed=wanted)
    return read_frame(path), metadata
