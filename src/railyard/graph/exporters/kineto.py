"""Traces as the profiler of PyTorch writes them: a Chrome trace JSON of every rank, in one archive."""

from __future__ import annotations

import json
import zipfile
from typing import TYPE_CHECKING, Any

import numpy as np

from railyard.graph.exporters import Exporter, exporters
from railyard.graph.job import tracks_of
from railyard.graph.perfetto.tasks import PS_PER_NS, RANKS, microseconds
from railyard.graph.record import tasks_of
from railyard.graph.task_graph import HOST, CollectiveKind, Kind
from railyard.kit.files import appearing

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from numpy.typing import NDArray

    from railyard.graph.record import Record

    Ints = NDArray[np.int64]

_NAMES = {
    CollectiveKind.ALL_REDUCE: ("AllReduce", "allreduce"),
    CollectiveKind.ALL_GATHER: ("AllGather", "_allgather_base"),
    CollectiveKind.REDUCE_SCATTER: ("ReduceScatter", "_reduce_scatter_base"),
    CollectiveKind.ALL_TO_ALL: ("SendRecv", "all_to_allv"),
    CollectiveKind.BROADCAST: ("Broadcast", "broadcast"),
    CollectiveKind.REDUCE: ("Reduce", "reduce"),
}
"""Kernels of NCCL and what PyTorch calls the collective."""


def write_archive(record: Record, path: Path) -> None:
    """Writes the archive: `rank-N.json` of up to 16 ranks, spread evenly.

    A communication's kernel starts when its own rank is ready, so that its time contains the wait for the others.
    Launch numbers (`correlation`) follow the order of tasks. What a task waits for on another stream of its rank is a
    `Stream Wait Event`. Collectives that run back to back as one task share its time evenly.
    """
    ranks = record.graph.ranks
    with appearing(path) as unfinished, zipfile.ZipFile(unfinished, "w", zipfile.ZIP_DEFLATED) as archive:
        for rank in sorted({int(one) for one in np.linspace(0, ranks - 1, min(ranks, RANKS))}):
            about = {"schemaVersion": 1, "distributedInfo": {"backend": "nccl", "rank": rank, "world_size": ranks}}
            head = json.dumps(about).removesuffix("}") + ',"traceEvents":[\n'
            # A date of its own, so that equal records give equal archives.
            member = zipfile.ZipInfo(f"rank-{rank}.json", (1980, 1, 1, 0, 0, 0))
            member.compress_type = zipfile.ZIP_DEFLATED
            archive.writestr(member, head + ",\n".join(_RankEvents(record, rank).lines()) + "\n]}\n")


