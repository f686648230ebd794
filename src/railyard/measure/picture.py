"""A drawing of the back-end network by tiers: neighbours are drawn together, with the load of their busiest link."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from railyard.cluster.ports import ports_of
from railyard.result.network import Picture, PictureBox, PictureEdge, PictureTier, SwitchRow, TopologyFigures

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from railyard.cluster import Cluster, Network

BOXES = 20
"""Boxes of one tier; more nodes than that are drawn several to a box."""


@dataclass(frozen=True)
class _Row:
    """One tier of the drawing: which of its boxes each node belongs to."""

    name: str
    boxes: list[PictureBox]


def topology_picture(cluster: Cluster, load: NDArray[np.float64]) -> TopologyFigures:
    """The result's `topology`.

    Args:
        cluster: Whose back-end is drawn.
        load: float64[physical links], see `NetworkUse.load`.
    """
    network = cluster.back_end
    row_of, box_of, rows = _places(cluster, network)
    wiring = network.wiring
    ends = np.stack([wiring.source, wiring.target]).astype(np.int64)
    place = row_of[ends] * (BOXES + 1) + box_of[ends]
    drawn = (row_of[ends] >= 0).all(axis=0) & (place[0] != place[1])
    low, high = place[:, drawn].min(axis=0), place[:, drawn].max(axis=0)
    width = len(rows) * (BOXES + 1)
    pairs, inverse, links = np.unique(low * width + high, return_inverse=True, return_counts=True)
    share = load[network.link_offset : network.link_offset + wiring.links][drawn]
    mean = np.bincount(inverse, weights=share, minlength=len(pairs)) / np.maximum(links, 1)
    busiest = np.zeros(len(pairs))
    np.maximum.at(busiest, inverse, share)
    edges = [
        _edge(int(pair), width, int(count), float(average), float(most))
        for pair, count, average, most in zip(pairs, links, mean, busiest, strict=True)
    ]
    drawn_rows = tuple(PictureTier(name=row.name, nodes=tuple(row.boxes)) for row in rows)
    return TopologyFigures(
        kind=network.topology,
        tiers=tuple(tier.name for tier in wiring.tiers),
        nodes=int(sum(group.count for group in network.groups)),
        switches=tuple(
            SwitchRow(
                role=row.role, box=row.box, count=row.count, ports=row.ports, used=row.used, stranded=row.stranded
            )
            for row in ports_of(cluster.plans["back_end"])
        ),
        picture=Picture(tiers=drawn_rows, edges=tuple(edges)),
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


def _places(cluster: Cluster, network: Network) -> tuple[NDArray[np.int64], NDArray[np.int64], list[_Row]]:
    """Row and box of every node of the network (-1 for ports that nothing is plugged into), and the rows."""
    row_of = np.full(network.wiring.nodes, -1, np.int64)
    box_of = np.zeros(network.wiring.nodes, np.int64)
    boxes = _ports(cluster, network, row_of, box_of)
    rows = [_Row("servers", boxes)]
    for tier in sorted({group.tier for group in network.groups}):
        groups = [group for group in network.groups if group.tier == tier]
        nodes = np.concatenate([np.arange(group.first, group.first + group.count) for group in groups])
        names = [_switch(group.role, group.part, number) for group in groups for number in range(group.count)]
        box = _spread(len(nodes))
        row_of[nodes], box_of[nodes] = len(rows), box
        rows.append(_Row(" and ".join(dict.fromkeys(group.role for group in groups)), _boxes(box, names)))
    return row_of, box_of, rows


def _ports(
    cluster: Cluster, network: Network, row_of: NDArray[np.int64], box_of: NDArray[np.int64]
) -> list[PictureBox]:
    """Places the ports in the boxes of their servers; storage has a box of its own behind them."""
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
    """What stands at the ports that are no servers'."""
    if network is not cluster.pool_network:
        return "storage"
    return "storage and memory pool" if network is cluster.storage else "memory pool"


def _spread(nodes: int) -> NDArray[np.int64]:
    """PictureBox of each node: neighbours share one, all boxes hold as many as possible alike."""
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
