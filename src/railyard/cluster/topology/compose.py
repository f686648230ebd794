"""Copies of a wired network: planes with shared ports, rails and sites with separate ones."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from railyard.cluster.routes import RouteBuilder
from railyard.cluster.topology.wiring import impossible

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from railyard.cluster.links import Integers
    from railyard.cluster.topology.wiring import SwitchGroup, Wiring


@dataclass(frozen=True)
class Copies:
    """Numbering of the copies of a network.

    Attributes:
        share_ports: Whether all copies end in the same ports (planes).
    """

    inner: Wiring
    count: int
    share_ports: bool

    @property
    def ports(self) -> int:
        """Port numbers of all copies together."""
        return self.inner.ports * (1 if self.share_ports else self.count)

    @property
    def switches(self) -> int:
        """Switches of one copy."""
        return self.inner.nodes - self.inner.ports

    @property
    def nodes(self) -> int:
        """Ports and switches of all copies."""
        return self.ports + self.count * self.switches

    def port_shift(self, copy: int) -> int:
        """Offset from a port of the inner network to the port of a copy."""
        return 0 if self.share_ports else copy * self.inner.ports

    def node(self, inner_node: Integers, copy: int) -> Integers:
        """Node of a copy."""
        switch = inner_node - self.inner.ports + self.ports + copy * self.switches
        moved: Integers = np.where(inner_node < self.inner.ports, inner_node + self.port_shift(copy), switch)
        return moved

    def every(self, inner_nodes: Integers) -> NDArray[np.int32]:
        """Nodes of all copies, copy by copy."""
        return np.concatenate([self.node(inner_nodes, copy) for copy in range(self.count)]).astype(np.int32)

    def groups(self, part: str) -> tuple[SwitchGroup, ...]:
        """Switch groups of all copies, each with its copy's name: `plane 2`."""
        return tuple(
            replace(
                group,
                first=group.first - self.inner.ports + self.ports + copy * self.switches,
                part=f"{part} {copy}" + (f" {group.part}" if group.part else ""),
            )
            for copy in range(self.count)
            for group in self.inner.groups
        )


def side_by_side(inner: Wiring, count: int, *, share_ports: bool, part: str) -> Wiring:
    """`count` copies of a network.

    Args:
        inner: The network; with `share_ports` its rates are those of one plane.
        count: Number of copies.
        share_ports: All copies end in the same ports, each port having links into every copy.
        part: Name of a copy.

    Returns:
        The joined network. Without shared ports, `port_of` and `extra` list the copies' servers in sequence.

    Raises:
        InputError: Circuits of the network end in servers.
    """
    if inner.circuits is not None and inner.circuits.servers is not None:
        raise impossible(
            f"a {part} has no circuits that end in servers", key="inner", found="optical", possible="leave out `nics`"
        )
    copies = Copies(inner, count, share_ports)
    target = copies.every(inner.target)
    builder = RouteBuilder(copies.ports)
    for copy in range(count):
        copy_routes(builder, copies, copy, ports_too=not share_ports)
    if share_ports:
        _shared_port_routes(builder, inner, count)
    repeat = 1 if share_ports else count
    shift = np.arange(repeat, dtype=np.int32) * inner.ports
    return replace(
        inner,
        ports=copies.ports,
        port_of=(inner.port_of + shift[:, None, None]).reshape(-1, inner.port_of.shape[1]),
        extra=(inner.extra + shift[:, None]).ravel(),
        nodes=copies.nodes,
        groups=copies.groups(part),
        source=copies.every(inner.source),
        target=target,
        line_bps=np.tile(inner.line_bps, count),
        tier=np.tile(inner.tier, count),
        routing=builder.build(copies.nodes),
        classes=_classes(copies),
        bisection_bps=inner.bisection_bps * count,
        circuits=inner.circuits and replace(inner.circuits, fibres=inner.circuits.fibres * count),
    )


def copy_routes(
    builder: RouteBuilder, copies: Copies, copy: int, *, ports_too: bool, without: Integers | None = None
) -> None:
    """Adds the inner network's routes renumbered for one copy, without routes of or to the ports `without`."""
    table, inner = copies.inner.routing, copies.inner
    node = table.record_node
    keep = np.ones(len(node), np.bool_) if ports_too else node >= inner.ports
    if without is not None:
        keep &= ~np.isin(node, without)
    choices = table.choices
    if without is not None:
        choices = np.where(np.isin(inner.target[choices], without), -1, choices)
    shifted = np.where(choices >= 0, choices + copy * inner.links, -1)
    first = builder.choices(shifted[None, :].astype(np.int64))[0] + table.first[keep]
    shift = copies.port_shift(copy)
    builder.records(
        copies.node(node[keep], copy),
        table.lo[keep] + shift,
        table.hi[keep] + shift,
        first,
        width=table.width[keep],
        stride=table.stride[keep],
    )


def _shared_port_routes(builder: RouteBuilder, inner: Wiring, count: int) -> None:
    """A port shared by all planes chooses among its links into all of them; one group covers all destinations."""
    table = inner.routing
    node = table.record_node
    keep = node < inner.ports
    width = int(table.width[keep].max(initial=1))
    choice = table.choices[table.first[keep][:, None] + np.arange(width)]
    every = (choice[:, None, :] + np.arange(count)[:, None] * inner.links).reshape(len(choice), count * width)
    first = builder.choices(every.astype(np.int64))
    builder.records(node[keep], table.lo[keep], table.hi[keep], first, width=count * width, stride=table.stride[keep])


def _classes(copies: Copies) -> NDArray[np.int32] | None:
    """Planes are equivalent switch by switch; rails and sites are not."""
    inner = copies.inner.classes
    if inner is None:
        return None
    out = np.arange(copies.nodes, dtype=np.int32)
    for copy in range(copies.count):
        node = copies.node(np.arange(copies.inner.nodes), copy)
        out[node] = copies.node(inner, 0 if copies.share_ports else copy)
    return out
