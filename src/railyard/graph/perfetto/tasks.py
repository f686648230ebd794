"""Tasks of a graph for eyes: one process a rank, one track a stream.

Tasks of the stream `FREE`, which may run at the same time, get as many lanes as it takes.
"""

from __future__ import annotations

import gzip
import io
import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from railyard.graph.job import track_name, tracks_of
from railyard.graph.record import tasks_of
from railyard.graph.task_graph import CollectiveKind, Kind
from railyard.kit.errors import InputError
from railyard.kit.files import appearing

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence
    from pathlib import Path

    from numpy.typing import NDArray

    from railyard.graph.record import Record
    from railyard.graph.task_graph import TaskGraph


PS_PER_NS = 1000


def write_events(events: Iterable[str], path: Path, head: Mapping[str, Any]) -> None:
    """Writes a trace; the file appears complete or not at all.

    Args:
        events: Each as JSON.
        path: Where to; a name that ends in `.gz` is compressed (Perfetto opens that too).
        head: Fields of the trace other than its events, at least one.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    with appearing(path) as unfinished, unfinished.open("wb") as raw:
        if path.suffix == ".gz":
            with gzip.GzipFile(filename="", mode="wb", fileobj=raw, mtime=0) as packed:
                _write_text(events, io.TextIOWrapper(packed, encoding="utf-8"), head)
        else:
            _write_text(events, io.TextIOWrapper(raw, encoding="utf-8"), head)


def _write_text(events: Iterable[str], out: io.TextIOWrapper, head: Mapping[str, Any]) -> None:
    out.write(json.dumps(head, separators=(",", ":")).removesuffix("}") + ',"traceEvents":[\n')
    for number, line in enumerate(events):
        out.write(",\n" if number else "")
        out.write(line)
    out.write("\n]}\n")
    out.flush()
    out.detach()


def event(**fields: Any) -> str:
    """One event as JSON."""
    return json.dumps(fields, separators=(",", ":"))


def metadata(name: str, process: int, thread: int, key: str, value: str | int) -> str:
    """The name or place of a process or thread."""
    return event(ph="M", name=name, pid=process, tid=thread, args={key: value})


def microseconds(time_ns: int) -> str:
    """Nanoseconds as an exact decimal of microseconds."""
    return f"{time_ns // 1000}.{time_ns % 1000:03d}"


RANKS = 16
"""Ranks written when none are named: of more, this many spread evenly."""


def _chosen(graph: TaskGraph, ranks: Sequence[int] | None) -> list[int]:
    if ranks is None:
        return sorted({int(rank) for rank in np.linspace(0, graph.ranks - 1, min(graph.ranks, RANKS))})
    for rank in ranks:
        if not 0 <= rank < graph.ranks:
            raise InputError("there is no such rank", key="ranks", found=rank, allowed=f"0 to {graph.ranks - 1}")
    return sorted({int(rank) for rank in ranks})


@dataclass(frozen=True)
class _Slices:
    """The slices of the chosen ranks, by rank, stream and start; times in ns."""

    rank: NDArray[np.int64]
    stream: NDArray[np.int64]
    task: NDArray[np.int64]
    start_ns: NDArray[np.int64]
    end_ns: NDArray[np.int64]


def events(record: Record, chosen: Sequence[int] | None) -> Iterator[str]:
    """Every event of the trace, as JSON.

    Args:
        record: With its graph.
        chosen: Which ranks; None takes up to `RANKS`, spread evenly.

    Raises:
        InputError: A rank does not exist.
    """
    ranks = _chosen(record.graph, chosen)
    slices = _slices(record, ranks)
    yield from _tracks(slices, ranks)
    words = _Words(record)
    columns = (slices.rank, slices.stream, slices.task, slices.start_ns, slices.end_ns)
    for rank, stream, task, start, end in zip(*(column.tolist() for column in columns), strict=True):
        head, args = words.of(task)
        when = f'"ts":{microseconds(start)},"dur":{microseconds(end - start)}'
        yield f'{{"ph":"X","pid":{rank},"tid":{stream},{when},{head},"args":{args}}}'
    yield from _arrows(record, slices)
    yield from _counters(record)


def _slices(record: Record, ranks: Sequence[int]) -> _Slices:
    found = tasks_of(record.graph, ranks)
    start = record.start_ps[found.task] // PS_PER_NS
    end = record.end_ps[found.task] // PS_PER_NS
    stream = tracks_of(found.rank, record.graph.stream[found.task].astype(np.int64), start, end)
    order = np.lexsort((found.task, start, stream, found.rank))
    order = order[end[order] > start[order]]
    return _Slices(found.rank[order], stream[order], found.task[order], start[order], end[order])


def _tracks(slices: _Slices, ranks: Sequence[int]) -> Iterator[str]:
    for rank in ranks:
        yield metadata("process_name", rank, 0, "name", f"rank {rank}")
        yield metadata("process_sort_index", rank, 0, "sort_index", rank)
    for rank, stream in sorted(set(zip(slices.rank.tolist(), slices.stream.tolist(), strict=True))):
        yield metadata("thread_name", rank, stream, "name", track_name(stream))
        yield metadata("thread_sort_index", rank, stream, "sort_index", stream)


class _Words:
    """Name, category and arguments of each task as JSON; what depends on the label alone is made once."""

    def __init__(self, record: Record) -> None:
        self._line = record
        self._heads: dict[int, str] = {}

    def of(self, task: int) -> tuple[str, str]:
        graph = self._line.graph
        label = int(graph.label[task])
        if label not in self._heads:
            self._heads[label] = self._head(label)
        return self._heads[label], json.dumps(self._args(task), separators=(",", ":"))

    def _head(self, label: int) -> str:
        words = self._line.labels[label]
        return f'"name":{json.dumps(words.name)},"cat":{json.dumps(words.group or words.phase or "task")}'

    def _args(self, task: int) -> dict[str, object]:
        line, graph = self._line, self._line.graph
        label = graph.labels[graph.label[task]]
        args: dict[str, object] = {"task": task}
        args |= {
            key: value for key, value in (("layer", label.layer), ("micro_batch", label.micro_batch)) if value >= 0
        }
        kind = graph.kind[task]
        if kind != Kind.COMPUTE:
            args["bytes"] = int(graph.size_bytes[task])
            args |= {"alone_us": float(line.column("alone_ps")[task]) * 1e-6} if line.has("alone_ps") else {}
        if kind == Kind.COLLECTIVE:
            args["collective"] = CollectiveKind(int(graph.collective[task])).name.lower()
            args["communicator"] = int(graph.rank[task])
        if kind == Kind.TRANSFER:
            args["to_rank"] = int(graph.peer[task])
        if graph.count[task] > 1:
            args["count"] = int(graph.count[task])
        return args


def _arrows(record: Record, slices: _Slices) -> Iterator[str]:
    """Arrows from every shown transfer to the shown task on another rank that its end released."""
    if not record.has("blocker"):
        return
    graph = record.graph
    blocker = record.column("blocker")[slices.task].astype(np.int64)
    sent = (blocker >= 0) & (graph.kind[np.maximum(blocker, 0)] == Kind.TRANSFER)
    source = np.full(len(graph), -1, np.int64)
    source[slices.task] = np.arange(len(slices.task))
    origin = np.where(sent, source[np.maximum(blocker, 0)], -1)
    for number, place in enumerate(np.flatnonzero(origin >= 0).tolist()):
        for phase, at, end in (("s", int(origin[place]), ""), ("f", place, '"bp":"e",')):
            yield (
                f'{{"ph":"{phase}",{end}"id":{number},"name":"transfer","cat":"transfer","pid":{slices.rank[at]},'
                f'"tid":{slices.stream[at]},"ts":{microseconds(int(slices.start_ns[at]))}}}'
            )


def _counters(record: Record) -> Iterator[str]:
    """Sampled link utilization, in percent, under a process of its own."""
    if "link_series" not in record.tables:
        return
    series, links = record.table("link_series"), record.table("sampled_links")["link"]
    network = record.graph.ranks
    yield metadata("process_name", network, 0, "name", "network links")
    for column, link in enumerate(links.tolist()):
        for time_ps, share in zip(series["time_ps"].tolist(), series["utilization"][:, column].tolist(), strict=True):
            value = json.dumps({"percent": round(100 * share, 3)}, separators=(",", ":"))
            at = microseconds(time_ps // PS_PER_NS)
            yield f'{{"ph":"C","name":"link {link}","pid":{network},"tid":0,"ts":{at},"args":{value}}}'
