"""Graphs, entities and links made by hand."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from railyard.cluster import Entities
from railyard.engine.lowering import LoweredGraph
from railyard.graph import Communicators, Kind, Label, MergedJobs, TaskGraph


@dataclass
class Links:
    """What an engine asks of a cluster's links; no bundles."""

    rate_bps: np.ndarray
    tiers: tuple[str, ...] = ("back-end nic",)
    bundle_of: np.ndarray = None

    def __post_init__(self):
        self.rate_bps = np.asarray(self.rate_bps, np.float64)
        self.bundle_of = np.full(len(self.rate_bps), -1, np.int32)

    @property
    def physical(self):
        return len(self.rate_bps)

    def with_bundles(self, rate_bps):
        return rate_bps

    def of_tier(self, name):
        assert name in self.tiers
        return np.arange(self.physical, dtype=np.int32)


@dataclass
class Entity:
    """One row; `links` is {link: share}."""

    links: dict[int, float]
    volume: float
    latency: int = 0
    cap: float = np.inf
    weight: float = 1.0


def entities(rows):
    """The columns of some rows."""
    ptr = np.concatenate([[0], np.cumsum([len(row.links) for row in rows])]).astype(np.int64)
    return Entities(
        link_ptr=ptr,
        link_idx=np.array([link for row in rows for link in row.links], np.int32),
        link_share=np.array([share for row in rows for share in row.links.values()], np.float64),
        volume_bytes=np.array([row.volume for row in rows], np.float64),
        latency_ps=np.array([row.latency for row in rows], np.int64),
        rate_cap_bps=np.array([row.cap for row in rows], np.float64),
        fair_weight=np.array([row.weight for row in rows], np.float64),
        even_latency_ps=np.array([row.latency for row in rows], np.int64),
        even_ps=np.zeros(len(rows), np.int64),
    )


@dataclass
class Graph:
    """Tasks as they are added; `build` makes the columns."""

    ranks: int
    groups: list[list[int]] = field(default_factory=list)
    rows: list[dict] = field(default_factory=list)

    def _add(self, kind, rank, stream, deps, **columns):
        row = {"kind": kind, "rank": rank, "stream": stream, "deps": deps, "peer": -1, "duration": 0, "entity": -1}
        row |= {"release": 0, "delay": 0, "need": None}
        self.rows.append({**row, **columns})
        return len(self.rows) - 1

    def compute(self, rank, duration, *deps, stream=0, release=0):
        return self._add(Kind.COMPUTE, rank, stream, deps, duration=duration, release=release)

    def transfer(self, rank, peer, entity, *deps, stream=3, release=0):
        return self._add(Kind.TRANSFER, rank, stream, deps, peer=peer, entity=entity, release=release)

    def collective(self, group, entity, *deps, stream=2, release=0):
        return self._add(Kind.COLLECTIVE, group, stream, deps, entity=entity, release=release)

    def start(self, task, **rules):
        """Changes when a task starts: `release`, `delay`, `need`."""
        self.rows[task] |= rules
        return task

    def read(self, rank, entity, *deps, stream=7):
        return self._add(Kind.READ, rank, stream, deps, entity=entity)

    def build(self):
        column = {name: [row[name] for row in self.rows] for name in ("kind", "rank", "peer", "duration", "stream")}
        release, delay = (np.array([row[key] for row in self.rows], np.int64) for key in ("release", "delay"))
        need = np.array([len(row["deps"]) if row["need"] is None else row["need"] for row in self.rows], np.int64)
        every = np.array([len(row["deps"]) for row in self.rows])
        graph = TaskGraph.of(
            self.ranks,
            duration_ps=column.pop("duration"),
            **column,
            waits=[row["deps"] for row in self.rows],
            labels=[Label("forward", "task")],
            communicators=Communicators.of(self.groups, "dp"),
            release_ps=release if release.any() else None,
            delay_ps=delay if delay.any() else None,
            need=need.astype(np.int32) if (need < every).any() else None,
        )
        entity = np.array([row["entity"] for row in self.rows], np.int32)
        return graph, entity


def lowered(graph, rows):
    """(the graph as one job's, its entities)."""
    columns, entity = graph.build()
    return MergedJobs.of(columns), LoweredGraph(entities(rows), entity)
