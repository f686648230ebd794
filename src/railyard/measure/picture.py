"""Drawing of the back-end network by tier: neighbors share a box, with the load of their busiest link."""

from __future__ import annotations

import itertools
import re
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from railyard.cluster.names import ports_of
from railyard.graph.job import track_name, tracks_of
from railyard.graph.record import tasks_of
from railyard.measure.result.network import (
    Picture,
    PictureBox,
    PictureEdge,
    PicturePlace,
    PictureTier,
    SwitchRow,
    TopologyFigures,
)
from railyard.measure.result.step import Task, TimelineFigures, Track, TrackLabel

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from railyard.cluster import Cluster, Network
    from railyard.graph import Record, TaskGraph


TASKS = 12_000
RANKS = 8


def sample_ranks(
    stage: NDArray[np.int64], per_rank_utilization: NDArray[np.float64], *, count: int = RANKS
) -> list[int]:
    """A few representative ranks: the first of stages spread over the pipeline, and the least and most busy rank.

    Args:
        stage: int64[ranks], from `stages`.
        per_rank_utilization: float64[ranks].
        count: Maximum number.
    """
    extremes = [int(np.argmin(per_rank_utilization)), int(np.argmax(per_rank_utilization))]
    firsts = np.unique(stage, return_index=True)[1]
    firsts.sort()
    spread = firsts[np.linspace(0, len(firsts) - 1, min(max(count - 2, 1), len(firsts))).astype(np.int64)]
    return sorted({*(int(rank) for rank in spread), *extremes})[:count]


def tracks(record: Record, ranks: Sequence[int], *, most_tasks: int = TASKS) -> TimelineFigures:
    """The result's `timeline`.

    Consecutive tasks of one stream that look the same (phase, operation, communicator) are drawn as one. If there are
    still too many, the shortest are left out.

    Returns:
        `ranks`, `tracks` (rank, stream, tasks as [start in us, duration in us, label index]) and `labels`.
    """
    record.require("the timeline of ranks", graph=True)
    graph = record.graph
    found = tasks_of(graph, ranks)
    looks, look_of = _looks(graph)
    times = record.start_ps[found.task], record.end_ps[found.task]
    stream = tracks_of(found.rank, graph.stream[found.task].astype(np.int64), *times)
    order = np.lexsort((found.task, record.start_ps[found.task], stream, found.rank))
    rank, task, stream = found.rank[order], found.task[order], stream[order]
    start, end, look = record.start_ps[task], record.end_ps[task], look_of[graph.label[task]]
    fresh = np.ones(len(task), np.bool_)
    fresh[1:] = (
        (rank[1:] != rank[:-1]) | (stream[1:] != stream[:-1]) | (look[1:] != look[:-1]) | (start[1:] != end[:-1])
    )
    first = np.flatnonzero(fresh)
    last = np.append(first[1:], len(task)) - 1
    rank, stream, look, start, end = rank[first], stream[first], look[first], start[first], end[last]
    kept = _longest(end - start, most_tasks)
    rows = [_row(*entry) for entry in zip(start[kept], end[kept], look[kept], strict=True)]
    return TimelineFigures(
        ranks=tuple(int(r) for r in ranks), tracks=_grouped(rank[kept], stream[kept], rows), labels=looks
    )


def _row(start_ps: int, end_ps: int, look: int) -> Task:
    return round(float(start_ps) * 1e-6, 3), round(float(end_ps - start_ps) * 1e-6, 3), int(look)


def _grouped(rank: NDArray[np.int64], stream: NDArray[np.int64], rows: list[Task]) -> tuple[Track, ...]:
    keys = zip(rank.tolist(), stream.tolist(), strict=True)
    groups = itertools.groupby(zip(keys, rows, strict=True), key=lambda entry: entry[0])
    return tuple(
        Track(rank=of_rank, stream=track_name(of_stream), tasks=tuple(row for _, row in entries))
        for (of_rank, of_stream), entries in groups
    )


def _longest(duration_ps: NDArray[np.int64], most: int) -> NDArray[np.int64]:
    """Indices of the longest entries, in their old order; entries of no length are left out."""
    seen = np.flatnonzero(duration_ps > 0)
    if len(seen) <= most:
        return seen
    chosen = seen[np.argsort(-duration_ps[seen], kind="stable")[:most]]
    chosen.sort()
    return chosen