class _RankEvents:
    """The events of one rank, with launch numbers that grow."""

    def __init__(self, record: Record, rank: int) -> None:
        self.record, self.graph, self.rank, self.launches = record, record.graph, rank, 0
        found = tasks_of(self.graph, [rank])
        received = np.flatnonzero((self.graph.kind == Kind.TRANSFER) & (self.graph.peer == rank))
        tasks = np.sort(np.concatenate([found.task, received]))
        start, end = (column[tasks] // PS_PER_NS for column in (record.start_ps, record.end_ps))
        stream = self.graph.stream[tasks].astype(np.int64)
        stream[self.graph.peer[tasks] == rank] += 100  # a queue of its own for what is received
        lanes = tracks_of(np.zeros(len(tasks), np.int64), stream, start, end)
        self.lane = dict(zip(tasks.tolist(), lanes.tolist(), strict=True))
        self.end = dict(zip(tasks.tolist(), end.tolist(), strict=True))
        start = self._ready(tasks, lanes, start)
        self.rows = list(zip(tasks.tolist(), lanes.tolist(), start.tolist(), end.tolist(), strict=True))
        self.recorded: dict[int, int] = {}

    def _ready(self, tasks: Ints, lanes: Ints, start: Ints) -> Ints:
        """int64[n], when this rank could start: of communications before others may have been ready."""
        free: dict[int, int] = {}
        found = start.copy()
        for at in np.argsort(start, kind="stable").tolist():
            task, lane = int(tasks[at]), int(lanes[at])
            if self.graph.kind[task] in (Kind.COLLECTIVE, Kind.TRANSFER):
                own = [self.end[one] for one in self.graph.dependencies(task).tolist() if one in self.end]
                found[at] = min(max([free.get(lane, 0), *own]), int(start[at]))
            free[lane] = max(free.get(lane, 0), self.end[task])
        return found

    def lines(self) -> Iterator[str]:
        """Every event as JSON."""
        last = int(self.record.makespan_ps) // PS_PER_NS
        yield _event("user_annotation", "ProfilerStep#0", 0, last, tid=1)
        for task, lane, start, end in self.rows:
            if self.graph.labels[self.graph.label[task]].phase == HOST:
                continue
            for other in self.graph.dependencies(task).tolist():
                if other in self.recorded and self.lane[other] != lane:
                    of = {"wait_on_stream": self.lane[other], "wait_on_cuda_event_record_corr_id": self.recorded[other]}
                    yield _event("cuda_sync", "Stream Wait Event", start, 0, stream=lane, launch=self._next(), **of)
            yield from self._kernels(task, lane, start, end)
            self.recorded[task] = self._next()

    def _next(self) -> int:
        self.launches += 1
        return self.launches

    def _kernels(self, task: int, lane: int, start: int, end: int) -> Iterator[str]:
        graph, kind = self.graph, Kind(int(self.graph.kind[task]))
        label, count = graph.labels[graph.label[task]], int(graph.count[task])
        size = int(graph.size_bytes[task])
        args: dict[str, Any] = {}
        category, name = "kernel", label.name
        if kind == Kind.COLLECTIVE:
            group = int(graph.rank[task])
            members = graph.communicators.members(group).tolist()
            word, called = _NAMES[CollectiveKind(int(graph.collective[task]))]
            name = f"ncclDevKernel_{word}"
            purpose = graph.communicators.group[group]
            args = _message(called, size, str(group), members) | {"Process Group Description": purpose}
        elif kind == Kind.TRANSFER:
            sends = int(graph.rank[task]) == self.rank
            name = "ncclDevKernel_SendRecv"
            args = _message("send" if sends else "recv", size, label.group or "p2p", [])
            args["Dst Rank" if sends else "Src Rank"] = int(graph.peer[task] if sends else graph.rank[task])
        elif kind != Kind.COMPUTE:
            category = "gpu_memcpy"
        count = count if kind in (Kind.COLLECTIVE, Kind.TRANSFER) else 1
        for number in range(count):
            begins, ends = (start + (end - start) * one // count for one in (number, number + 1))
            yield _event(category, name, begins, ends - begins, stream=lane, launch=self._next(), **args)


def _message(called: str, size_bytes: int, group: str, members: list[int]) -> dict[str, Any]:
    """PyTorch's fields of an NCCL kernel; sizes in bytes."""
    parts = max(len(members), 1)
    share = -(-size_bytes // parts)
    into = share if "gather" in called else size_bytes
    out = share if "reduce_scatter" in called else size_bytes
    found: dict[str, Any] = {"Collective name": called, "In msg nelems": into, "Out msg nelems": out, "dtype": "Byte"}
    found["Process Group Name"] = group
    return found | ({"Group size": parts, "Process Group Ranks": str(members)} if members else {})


def _event(
    category: str, name: str, start_ns: int, duration_ns: int, *, stream: int = 0, launch: int = -1, tid: int = 0,
    **args: Any
) -> str:  # fmt: skip
    named = {"ph": "X", "cat": category, "name": name, "pid": 0, "tid": tid or stream}
    if launch >= 0:
        named["args"] = {"device": 0, "stream": stream, "correlation": launch, **args}
    times = f'"ts":{microseconds(start_ns)},"dur":{microseconds(duration_ns)}'
    return json.dumps(named, separators=(",", ":")).removesuffix("}") + "," + times + "}"


exporters.add(
    "kineto", Exporter("kineto", "Traces as PyTorch's profiler writes them, of 16 ranks.", ".zip", write_archive)
)
