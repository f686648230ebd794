"""A small reference: builds graphs by hand and plays them with fixed durations, one task at a time."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
import pytest

from railyard.graph import Communicators, Kind, Label, Record, Stream, TaskGraph


@dataclass
class Yard:
    """Collects tasks, then plays them: a task starts when its waits and its stream's earlier tasks have ended."""

    ranks: int
    tasks: list[dict] = field(default_factory=list)
    labels: list[Label] = field(default_factory=list)
    groups: list[tuple[str, list[int]]] = field(default_factory=list)

    def group(self, name: str, ranks: list[int]) -> int:
        self.groups.append((name, list(ranks)))
        return len(self.groups) - 1

    def add(
        self,
        kind,
        rank,
        took_ps,
        *,
        peer=-1,
        stream=Stream.COMPUTE,
        after=(),
        alone_ps=0,
        latency_ps=0,
        label=None,
        release_ps=0,
    ):
        self.labels.append(label or Label("forward", "kernel"))
        self.tasks.append(
            {
                "kind": kind,
                "rank": rank,
                "peer": peer,
                "stream": stream,
                "took": took_ps,
                "after": list(after),
                "alone": alone_ps,
                "latency": latency_ps,
                "release": release_ps,
            }
        )
        return len(self.tasks) - 1

    def compute(self, rank, took_ps, *, phase="forward", **more) -> int:
        return self.add(Kind.COMPUTE, rank, took_ps, label=Label(phase, "kernel"), **more)

    def collective(self, group, took_ps, *, phase="forward", **more) -> int:
        more.setdefault("alone_ps", took_ps)
        label = Label(phase, "all_reduce", self.groups[group][0])
        return self.add(Kind.COLLECTIVE, group, took_ps, label=label, **more)

    def transfer(self, source, target, took_ps, *, group="pp", stream=Stream.FORWARD, **more) -> int:
        more.setdefault("alone_ps", took_ps)
        return self.add(
            Kind.TRANSFER, source, took_ps, peer=target, stream=stream, label=Label("pipeline", "send", group), **more
        )

    def play(self) -> Record:
        n = len(self.tasks)
        start, end, blocker = np.zeros(n, np.int64), np.zeros(n, np.int64), np.full(n, -1, np.int32)
        free: dict[tuple[int, int], int] = {}
        for index, task in enumerate(self.tasks):
            collective = task["kind"] == Kind.COLLECTIVE
            members = self.groups[task["rank"]][1] if collective else [task["rank"]]
            queued = [] if task["stream"] == Stream.FREE else members
            waits = list(task["after"]) + [free[m, task["stream"]] for m in queued if (m, task["stream"]) in free]
            last = max(waits, key=lambda t: end[t], default=-1)
            start[index] = end[last] if last >= 0 else 0
            if task["release"] > start[index]:
                start[index], last = task["release"], -1
            end[index] = start[index] + task["took"]
            blocker[index] = last
            for member in members:
                free[member, task["stream"]] = index
        optional = {"blocker": blocker, "alone_ps": self._column("alone"), "latency_ps": self._column("latency")}
        return Record.of_tasks(self.graph(), start, end, optional=optional, tables={"links": {"bytes": np.zeros(0)}})

    def _column(self, name, dtype=np.int64):
        return np.array([task[name] for task in self.tasks], dtype)

    def graph(self) -> TaskGraph:
        kind = self._column("kind")
        return TaskGraph.of(
            self.ranks,
            kind=kind,
            rank=self._column("rank"),
            peer=self._column("peer"),
            duration_ps=np.where(kind == Kind.COMPUTE, self._column("took"), 0),
            size_bytes=1 << 20,
            stream=self._column("stream"),
            label=np.arange(len(self.tasks)),
            waits=[task["after"] for task in self.tasks],
            labels=list(self.labels),
            release_ps=self._column("release") if self._column("release").any() else None,
            communicators=Communicators.of([ranks for _, ranks in self.groups], [name for name, _ in self.groups]),
        ).validate()


@pytest.fixture
def yard():
    return Yard