def _looks(graph: TaskGraph) -> tuple[tuple[TrackLabel, ...], NDArray[np.int64]]:
    """The labels as drawn, without layer and micro-batch, and the index of every label's look."""
    index: dict[tuple[str, str, str], int] = {}
    look_of = np.zeros(max(len(graph.labels), 1), np.int64)
    for number, label in enumerate(graph.labels):
        look_of[number] = index.setdefault((label.phase, label.op, label.group), len(index))
    return tuple(TrackLabel(phase=phase, op=op, group=group) for phase, op, group in index), look_of


BOXES = 20
"""Boxes per tier; with more nodes, several share a box."""


@dataclass(frozen=True, eq=False)
class Drawing:
    """Boxes of a network's nodes, row by row.

    Attributes:
        row: int64[nodes], -1 for nodes that are not drawn.
        box: int64[nodes], in its row.
        ends: int64[2, links], nodes.
    """

    row: NDArray[np.int64]
    box: NDArray[np.int64]
    tiers: tuple[PictureTier, ...]
    ends: NDArray[np.int64]

    @cached_property
    def _drawn(self) -> tuple[NDArray[np.bool_], NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]]:
        """Drawn links and their edges; for the edges, both places packed into one number, and their links."""
        place = self.row[self.ends] * (BOXES + 1) + self.box[self.ends]
        drawn = (self.row[self.ends] >= 0).all(axis=0) & (place[0] != place[1])
        low, high = place[:, drawn].min(axis=0), place[:, drawn].max(axis=0)
        pairs, edge, links = np.unique(low * self._width + high, return_inverse=True, return_counts=True)
        return drawn, edge.ravel(), pairs, links

    @property
    def _width(self) -> int:
        return len(self.tiers) * (BOXES + 1)

    def picture(self, load: NDArray[np.float64]) -> Picture:
        """The drawing with the load of every link.

        Args:
            load: float64[links].
        """
        drawn, edge, pairs, links = self._drawn
        share = load[drawn]
        mean = np.bincount(edge, weights=share, minlength=len(pairs)) / np.maximum(links, 1)
        busiest = np.zeros(len(pairs))
        np.maximum.at(busiest, edge, share)
        edges = tuple(
            _edge(int(pair), self._width, int(count), float(average), float(most))
            for pair, count, average, most in zip(pairs, links, mean, busiest, strict=True)
        )
        return Picture(tiers=self.tiers, edges=edges)

    def busiest(self, load: NDArray[Any]) -> NDArray[Any]:
        """The load of the busiest link of every edge, in the order of the picture's edges.

        Args:
            load: [..., links].
        """
        drawn, edge, pairs, _ = self._drawn
        order = np.argsort(edge, kind="stable")
        first = np.searchsorted(edge[order], np.arange(len(pairs)))
        sorted_load = load[..., drawn][..., order]
        return np.maximum.reduceat(sorted_load, first, axis=-1) if len(pairs) else sorted_load

    def place(self, links: NDArray[np.int64], nodes: NDArray[np.int64]) -> PicturePlace:
        """Position of some links and nodes in the drawing; adjacent nodes are connected by their edge."""
        drawn, edge, pairs, _ = self._drawn
        number = np.cumsum(drawn) - 1
        edges = set(edge[number[links[drawn[links]]]].tolist())
        nodes = nodes[self.row[nodes] >= 0]
        boxes = {(int(self.row[node]), int(self.box[node])) for node in nodes}
        if len(boxes) == 2:
            low, high = sorted(row * (BOXES + 1) + box for row, box in boxes)
            edges |= set(np.flatnonzero(pairs == low * self._width + high).tolist())
        return PicturePlace(boxes=tuple(sorted(boxes)), edges=tuple(sorted(edges)))


def drawing_of(cluster: Cluster) -> Drawing:
    """Drawing of a cluster's back-end: nodes and links have the numbers of its network."""
    network = cluster.back_end
    row_of, box_of, tiers = _places(cluster, network)
    ends = np.stack([network.wiring.source, network.wiring.target]).astype(np.int64)
    return Drawing(row_of, box_of, tiers, ends)


def tiered(name: Sequence[str], row: NDArray[np.int64], tiers: Sequence[str], ends: NDArray[np.int64]) -> Drawing:
    """A drawing of any network whose nodes have a row: neighbors in name order share a box.

    Args:
        name: Of each node.
        row: int64[nodes], -1 for nodes that are not drawn.
        tiers: Names of the rows.
        ends: int64[2, links], nodes.
    """
    box, rows = np.zeros(len(row), np.int64), []
    for number, title in enumerate(tiers):
        nodes = np.array(
            sorted(np.flatnonzero(row == number).tolist(), key=lambda node: _natural(name[node])), np.int64
        )
        box[nodes] = _spread(len(nodes))
        rows.append(PictureTier(name=title, nodes=tuple(_boxes(box[nodes], [name[node] for node in nodes]))))
    return Drawing(row, box, tuple(rows), ends)


