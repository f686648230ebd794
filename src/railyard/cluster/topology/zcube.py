"""ZCube: row and column switches, all connected to one another across the groups; a port is on one of each."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, ClassVar

import numpy as np

from railyard.cluster.routes import RouteBuilder
from railyard.cluster.topology.bcube import PortGrid
from railyard.cluster.topology.wiring import (
    ACCESS_ROW,
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
from railyard.kit.schema.quantity import LINK_RATE, PORTS

if TYPE_CHECKING:
    from railyard.cluster.routes import Routes
    from railyard.cluster.topology.wiring import Box

ROW_COLUMN = Tier("row-column", 30.0)


@dataclass(frozen=True)
class ZCube:
    r"""A flat network: no spine; NIC (i, j) has half of its rate to row switch i and half to column switch j.

        row switches    R0          R1          R2
                        | \\______//|\\______// |        every R to every C by one link (or more, as fast as half a NIC)
                        | //      \\|//      \\ |
        column switches C0          C1          C2
        NIC (i, j):     one link to R_i, one to C_j

    From (i, j) to (k, l) there are two shortest paths of two switches, R_i - C_l and C_j - R_k, one for each link of
    the NIC and none shared with another pair of rows and columns; in one row or column there is one path of one switch,
    over half of the NIC. With n^2 ports of half the rate on switches of 2 n ports, every row has as many links to
    columns as to NICs.
    Sources: Z.ai, HarnetsAI and Tsinghua University, "Next-generation LLM inference network: how ZCube alleviates
        network bottlenecks" (2026): no spine, a complete bipartite graph between two groups of switches, a unique best
        path for every pair, a third less spent on switches and optics than rail-optimized. How NICs are spread over the
        two groups is not published: a grid is assumed, which gives both (2 n switches of 2 n ports for n^2 dual-port
        NICs, where a leaf-spine has 3 n).
    """

    kind: ClassVar[str] = "zcube"

    columns: int | None = field(
        default=None,
        metadata=f.count(
            "columns",
            "Column switches, and so NICs of a row; the grid as near a square as may be",
            bounds=PORTS,
        ),
    )
    uplink_bps: float | None = field(
        default=None,
        metadata=f.rate(
            "uplink_rate",
            "Rate between a row and a column switch; half of a NIC's",
            bounds=LINK_RATE,
        ),
    )

    def build(self, endpoints: Endpoints, parts: Parts) -> Wiring:
        """Wires the network; see `TopologySpec`."""
        columns = self.columns if self.columns is not None else math.ceil(math.sqrt(endpoints.ports))
        if columns < 1:
            raise impossible("there is at least one column", key="columns", found=columns, possible="write 8")
        grid = PortGrid((columns, math.ceil(endpoints.ports / columns)), endpoints.ports)
        access_bps = parts.link_bps / 2
        uplink_bps = parts.uplink(self.uplink_bps or access_bps)
        _check(grid, parts.leaf, access_bps, uplink_bps)
        return _Plan(grid, access_bps, uplink_bps).wire(endpoints, parts.leaf)


def _check(grid: PortGrid, box: Box, access_bps: float, uplink_bps: float) -> None:
    widest = max(grid.sizes)
    if widest * (access_bps + uplink_bps) > box.capacity_bps * (1 + 1e-9) or 2 * widest > box.max_ports:
        most = min(box.max_ports // 2, math.floor(box.capacity_bps / (access_bps + uplink_bps) * (1 + 1e-9)))
        raise impossible(
            f"a switch of {widest} ports to NICs and as many to other switches is needed, and {box.name} has room for"
            f" {most} of each",
            key="columns",
            found=grid.sizes[0],
            possible=f"at most {most**2} NICs with this switch; use a switch of higher radix or a lower link rate",
        )


@dataclass(frozen=True)
class _Plan:
    """A grid of ports with its rates; cable `c` between switches is in row `c // columns`, column `c % columns`."""

    grid: PortGrid
    access_bps: float
    uplink_bps: float

    @property
    def columns(self) -> int:
        return self.grid.switches(1)

    @property
    def rows(self) -> int:
        return self.grid.switches(0)

    def wire(self, endpoints: Endpoints, box: Box) -> Wiring:
        grid, rows, columns = self.grid, self.rows, self.columns
        row, column = (part.ravel() for part in np.indices((rows, columns)))
        first = [grid.ports, grid.ports + rows]
        near, far = grid.access_ends(first)
        source, target = cables([*near, first[0] + row], [*far, first[1] + column])
        number = np.arange(endpoints.ports, dtype=np.int32)
        inside = endpoints.servers * endpoints.nics
        counts = [4 * grid.used, 2 * rows * columns]
        nodes = grid.ports + rows + columns
        return Wiring(
            ports=grid.ports,
            port_of=number[:inside].reshape(endpoints.servers, endpoints.nics),
            extra=number[inside:],
            nodes=nodes,
            groups=(
                SwitchGroup("row", 1, first[0], rows, 2 * columns, box.name),
                SwitchGroup("column", 1, first[1], columns, 2 * rows, box.name),
            ),
            source=source,
            target=target,
            line_bps=np.repeat([self.access_bps, self.uplink_bps], counts),
            tier=np.repeat(np.arange(2, dtype=np.int16), counts),
            tiers=(ACCESS_ROW, ROW_COLUMN),
            routing=self._routes(first, nodes),
            classes=None,
            bisection_bps=self._bisection_bps(endpoints),
            pod_ports=columns,
        )

    def _bisection_bps(self, endpoints: Endpoints) -> float:
        """Half of the rows against the other half: a column switch is on one side and loses the other's links."""
        half = self.rows // 2 * self.columns or self.columns // 2
        between = half * (self.access_bps + self.uplink_bps)
        return min(between, endpoints.servers // 2 * endpoints.nics * 2 * self.access_bps)

    def _routes(self, first: list[int], nodes: int) -> Routes:
        grid, rows, columns = self.grid, self.rows, self.columns
        builder = RouteBuilder(grid.ports)
        grid.leave_ports(builder)
        port = np.arange(grid.ports).reshape(rows, -1)
        across = 2 * (2 * grid.used + np.arange(rows * columns)).reshape(rows, columns)
        begin = np.arange(rows) * port.shape[1]
        own, other = np.arange(rows), np.arange(columns)
        down = builder.choices(np.where(port < grid.used, grid.link_up(port, 0) + 1, -1))
        to_column = builder.choices(across)
        elsewhere = own[:, None] != own
        builder.records(first[0] + own, begin, begin + port.shape[1], down, width=1, stride=1)
        node, block = np.nonzero(elsewhere)
        builder.records(first[0] + node, begin[block], begin[block] + columns, to_column[node], width=1, stride=1)
        down = builder.choices(np.where(port < grid.used, grid.link_up(port, 1) + 1, -1).T[:columns])
        to_row = builder.choices(across.T + 1)
        node, block = (part.ravel() for part in np.indices((columns, rows)))
        at = begin[block] + node
        switch = first[1] + other[node]
        builder.records(switch, begin[block], at, to_row[node] + block, width=1, stride=grid.ports)
        builder.records(switch, at, at + 1, down[node] + block, width=1, stride=1)
        builder.records(switch, at + 1, begin[block] + port.shape[1], to_row[node] + block, width=1, stride=grid.ports)
        return builder.build(nodes)


topologies.add(ZCube.kind, ZCube)
