"""The files of the two waists give back what was written."""

from __future__ import annotations

import gzip
import itertools
import json
from collections import defaultdict
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
import polars as pl
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from railyard.graph import Communicators, Kind, Label, Record, Stream, TaskGraph, parquet, perfetto
from railyard.graph.job import track_name, tracks_of
from railyard.kit.errors import InputError

if TYPE_CHECKING:
    from pathlib import Path


def graph_of(dependencies: list[list[int]], ranks: int = 4) -> TaskGraph:
    n = len(dependencies)
    return TaskGraph.of(
        ranks,
        rank=np.arange(n) % ranks,
        duration_ps=np.arange(n) * 10**12,
        waits=dependencies,
        labels=[Label("forward", "attention", "tp", 3, 7)],
        communicators=Communicators.of([[0, 1], [2, 3]], "tp"),
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


# The Perfetto export: valid Chrome trace JSON, whole tracks, no overlap after cutting to nanoseconds, nothing
# lost.


def a_timeline(times, *, ranks=3, series=None):
    """Computations on rank 0, then a transfer 0 to 1, a computation on 1 that waits for it, and a collective of all."""
    n = len(times) + 3
    start, end = np.zeros(n, np.int64), np.zeros(n, np.int64)
    clock = 0
    for index, (pause, took) in enumerate([*times, (0, 2_500), (0, 7_777), (0, 1_001)]):
        start[index], end[index] = clock + pause, clock + pause + took
        clock = int(end[index])
    kind, stream, rank, peer = (np.full(n, usual) for usual in (Kind.COMPUTE, Stream.COMPUTE, 0, -1))
    kind[-3], kind[-1] = Kind.TRANSFER, Kind.COLLECTIVE
    stream[-3], stream[-1] = Stream.FORWARD, Stream.GRADIENT
    peer[-3], rank[-2] = 1, 1
    blocker = np.arange(-1, n - 1, dtype=np.int32)
    graph = TaskGraph.of(
        ranks,
        kind=kind,
        rank=rank,
        peer=peer,
        duration_ps=end - start,
        size_bytes=4096,
        stream=stream,
        label=np.minimum(np.arange(n), 1),
        labels=[Label("forward", "mlp", "", 3, 0), Label("gradient", "all reduce", "dp")],
        communicators=Communicators.of([range(ranks)], "dp"),
    ).validate()
    zero = np.zeros(n, np.int64)
    optional = {"blocker": blocker, "alone_ps": zero, "latency_ps": zero}
    return Record.of_tasks(graph, start, end, optional=optional, tables=series, meta={"engine": "flow", "seed": 7})


def read(path):
    return json.loads(path.read_text(encoding="utf-8"))


def by_phase(trace):
    found = defaultdict(list)
    for event in trace["traceEvents"]:
        found[event["ph"]].append(event)
    return found


def test_the_file_is_valid_chrome_trace_json(tmp_path):
    perfetto.write(a_timeline([(0, 10_000), (500, 20_000)]), tmp_path / "trace.json")
    trace = read(tmp_path / "trace.json")
    assert trace["displayTimeUnit"] == "ns"
    assert trace["otherData"] == {"engine": "flow", "seed": "7"}
    for event in trace["traceEvents"]:
        assert event["ph"] in {"X", "M", "s", "f", "C"}
        assert isinstance(event["pid"], int)
        assert isinstance(event["tid"], int)
        if event["ph"] != "M":
            assert event["ts"] >= 0
        if event["ph"] == "X":
            assert event["dur"] > 0
            assert event["name"]
            assert isinstance(event["args"], dict)
    assert not list(tmp_path.glob("*.tmp"))


def test_one_track_a_rank_and_stream_with_its_name(tmp_path):
    perfetto.write(a_timeline([(0, 10_000)]), tmp_path / "trace.json")
    found = by_phase(read(tmp_path / "trace.json"))
    names = {(e["pid"], e["tid"]): e["args"]["name"] for e in found["M"] if e["name"] == "thread_name"}
    assert names == {
        (0, 0): "compute",
        (0, 2): "gradient",
        (0, 3): "forward",
        (1, 0): "compute",
        (1, 2): "gradient",
        (2, 2): "gradient",
    }
    assert {e["args"]["name"] for e in found["M"] if e["name"] == "process_name"} == {"rank 0", "rank 1", "rank 2"}
    # The collective is drawn on each of its three members.
    assert [e["pid"] for e in found["X"] if e["name"] == "gradient all reduce dp" and e["tid"] == 2] == [0, 1, 2]


def test_names_and_arguments_say_what_a_task_is(tmp_path):
    perfetto.write(a_timeline([(0, 10_000)]), tmp_path / "trace.json")
    slices = by_phase(read(tmp_path / "trace.json"))["X"]
    first = slices[0]
    assert (first["name"], first["cat"]) == ("forward mlp", "forward")
    assert first["args"] == {"task": 0, "layer": 3, "micro_batch": 0}
    shared = next(e for e in slices if e["tid"] == 2)
    assert shared["args"]["collective"] == "all_reduce"
    assert shared["args"]["bytes"] == 4096


def test_an_arrow_leads_from_a_transfer_to_what_it_released(tmp_path):
    perfetto.write(a_timeline([(0, 10_000)]), tmp_path / "trace.json")
    found = by_phase(read(tmp_path / "trace.json"))
    (begin,), (end,) = found["s"], found["f"]
    assert begin["id"] == end["id"]
    assert (begin["pid"], begin["tid"]) == (0, Stream.FORWARD)
    assert (end["pid"], end["tid"], end["bp"]) == (1, Stream.COMPUTE, "e")


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(times=st.lists(st.tuples(st.integers(0, 3_000), st.integers(0, 5_000)), max_size=20))
def test_slices_never_overlap_and_cover_what_ran(tmp_path, times):
    """Read back as viewers do (microseconds as doubles, rounded to nanoseconds)."""
    line = a_timeline(times)
    perfetto.write(line, tmp_path / "trace.json")
    tracks = defaultdict(list)
    for event in by_phase(read(tmp_path / "trace.json"))["X"]:
        begin, took = round(event["ts"] * 1000), round(event["dur"] * 1000)
        tracks[event["pid"], event["tid"]].append((begin, begin + took))
        task = event["args"]["task"]
        assert begin == line.start_ps[task] // 1000
        assert begin + took == line.end_ps[task] // 1000
    for track in tracks.values():
        assert all(now[1] <= then[0] for now, then in itertools.pairwise(track))


def test_late_times_keep_their_nanoseconds(tmp_path):
    """A step that starts after 100 days still has exact nanoseconds in a double of microseconds."""
    day_ps = 86_400 * 10**12
    perfetto.write(a_timeline([(100 * day_ps + 123_000, 1_000)]), tmp_path / "trace.json")
    first = by_phase(read(tmp_path / "trace.json"))["X"][0]
    assert round(first["ts"] * 1000) == (100 * day_ps + 123_000) // 1000


def test_chosen_ranks_only(tmp_path):
    perfetto.write(a_timeline([(0, 10_000)]), tmp_path / "trace.json", ranks=[2, 2])
    found = by_phase(read(tmp_path / "trace.json"))
    assert {event["pid"] for event in found["X"]} == {2}
    assert not found["s"]
    with pytest.raises(InputError, match="no such rank"):
        perfetto.write(a_timeline([]), tmp_path / "other.json", ranks=[3])


def test_compressed_files_hold_the_same_and_have_no_date(tmp_path):
    line = a_timeline([(0, 10_000)])
    for name in ("a.json", "a.json.gz", "b.json.gz"):
        perfetto.write(line, tmp_path / name)
    packed = (tmp_path / "a.json.gz").read_bytes()
    assert packed == (tmp_path / "b.json.gz").read_bytes()
    assert gzip.decompress(packed) == (tmp_path / "a.json").read_bytes()


def test_link_samples_become_counters(tmp_path):
    utilization = np.array([[0.25, 1.0], [0.5, 0.0]], np.float32)
    series = {
        "sampled_links": {"link": np.array([4, 9], np.int32)},
        "link_series": {"time_ps": np.array([0, 5_000]), "utilization": utilization},
    }
    perfetto.write(a_timeline([], series=series), tmp_path / "trace.json")
    found = [(e["name"], e["ts"], e["args"]["percent"]) for e in by_phase(read(tmp_path / "trace.json"))["C"]]
    assert found == [("link 4", 0.0, 25.0), ("link 4", 0.005, 50.0), ("link 9", 0.0, 100.0), ("link 9", 0.005, 0.0)]


def test_tasks_that_run_at_the_same_time_get_lanes_of_their_own():
    """Overlaps of three at most need three lanes, and the lowest one that is free is taken again."""
    start = np.array([0, 10, 20, 30, 25, 0], np.int64)
    end = np.array([30, 40, 25, 50, 26, 5], np.int64)
    stream = np.array([12, 12, 12, 12, 12, 3], np.int64)
    rank = np.array([1, 1, 1, 1, 1, 1], np.int64)
    track = tracks_of(rank, stream, start, end)
    second, third = max(Stream) + 1, max(Stream) + 2
    assert track.tolist() == [Stream.FREE, second, third, Stream.FREE, third, 3]
    assert [track_name(number) for number in (0, 12, 13, second, third)] == [
        "compute",
        "free",
        "load",
        "free 2",
        "free 3",
    ]
    assert tracks_of(np.arange(6), stream, start, end).tolist() == [12, 12, 12, 12, 12, 3]