def _natural(name: str) -> list[tuple[int, int, str]]:
    """Key that sorts numbers in names by value: leaf 9 before leaf 10."""
    return [(0, int(part), "") if part.isdecimal() else (1, 0, part) for part in re.split(r"([0-9]+)", name) if part]


def topology_picture(cluster: Cluster, load: NDArray[np.float64]) -> TopologyFigures:
    """The result's `topology`.

    Args:
        cluster: Whose back-end is drawn.
        load: float64[physical links], see `NetworkUse.load`.
    """
    network = cluster.back_end
    wiring = network.wiring
    return TopologyFigures(
        kind=network.topology,
        tiers=tuple(tier.name for tier in wiring.tiers),
        nodes=int(sum(group.count for group in network.wiring.groups)),
        switches=tuple(
            SwitchRow(
                role=row.role, box=row.box, count=row.count, ports=row.ports, used=row.used, stranded=row.stranded
            )
            for row in ports_of(cluster.plans["back_end"])
        ),
        picture=drawing_of(cluster).picture(load[network.link_offset : network.link_offset + wiring.links]),
    )


def _edge(pair: int, width: int, links: int, mean: float, most: float) -> PictureEdge:
    low, high = divmod(pair, width)
    return PictureEdge(
        from_=divmod(low, BOXES + 1),
        to=divmod(high, BOXES + 1),
        links=links,
        mean=round(mean, 6),
        max=round(most, 6),
    )


def _places(cluster: Cluster, network: Network) -> tuple[NDArray[np.int64], NDArray[np.int64], tuple[PictureTier, ...]]:
    """Row and box of every node of the network (-1 for ports that nothing is plugged into), and the rows."""
    row_of = np.full(network.wiring.nodes, -1, np.int64)
    box_of = np.zeros(network.wiring.nodes, np.int64)
    boxes = _ports(cluster, network, row_of, box_of)
    rows = [PictureTier(name="servers", nodes=tuple(boxes))]
    for tier in sorted({group.tier for group in network.wiring.groups}):
        groups = [group for group in network.wiring.groups if group.tier == tier]
        nodes = np.concatenate([np.arange(group.first, group.first + group.count) for group in groups])
        names = [_switch(group.role, group.part, number) for group in groups for number in range(group.count)]
        box = _spread(len(nodes))
        row_of[nodes], box_of[nodes] = len(rows), box
        title = " and ".join(dict.fromkeys(group.role for group in groups))
        rows.append(PictureTier(name=title, nodes=tuple(_boxes(box, names))))
    return row_of, box_of, tuple(rows)


def _ports(
    cluster: Cluster, network: Network, row_of: NDArray[np.int64], box_of: NDArray[np.int64]
) -> list[PictureBox]:
    """Places the ports in the boxes of their servers; storage has a separate box after them."""
    box = _spread(cluster.servers)
    server = np.arange(cluster.ranks) // cluster.ranks_per_server
    ports = network.port_of_rank.astype(np.int64)
    row_of[ports], box_of[ports] = 0, box[server][:, None]
    boxes = _boxes(box, [f"server {number}" for number in range(cluster.servers)])
    if network.extra_ports.size:
        row_of[network.extra_ports], box_of[network.extra_ports] = 0, len(boxes)
        boxes.append(PictureBox(label=_beyond(cluster, network), count=len(network.extra_ports)))
    return boxes


def _beyond(cluster: Cluster, network: Network) -> str:
    if network is not cluster.pool_network:
        return "storage"
    return "storage and memory pool" if network is cluster.storage else "memory pool"


def _spread(nodes: int) -> NDArray[np.int64]:
    """Box of each node: neighbors share a box, and boxes are filled evenly."""
    return np.arange(nodes, dtype=np.int64) * min(nodes, BOXES) // max(nodes, 1)


def _boxes(box: NDArray[np.int64], names: list[str]) -> list[PictureBox]:
    first = np.flatnonzero(np.diff(box, prepend=-1))
    last = np.append(first[1:], len(box)) - 1
    return [
        PictureBox(label=names[a] if a == b else f"{names[a]} to {names[b]}", count=int(b - a + 1))
        for a, b in zip(first, last, strict=True)
    ]


def _switch(role: str, part: str, number: int) -> str:
    return f"{role} {number}" + (f" of {part}" if part else "")
