"""The files of the two waists give back what was written."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from railyard.errors import InputError
from railyard.graph import Communicators, Kind, Label, Stream, TaskGraph, Timeline


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
    graph.write_parquet(path)
    again = TaskGraph.read_parquet(path)
    for name in ("kind", "rank", "peer", "duration_ps", "size_bytes", "count", "stream", "label", "dep_ptr", "dep_idx"):
        written, read = getattr(graph, name), getattr(again, name)
        assert read.dtype == written.dtype
        np.testing.assert_array_equal(read, written)
    assert again.labels == graph.labels
    assert again.communicators.group == ["tp", "tp"]
    np.testing.assert_array_equal(again.communicators.members(1), [2, 3])


def test_release_times_travel_with_the_graph(tmp_path: Path) -> None:
    graph = replace(graph_of([[], [0]]), release_ps=np.array([7, 2**50], np.int64), stream=np.full(2, 12, np.uint8))
    graph.write_parquet(tmp_path / "graph.parquet")
    again = TaskGraph.read_parquet(tmp_path / "graph.parquet")
    assert again.release_ps is not None
    assert again.release_ps.dtype == np.int64
    assert again.release_ps.tolist() == [7, 2**50]
    assert again.stream.tolist() == [Stream.FREE, Stream.FREE]


@pytest.mark.parametrize(("column", "word"), [([0, -3], "`release_ps` of task 1"), ([0], "column `release_ps`")])
def test_release_times_are_checked(column: list[int], word: str) -> None:
    with pytest.raises(InputError, match=word):
        replace(graph_of([[], []]), release_ps=np.array(column, np.int64)).validate()


def test_timeline_round_trip(tmp_path: Path) -> None:
    graph = graph_of([[], [0], [0, 1]])
    start = np.array([0, 5, 2**60], np.int64)
    timeline = Timeline(
        graph, start, start + 1, np.array([-1, 0, 1], np.int32), start * 0, start * 0, np.array([1.5, 0.1]), {"seed": 3}
    )
    timeline.write_parquet(tmp_path / "t.parquet")
    again = Timeline.read_parquet(tmp_path / "t.parquet")
    assert again.digest() == timeline.digest()
    assert again.meta == {"seed": 3}
    assert again.makespan_ps == 2**60 + 1


def test_one_format_is_not_read_as_the_other(tmp_path: Path) -> None:
    graph_of([[]]).write_parquet(tmp_path / "g.parquet")
    with pytest.raises(InputError, match="another format"):
        Timeline.read_parquet(tmp_path / "g.parquet")


def test_missing_and_broken_files_are_named(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="no such file"):
        TaskGraph.read_parquet(tmp_path / "none.parquet")
    (tmp_path / "text.parquet").write_text("not parquet")
    with pytest.raises(InputError, match="not readable Parquet"):
        TaskGraph.read_parquet(tmp_path / "text.parquet")


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
