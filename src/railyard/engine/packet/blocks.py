"""Parts of a network of packets, each joined to no other, and what is added to them: routers and reducing switches."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from railyard.kit.errors import InputError

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from railyard.cluster.network import Network

    Ints = NDArray[np.int64]

PS_PER_S = 10**12
INSIDE_PS = 1000
"""Latency of links that stand for the inside of a box: a host's own router, a switch's own adder."""


@dataclass(frozen=True)
class RoutingRecord:
    """Routing records of one block, in its own numbers; columns as in `Routes`, and the node of each."""

    node: Ints
    lo: Ints
    hi: Ints
    first: Ints
    width: Ints
    stride: Ints


@dataclass(frozen=True)
class NetworkBlock:
    """A part of the network that is joined to no other. Nodes `0..hosts-1` are its hosts.

    Attributes:
        hosts: Hosts.
        nodes: Hosts and switches.
        source: int64[links].
        target: int64[links].
        rate_bps: float64[links].
        latency_ps: int64[links].
        link: int64[links], the cluster's id of each, -1 for none.
        record: Routes.
        choices: int64[].
        salt: uint32[nodes], what each switch adds to what it hashes; None: nothing is hashed.
    """

    hosts: int
    nodes: int
    source: Ints
    target: Ints
    rate_bps: NDArray[np.float64]
    latency_ps: Ints
    link: Ints
    record: RoutingRecord
    choices: Ints
    salt: NDArray[np.uint32] | None = None


# ------------------------------------------------------------------------------------------- ports that pass packets on


def with_routers(block: NetworkBlock) -> NetworkBlock:
    """A torus or a BCube: every port becomes a host and a router, for the engine's hosts pass nothing on.

    Router `p` takes the place of port `p`: links of ports are the routers'; a link of the port's whole rate leads from
    the host to its router and back.
    """
    ports = block.hosts
    shift = ports  # node n of the block becomes node n + ports
    rate = np.bincount(block.source[block.source < ports], block.rate_bps[block.source < ports], minlength=ports)
    up = len(block.source) + np.arange(ports)
    down = up + ports
    host = np.arange(ports)
    kept = block.record
    record = RoutingRecord(
        node=np.concatenate([kept.node + shift, host + shift, host]),
        lo=np.concatenate([kept.lo, host, np.zeros(ports, np.int64)]),
        hi=np.concatenate([kept.hi, host + 1, np.full(ports, ports)]),
        first=np.concatenate([kept.first, len(block.choices) + ports + host, len(block.choices) + host]),
        width=np.concatenate([kept.width, np.ones(2 * ports, np.int64)]),
        stride=np.concatenate([kept.stride, np.full(2 * ports, ports)]),
    )
    if ((kept.lo <= kept.node) & (kept.node < kept.hi)).any():
        raise InputError("the packet engine cannot tell a port of this topology from its router", key="topology.kind")
    return NetworkBlock(
        hosts=ports,
        nodes=block.nodes + ports,
        source=np.concatenate([block.source + shift, host, host + shift]),
        target=np.concatenate([block.target + shift, host + shift, host]),
        rate_bps=np.concatenate([block.rate_bps, rate, rate]),
        latency_ps=np.concatenate([block.latency_ps, np.full(2 * ports, INSIDE_PS)]),
        link=np.concatenate([block.link, np.full(2 * ports, -1)]),
        record=record,
        choices=np.concatenate([block.choices, up, down]),
        salt=None if block.salt is None else np.concatenate([np.zeros(ports, np.uint32), block.salt]),
    )


# ---------------------------------------------------------------------------------------------------- reducing switches


def reducer_nodes(network: Network) -> Ints:
    """int64[]: the switches to which NICs are joined; the first one of a port that has several."""
    nodes: Ints = np.unique(_leaf_of_port(network))
    return nodes[nodes >= 0]


def _leaf_of_port(network: Network) -> Ints:
    """int64[ports], -1 where nothing is connected."""
    wiring = network.wiring
    leaf = np.full(network.ports, -1, np.int64)
    out = np.flatnonzero(wiring.source < network.ports)[::-1]
    leaf[wiring.source[out]] = wiring.target[out]
    return leaf


def reducers(network: Network) -> Ints:
    """int64[ports]: host of the reducer next to each port."""
    leaf = _leaf_of_port(network)
    found: Ints = network.ports + np.searchsorted(reducer_nodes(network), leaf)
    return found


def with_reducers(block: NetworkBlock, leaf: Ints) -> NetworkBlock:
    """A host at every leaf that stands for what the switch adds up, joined by links as fast as all NICs below."""
    ports, count = block.hosts, len(leaf)
    host = ports + np.arange(count)

    def moved(node: Ints) -> Ints:
        return np.where(node < ports, node, node + count)

    below = np.bincount(block.target, block.rate_bps * (block.source < ports), minlength=block.nodes)[leaf]
    up, down = len(block.source) + np.arange(count), len(block.source) + count + np.arange(count)
    kept = block.record
    attached = np.flatnonzero(np.isin(block.source, np.arange(ports)) & np.isin(block.target, leaf))
    _, firsts = np.unique(block.source[attached], return_index=True)
    attached = attached[firsts]  # from each port the one link to its reducer
    begin = len(block.choices)
    record = RoutingRecord(
        node=np.concatenate([moved(kept.node), moved(leaf), host, block.source[attached]]),
        lo=np.concatenate(
            [kept.lo, host, np.zeros(count, np.int64), host[np.searchsorted(leaf, block.target[attached])]]
        ),
        hi=np.concatenate(
            [kept.hi, host + 1, np.full(count, ports), host[np.searchsorted(leaf, block.target[attached])] + 1]
        ),
        first=np.concatenate(
            [
                kept.first,
                begin + count + np.arange(count),
                begin + np.arange(count),
                begin + 2 * count + np.arange(len(attached)),
            ]
        ),
        width=np.concatenate([kept.width, np.ones(2 * count + len(attached), np.int64)]),
        stride=np.concatenate([kept.stride, np.full(2 * count + len(attached), ports + count)]),
    )
    return NetworkBlock(
        hosts=ports + count,
        nodes=block.nodes + count,
        source=np.concatenate([moved(block.source), host, moved(leaf)]),
        target=np.concatenate([moved(block.target), moved(leaf), host]),
        rate_bps=np.concatenate([block.rate_bps, below, below]),
        latency_ps=np.concatenate([block.latency_ps, np.full(2 * count, INSIDE_PS)]),
        link=np.concatenate([block.link, np.full(2 * count, -1)]),
        record=record,
        choices=np.concatenate([block.choices, up, down, attached]),
        salt=None if block.salt is None else np.insert(block.salt, ports, np.zeros(count, np.uint32)),
    )
