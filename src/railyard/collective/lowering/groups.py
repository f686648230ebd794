"""Communicators of the same shape as one matrix of members."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from railyard.cluster.topology.torus import near_cube
from railyard.collective.machine import Shape
from railyard.kit.errors import InputError

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from railyard.cluster import Cluster
    from railyard.graph import Communicators


@dataclass(frozen=True)
class CommunicatorClass:
    """Communicators that differ only in which servers their ranks sit on.

    Attributes:
        shape: The shape of all.
        index: int64[c], the communicators.
        members: int64[c, ranks], their ranks, ascending; column = position.
    """

    shape: Shape
    index: NDArray[np.int64]
    members: NDArray[np.int64]

    def part(self, chosen: slice | NDArray[np.int64]) -> CommunicatorClass:
        """Some of the communicators."""
        return CommunicatorClass(self.shape, self.index[chosen], self.members[chosen])


def shape_of(cluster: Cluster, ranks: NDArray[np.int32]) -> Shape:
    """The shape of one communicator.

    Raises:
        InputError: A rank occurs twice or is not in the cluster.
    """
    members = np.sort(np.asarray(ranks, np.int64))[None, :]
    return _split(cluster, np.zeros(1, np.int64), members)[0].shape


def groups(cluster: Cluster, communicators: Communicators, used: NDArray[np.int64]) -> list[CommunicatorClass]:
    """Groups the communicators `used`.

    Raises:
        InputError: A communicator has no rank, a rank twice, or one that is not in the cluster.
    """
    sizes = np.diff(communicators.ptr)[used]
    out: list[CommunicatorClass] = []
    for size in np.unique(sizes):
        index = used[sizes == size]
        if size == 0:
            raise InputError("a communicator has no ranks", key=f"communicators[{index[0]}]")
        members = communicators.ranks[communicators.ptr[index][:, None] + np.arange(size)].astype(np.int64)
        out += _split(cluster, index, np.sort(members, axis=1))
    return out


def _split(cluster: Cluster, index: NDArray[np.int64], members: NDArray[np.int64]) -> list[CommunicatorClass]:
    """Communicators of one size by shape."""
    _check(cluster, index, members)
    domain = cluster.scale_up_domain
    starts = np.diff(members // domain, axis=1) != 0
    local = members % domain
    ports = _distinct_ports(cluster, members, starts)
    key = np.concatenate([starts, ports[:, None] != ports.max(), _aligned(starts, local)[:, None]], axis=1)
    packed = np.packbits(key, axis=1)
    _, first, inverse = np.unique(packed, axis=0, return_index=True, return_inverse=True)
    out = []
    for number, sample in enumerate(first):
        rows = np.flatnonzero(inverse.ravel() == number)
        for count in np.unique(ports[rows]):
            same = rows[ports[rows] == count]
            shape = _shape(cluster, starts[sample], bool(key[sample, -1]), int(count))
            out.append(CommunicatorClass(shape, index[same], members[same]))
    return out


def _check(cluster: Cluster, index: NDArray[np.int64], members: NDArray[np.int64]) -> None:
    outside = (members < 0) | (members >= cluster.ranks)
    if outside.any():
        row, column = np.argwhere(outside)[0]
        raise InputError(
            f"rank {members[row, column]} is not in the cluster",
            key=f"communicators[{index[row]}]",
            allowed=f"0 to {cluster.ranks - 1}",
        )
    twice = np.diff(members, axis=1) == 0
    if twice.any():
        row, column = np.argwhere(twice)[0]
        raise InputError(f"rank {members[row, column]} occurs twice", key=f"communicators[{index[row]}]")


def _aligned(starts: NDArray[np.bool_], local: NDArray[np.int64]) -> NDArray[np.bool_]:
    """bool[c]: whether every domain of a communicator holds members at the same local indices."""
    count = 1 + starts.sum(axis=1)
    out = np.zeros(len(starts), np.bool_)
    size = local.shape[1]
    for domains in np.unique(count):
        if size % domains:
            continue
        rows = np.flatnonzero(count == domains)
        each = size // domains
        expected = np.zeros(size - 1, np.bool_)
        expected[each - 1 :: each] = True
        grid = local[rows].reshape(len(rows), domains, each)
        out[rows] = (starts[rows] == expected).all(axis=1) & (grid == grid[:, :1]).all(axis=(1, 2))
    return out


def _distinct_ports(cluster: Cluster, members: NDArray[np.int64], starts: NDArray[np.bool_]) -> NDArray[np.int64]:
    """int64[c]: NIC ports that the members of a communicator's first domain own together."""
    size = members.shape[1]
    first = (
        np.where(starts.any(axis=1), starts.argmax(axis=1) + 1, size) if size > 1 else np.ones(len(members), np.int64)
    )
    ports = cluster.back_end.port_of_rank[members[:, : int(first.max())]].astype(np.int64)
    beyond = np.arange(ports.shape[1])[None, :] >= first[:, None]
    ports[beyond] = -1
    flat = np.sort(ports.reshape(len(members), -1), axis=1)
    new = np.concatenate([flat[:, :1] >= 0, (np.diff(flat, axis=1) != 0) & (flat[:, 1:] >= 0)], axis=1)
    count: NDArray[np.int64] = new.sum(axis=1, dtype=np.int64)
    return count


def _shape(cluster: Cluster, starts: NDArray[np.bool_], aligned: bool, ports: int) -> Shape:
    edges = np.concatenate([[0], np.flatnonzero(starts) + 1, [len(starts) + 1]])
    counts = np.diff(edges)
    uneven = () if (counts == counts[0]).all() else tuple(counts.tolist())
    return Shape(
        ranks=len(starts) + 1,
        domains=len(counts),
        per_domain=int(counts.max()),
        uneven=uneven,
        aligned=aligned,
        ports=ports,
        scale_up=cluster.scale_up.kind,
        torus=_torus(cluster, counts.tolist()),
    )


def _torus(cluster: Cluster, counts: list[int]) -> tuple[int, ...]:
    """Axes of the torus that one full domain is, as the cluster wires it."""
    if cluster.scale_up.kind != "torus" or counts != [cluster.scale_up_domain]:
        return ()
    return near_cube(cluster.scale_up_domain, min(3, max(1, cluster.accelerator.scale_up_links // 2)))
