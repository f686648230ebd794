"""BCube: ports in a grid, a switch for every row of every level, and ports that pass on the traffic of others."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, ClassVar

import numpy as np

from railyard.cluster.routes import RouteBuilder
from railyard.cluster.topology.grid import Grid
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
from railyard.kit.schema.bounds import limits

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from railyard.cluster.routes import Routes
    from railyard.cluster.topology.wiring import Box


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
        return _wire(Grid(sizes, endpoints.ports), endpoints, link_bps, parts.leaf)

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


def _wire(grid: Grid, endpoints: Endpoints, link_bps: float, box: Box) -> Wiring:
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


def _routes(grid: Grid, first_switch: list[int], nodes: int) -> Routes:
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
        )  # a digit says which port of the switch is next, whatever the other digits are
    return builder.build(nodes)


topologies.add(BCube.kind, BCube)
