"""The files of the two waists give back what was written."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from railyard.graph import Communicators, Kind, Label, Record, Stream, TaskGraph, parquet
from railyard.kit.errors import InputError


def graph_of(dependencies: list[list[int]], ranks: int = 4) -> TaskGraph:
    n = len(dependencies)
    ptr = np.concatenate([[0], np.cumsum([len(row) for row in dependencies])]).astype(np.int64)
    return TaskGraph(
        ranks=ranks,
        kind=np.full(n, Kind.COMPUTE, np.uint8),
        rank=(np.arange(n) % ranks).astype(np.int32),
        peer=np.full(n, -1, np.int32),
        duration_ps=np.arange(n, dtype=np.int64) * 10**12,
        size_bytes=np.zeros(n, np.int64),
        count=np.ones(n, np.int32),
        collective=np.zeros(n, np.uint8),
        stream=np.zeros(n, np.uint8),
        label=np.zeros(n, np.int32),
        dep_ptr=ptr,
        dep_idx=np.array([d for row in dependencies for d in row], np.int32),
        labels=[Label("forward", "attention", "tp", 3, 7)],
        communicators=Communicators(np.array([0, 2, 4]), np.array([0, 1, 2, 3], np.int32), ["tp", "tp"]),
    )


@st.composite
def dependency_lists(draw: st.DrawFn) -> list[list[int]]:
    n = draw(st.integers(1, 12))
    return [draw(st.lists(st.integers(0, n - 1), max_size=3)) for _ in range(n)]


@given(dependency_lists())
@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_graph_round_trip(tmp_path: Path, dependencies: list[list[int]]) -> None:
    graph = graph_of(dependencies)
    path = tmp_path / "graph.parquet"
    parquet.write_graph(graph, path)
    again = parquet.read_graph(path)
    for name in ("kind", "rank", "peer", "duration_ps", "size_bytes", "count", "stream", "label", "dep_ptr", "dep_idx"):
        written, read = getattr(graph, name), getattr(again, name)
        assert read.dtype == written.dtype
        np.testing.assert_array_equal(read, written)
    assert again.labels == graph.labels
    assert again.communicators.group == ["tp", "tp"]
    np.testing.assert_array_equal(again.communicators.members(1), [2, 3])


def test_release_times_travel_with_the_graph(tmp_path: Path) -> None:
    graph = replace(graph_of([[], [0]]), release_ps=np.array([7, 2**50], np.int64), stream=np.full(2, 12, np.uint8))
    parquet.write_graph(graph, tmp_path / "graph.parquet")
    again = parquet.read_graph(tmp_path / "graph.parquet")
    assert again.release_ps is not None
    assert again.release_ps.dtype == np.int64
    assert again.release_ps.tolist() == [7, 2**50]
    assert again.stream.tolist() == [Stream.FREE, Stream.FREE]


def test_a_step_comes_back_with_its_tables_and_its_flows(tmp_path: Path) -> None:
    graph = graph_of([[], [0], [0, 1]])
    start = np.array([0, 5, 2**60], np.int64)
    flows = Record(
        rows="flows",
        who=np.array([3, 7], np.int32),
        what=np.array([1, 0], np.int32),
        start_ps=np.array([11, -1], np.int64),
        end_ps=np.array([2**62, -1], np.int64),
        size_bytes=np.array([4097, 0], np.int64),
        labels=[Label("", "dp all-reduce"), Label("", "pp transfer")],
        optional={"target": np.array([7, 3], np.int32)},
        meta={"packets": {"new": 5}},
    )
    series = {"time_ps": np.array([0, 9], np.int64), "utilization": np.array([[0.5, 1], [0, 0.25]], np.float32)}
    record = Record.of_tasks(
        graph,
        start,
        start + 1,
        optional={"blocker": np.array([-1, 0, 1], np.int32), "alone_ps": start * 0},
        tables={"links": {"bytes": np.array([1.5, 0.1])}, "link_series": series},
        parts={"flows": flows},
        meta={"seed": 3, "digest": "f00"},
    )
    parquet.write_record(record, tmp_path / "t.parquet")
    again = parquet.read_record(tmp_path / "t.parquet")
    assert (again.meta, again.digest(), again.makespan_ps) == ({"seed": 3, "digest": "f00"}, "f00", 2**60 + 1)
    assert again.graph.dependencies(2).tolist() == [0, 1]
    assert again.column("blocker").tolist() == [-1, 0, 1]
    assert again.table("links")["bytes"].tolist() == [1.5, 0.1]
    assert again.table("link_series")["utilization"].tolist() == [[0.5, 1], [0, 0.25]]
    for name in ("who", "what", "start_ps", "end_ps", "size_bytes", "target"):
        np.testing.assert_array_equal(again.parts["flows"].column(name), flows.column(name))
    assert list(again.parts["flows"].labels) == flows.labels


def test_a_time_that_never_came_is_null_in_the_file(tmp_path: Path) -> None:
    graph = graph_of([[], []])
    times = np.array([4, -1], np.int64)
    parquet.write_record(Record.of_tasks(graph, times, times), tmp_path / "t.parquet")
    frame = pl.read_parquet(tmp_path / "t.parquet")
    assert frame["end_ps"].to_list() == [4, None]
    assert frame["what"].to_list() == [0, 0]
    assert parquet.read_record(tmp_path / "t.parquet").end_ps.tolist() == [4, -1]


@pytest.mark.parametrize(
    ("column", "value", "message"),
    [
        ("rank", [9, 0], "`rank` of entry 0"),
        ("kind", [0, 7], "`kind` of entry 1"),
        ("label", [0, 1], "`label` of entry 1"),
        ("duration_ps", [0, -1], "`duration_ps` of task 1"),
        ("count", [1, 0], "`count` of task 1"),
        ("stream", [0], "column `stream`"),
    ],
)
def test_a_column_out_of_range_is_named(column: str, value: list[int], message: str) -> None:
    graph = graph_of([[], []])
    broken = TaskGraph(**{**graph.__dict__, column: np.array(value, getattr(graph, column).dtype)})
    with pytest.raises(InputError, match=message):
        broken.validate()


def spoil(path: Path, **entries: str | None) -> Path:
    """The file with other entries in its metadata; None: without it."""
    metadata = {**pl.read_parquet_metadata(path), **entries}
    rows = pl.read_parquet(path)
    rows.write_parquet(
        path, metadata={key: text for key, text in metadata.items() if text is not None and ":" not in key}
    )
    return path


GROUPS = '{"ranks": 4, "labels": [], "communicators": {"ptr": %s, "ranks": %s, "group": ["tp", "tp"]}}'


@pytest.mark.parametrize(
    ("graph", "message"),
    [
        (None, "lack an entry"),
        ("{", "cannot be used"),
        ("{}", r"graph\.ranks"),
        (GROUPS % ("[0, 2, 4]", "[0, 1, 2, 4]"), "rank of a communicator"),
        (GROUPS % ("[0, 3, 2]", "[0, 1]"), "rise from 0"),
        (GROUPS % ("[0, 2]", "[0, 1]"), "2 entries"),
        (GROUPS % ("[0, 2, 2]", "[0, 2147483648]"), r"communicators\.ranks\.1"),
        ('{"ranks": 4, "labels": [{"phase": 1, "op": ""}]}', r"graph\.labels\.0\.phase"),
        (GROUPS[:-1] % ("[0, 1, 1]", "[0]") + ', "loss": [[0.5], []]}', "rows of different lengths"),
    ],
)
def test_a_graph_with_other_metadata_is_refused(tmp_path: Path, graph: str | None, message: str) -> None:
    path = tmp_path / "graph.parquet"
    parquet.write_graph(graph_of([[], [0]]), path)
    with pytest.raises(InputError, match=message) as refused:
        parquet.read_graph(spoil(path, graph=graph))
    assert "graph.parquet" in str(refused.value)


@pytest.mark.parametrize(
    ("column", "message"),
    [
        (pl.lit(0, pl.Int64).alias("rank"), "of another type"),
        (pl.lit(None, pl.Int32).alias("rank"), "rows without a value"),
        (pl.lit(0, pl.Int32).alias("dependencies"), "lists of int32"),
    ],
)
def test_a_graph_with_another_column_is_refused(tmp_path: Path, column: pl.Expr, message: str) -> None:
    path = tmp_path / "graph.parquet"
    parquet.write_graph(graph_of([[], [0]]), path)
    metadata = {key: text for key, text in pl.read_parquet_metadata(path).items() if ":" not in key}
    pl.read_parquet(path).with_columns(column).write_parquet(path, metadata=metadata)
    with pytest.raises(InputError, match=message):
        parquet.read_graph(path)


@pytest.mark.parametrize(
    ("entries", "message"),
    [
        ({"tables": '["../links"]'}, r"tables\.0"),
        ({"columns": '["nothing"]'}, "nothing"),
        ({"columns": "7"}, "columns"),
        ({"rows": "cables"}, "cables"),
        ({"meta": None}, "lack an entry"),
    ],
)
def test_a_record_with_other_metadata_is_refused(tmp_path: Path, entries: dict[str, str], message: str) -> None:
    path = tmp_path / "record.parquet"
    none = np.zeros(2, np.int32)
    moments = np.array([5, 9], np.int64)
    parquet.write_record(Record("flows", none, none, moments, moments + 4, moments, [Label("", "flow")]), path)
    assert parquet.read_record(path).end_ps.tolist() == [9, 13]
    with pytest.raises(InputError, match=message) as refused:
        parquet.read_record(spoil(path, **entries))
    assert "record.parquet" in str(refused.value)
