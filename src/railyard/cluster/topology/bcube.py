"""BCube: ports in a grid, a switch for every row of every level, and ports that pass on the traffic of others."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, ClassVar

import numpy as np

from railyard.cluster.routes import RouteBuilder
from railyard.cluster.topology.torus import near_cube
from railyard.cluster.topology.wiring import (
    Endpoints,
    Parts,
    SwitchGroup,
    Tier,
    Wiring,
    cables,
    impossible,
    topologies,
)
from railyard.kit.schema import field as f
from railyard.kit.schema.quantity import limits

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from railyard.cluster.routes import Routes
    from railyard.cluster.topology.wiring import Box


@dataclass(frozen=True)
class PortGrid:
    """Numbering of a grid of ports.

    Attributes:
        sizes: Ports of a switch of each level, the level of neighbouring port numbers first.
        used: Ports that exist; the last ones of the grid may be unused.
    """

    sizes: tuple[int, ...]
    used: int

    @property
    def levels(self) -> int:
        """Links of a port."""
        return len(self.sizes)

    @property
    def ports(self) -> int:
        """Port numbers, free ones included."""
        return math.prod(self.sizes)

    def stride(self, level: int) -> int:
        """Difference of the numbers of two ports that are adjacent on a switch of that level."""
        return math.prod(self.sizes[:level])

    def switches(self, level: int) -> int:
        """Switches of a level, those without any used port left out."""
        port = np.arange(self.used)
        return int(self.switch_of(port, level).max(initial=-1)) + 1

    def switch_of(self, port: NDArray[np.int64], level: int) -> NDArray[np.int64]:
        """Which switch of a level each port is on, counted from 0."""
        stride = self.stride(level)
        found: NDArray[np.int64] = port // (stride * self.sizes[level]) * stride + port % stride
        return found

    def link_up(self, port: NDArray[np.int64], level: int) -> NDArray[np.int64]:
        """The link from a used port to its switch of a level (the next is the reverse); -1 from an unused port."""
        return np.where(port < self.used, 2 * (level * self.used + port), -1)

    def access_ends(self, first_switch: list[int]) -> tuple[list[NDArray[np.int64]], list[NDArray[np.int64]]]:
        """Ports and switches at the ends of the access cables, level by level."""
        port = np.arange(self.used)
        return [port] * self.levels, [first_switch[level] + self.switch_of(port, level) for level in range(self.levels)]

    def leave_ports(self, builder: RouteBuilder) -> None:
        """Adds the routes of all used ports: to another port by every level in which their digits differ.

        Each such level is the first of a shortest path, so that a port uses all its links towards most of the others.
        """
        links = np.stack([self.link_up(np.arange(self.used), level) for level in range(self.levels)], axis=1)
        masks = range(1, 1 << self.levels)
        members = [[level for level in range(self.levels) if mask >> level & 1] for mask in masks]
        first = builder.choices(links[:, np.concatenate(members)])
        width = np.array([0, *map(len, members)])
        offset = np.concatenate([[0, 0], np.cumsum(width[1:-1])])
        digits = [np.arange(self.ports) // self.stride(level) % self.sizes[level] for level in range(self.levels)]
        for port in range(self.used):
            mask = np.zeros(self.ports, np.int64)
            for level, digit in enumerate(digits):
                mask |= (digit != digit[port]).astype(np.int64) << level
            begin = np.flatnonzero(np.diff(mask, prepend=-1))
            end = np.append(begin[1:], self.ports)
            kind = mask[begin]
            away = kind > 0
            builder.records(
                port,
                begin[away],
                end[away],
                first[port] + offset[kind[away]],
                width=width[kind[away]],
                stride=self.ports,
            )


@dataclass(frozen=True)
class BCube:
    r"""Every port has a link to one switch of each level; between switches there are none.

        level 1:   [sw 0]   [sw 1]   [sw 2]         switch j of level 1: port j of every group
                   / | \    / | \    / | \
        ports     0  3  6  1  4  7  2  5  8
        level 0: [0 1 2] [3 4 5] [6 7 8]            switch i of level 0: all ports of group i

    Two ports whose numbers differ in one digit share a switch. For every further digit a port between them takes the
    packet and passes it on, so that a path has as many switches as there are digits that differ, whatever their order;
    a port splits its traffic over the levels in which it differs from the destination. Its rate is split evenly over
    its links, and passing on costs it no processor time here. The number of ports is the product of the sizes.
    Source: C. Guo et al., "BCube: a high performance, server-centric network architecture for modular data centers",
        SIGCOMM 2009: n^(k+1) servers of k + 1 ports and (k+1) n^k switches of n ports; sizes may differ here.
    """

    kind: ClassVar[str] = "bcube"

    levels: int = field(default=2, metadata=f.count("levels", "Links of a port, k + 1", bounds=limits(1, 16)))
    dimensions: tuple[int, ...] | None = field(
        default=None,
        metadata=f.numbers(
            "dimensions", "Ports of a switch of each level; as near to equal as their number allows", "[32, 32]"
        ),
    )

    def build(self, endpoints: Endpoints, parts: Parts) -> Wiring:
        """Wires the network; see `TopologySpec`."""
        if self.levels < 1:
            raise impossible("there is at least one level", key="levels", found=self.levels, possible="write 2")
        sizes = tuple(size for size in self._sizes(endpoints.ports) if size > 1) or (1,)
        link_bps = parts.link_bps / len(sizes)
        radix = parts.leaf.ports(link_bps)
        if max(sizes) > radix:
            raise impossible(
                f"a switch of {max(sizes)} ports is needed and {parts.leaf.name} has {radix} of this rate",
                key="dimensions" if self.dimensions else "levels",
                found=" x ".join(map(str, sizes)),
                possible="use more levels, or numbers of servers with more divisors",
            )
        return _wire(PortGrid(sizes, endpoints.ports), endpoints, link_bps, parts.leaf)

    def _sizes(self, ports: int) -> tuple[int, ...]:
        near = near_cube(ports, self.levels)
        sizes = self.dimensions or near
        if min(sizes) < 1 or np.prod(sizes) != ports:
            raise impossible(
                f"these sizes have {np.prod(sizes)} ports and {ports} are to be joined",
                key="dimensions",
                found=" x ".join(map(str, sizes)),
                possible=f"possible: {' x '.join(map(str, near))}",
            )
        return sizes


def _wire(grid: PortGrid, endpoints: Endpoints, link_bps: float, box: Box) -> Wiring:
    counts = [grid.switches(level) for level in range(grid.levels)]
    first = [grid.ports + sum(counts[:level]) for level in range(grid.levels)]
    source, target = cables(*grid.access_ends(first))
    nodes = grid.ports + sum(counts)
    number = np.arange(endpoints.ports, dtype=np.int32)
    inside = endpoints.servers * endpoints.nics
    halves = min(grid.ports // size * (size // 2) for size in grid.sizes)
    most = endpoints.servers // 2 * endpoints.nics * grid.levels
    return Wiring(
        ports=grid.ports,
        port_of=number[:inside].reshape(endpoints.servers, endpoints.nics),
        extra=number[inside:],
        nodes=nodes,
        groups=tuple(
            SwitchGroup(f"level-{level}", 1, first[level], counts[level], grid.sizes[level], box.name)
            for level in range(grid.levels)
        ),
        source=source,
        target=target,
        line_bps=np.full(len(source), link_bps),
        tier=np.repeat(np.arange(grid.levels, dtype=np.int16), 2 * grid.used),
        tiers=tuple(Tier(f"level-{level}", 3.0 if level == 0 else 30.0, "access") for level in range(grid.levels)),
        routing=_routes(grid, first, nodes),
        classes=None,
        bisection_bps=min(halves, most) * link_bps,
        pod_ports=grid.sizes[0],
        ports_forward=grid.levels > 1,
    )


def _routes(grid: PortGrid, first_switch: list[int], nodes: int) -> Routes:
    builder = RouteBuilder(grid.ports)
    grid.leave_ports(builder)
    port = np.arange(grid.ports)
    for level, size in enumerate(grid.sizes):
        switch = grid.switch_of(port, level)
        order = np.lexsort((port, switch)).reshape(-1, size)
        down: NDArray[np.int64] = grid.link_up(order, level) + 1
        begin = builder.choices(down)
        stride = grid.stride(level)
        block = np.arange(grid.ports // (stride * size)) * stride * size
        node = first_switch[level] + np.arange(len(down))
        builder.records(
            node[:, None], block, block + stride * size, begin[:, None], width=1, stride=stride
        )  # a digit selects the next port of the switch, independent of the other digits
    return builder.build(nodes)


topologies.add(BCube.kind, BCube)
