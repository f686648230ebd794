"""From a cluster to namespaces, cables and routes."""

from __future__ import annotations

import ipaddress
from collections import defaultdict
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from railyard.cluster.names import node_name
from railyard.engine.lab.blueprint import Node, Port, Wires
from railyard.kit.errors import InputError

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from railyard.cluster import Cluster

FIRST_ADDRESS = ipaddress.IPv4Address("10.0.0.1")
"""Of NIC port 0; the others follow."""

FASTEST_BPS = 1e9
"""Of a link: what a kernel forwards between namespaces beside others, by far; see docs/validation/lab.md."""

MTU = 9000

MOST_NODES = 160
"""Namespaces of a lab."""


@dataclass(frozen=True, eq=False)
class Lab:
    """The network of a cluster as a lab has it.

    Attributes:
        wires: To be built.
        node_of: int64[nodes of the network], number of the namespace.
        choices: By switch and port of a NIC, as the network numbers both: the links by which it goes on, in the order
            of the route.
        seed_of: By switch: of its hashes.
    """

    wires: Wires
    node_of: NDArray[np.int64]
    choices: dict[tuple[int, int], tuple[int, ...]]
    seed_of: dict[int, int]


def address(port: int) -> str:
    """IPv4 address of a NIC's port."""
    return str(FIRST_ADDRESS + port)


def laid_out(cluster: Cluster, rate_bps: NDArray[np.float64], routing: str = "static") -> Lab:
    """Namespaces, cables and routes of a cluster's back-end.

    Args:
        cluster: The machine.
        rate_bps: float64[links], of its links in the lab.
        routing: `static` or `frr`.

    Raises:
        InputError: It has something that a lab cannot have.
    """
    _check(cluster)
    network, wiring = cluster.back_end, cluster.back_end.wiring
    used = _used(cluster)
    node_of, names = _namespaces(cluster, used)
    ports = _ports(cluster, rate_bps, node_of)
    by_link = {port.link: port for port in ports}
    choices = _choices(cluster, used)
    seed_of = {switch: 1 + switch + 7919 * network.seed & 0xFFFFFFFF for switch in range(wiring.ports, wiring.nodes)}
    addresses: dict[int, list[tuple[str, str]]] = defaultdict(list)
    for number in used.tolist():
        out = int(network.port_links(number)[0][0])
        addresses[int(node_of[number])].append((by_link[out].name, address(number)))
    routes: dict[int, list[tuple[str, tuple[str, ...]]]] = defaultdict(list)
    for (switch, target), links in choices.items():
        routes[int(node_of[switch])].append((address(target), tuple(by_link[link].name for link in links)))
    hosts = len(addresses)
    seeds = {int(node_of[switch]): seed for switch, seed in seed_of.items()}
    nodes = tuple(
        Node(name, seeds.get(number, 0), tuple(addresses[number]), tuple(routes[number]))
        for number, name in enumerate(names)
    )
    return Lab(Wires(nodes, hosts, tuple(ports), MTU, routing), node_of, choices, seed_of)


def _check(cluster: Cluster) -> None:
    network = cluster.back_end
    single = [len(network.port_links(port)[0]) for port in _used(cluster).tolist()]
    several = any(tier.kind != "access" for tier in network.tiers)
    if max(single) > 1:
        raise InputError("a NIC's port has one link in the lab", key="cluster.back_end.topology", found=max(single))
    if several and not network.fabric.hashed:
        raise InputError(
            "switches of the lab hash flows onto paths, as Linux does",
            key="cluster.back_end.fabric",
            found=network.fabric.name,
            allowed="a fabric with `load_balancing: ecmp`, such as `lab` or `roce`, or a single switch",
        )
    if network.crossbar is not None or cluster.back_end.wiring.detour is not None:
        raise InputError("the lab has no such network", key="cluster.back_end.topology", found=network.topology)
    if cluster.spec.background:
        raise InputError("the lab has no traffic of others", key="cluster.background")


def _used(cluster: Cluster) -> NDArray[np.int64]:
    """Ports of NICs that ranks have."""
    return np.unique(cluster.back_end.port_of_rank).astype(np.int64)


def _namespaces(cluster: Cluster, used: NDArray[np.int64]) -> tuple[NDArray[np.int64], list[str]]:
    """Number of each node's namespace (-1: none), and names: hosts first, then switches."""
    network = cluster.back_end
    node_of = np.full(network.wiring.nodes, -1, np.int64)
    server = np.full(network.wiring.ports, -1, np.int64)
    server[network.port_of_rank] = (np.arange(cluster.ranks) // cluster.ranks_per_server)[:, None]
    servers, number = np.unique(server[used], return_inverse=True)
    node_of[used] = number.ravel()
    switches = np.unique(network.wiring.target[network.wiring.target >= network.wiring.ports])
    node_of[switches] = len(servers) + np.arange(len(switches))
    names = [f"server {one}" for one in servers.tolist()]
    names += [node_name(cluster, network.node_offset + one).removeprefix(f"{network.name} ") for one in switches]
    if len(names) > MOST_NODES:
        raise InputError(
            "the lab has a namespace for each server and switch",
            key="cluster.accelerators",
            found=f"{len(names)} namespaces",
            allowed=f"at most {MOST_NODES}",
        )
    return node_of, names


def _ports(cluster: Cluster, rate_bps: NDArray[np.float64], node_of: NDArray[np.int64]) -> list[Port]:
    """Both ends of each cable between namespaces: the links of one direction joined to those of the other."""
    network, wiring = cluster.back_end, cluster.back_end.wiring
    waiting: dict[tuple[int, int], list[int]] = defaultdict(list)
    pairs: list[tuple[int, int]] = []
    for link, (near, far) in enumerate(zip(wiring.source.tolist(), wiring.target.tolist(), strict=True)):
        if node_of[near] < 0 or node_of[far] < 0:
            continue
        if waiting[far, near]:
            pairs.append((waiting[far, near].pop(0), link))
        else:
            waiting[near, far].append(link)
    if any(waiting.values()):
        raise InputError("the lab's cables carry both directions", key="cluster.back_end.topology")
    ports: list[Port] = []
    count: dict[int, int] = defaultdict(int)
    for pair in pairs:
        for side, link in enumerate(pair):
            node, number = int(node_of[wiring.source[link]]), len(ports)
            rate = float(rate_bps[network.link_offset + link])
            _check_rate(rate)
            mac = f"02:59:{number >> 24 & 255:02x}:{number >> 16 & 255:02x}:{number >> 8 & 255:02x}:{number & 255:02x}"
            peer = number + 1 - 2 * side
            ports.append(Port(node, f"eth{count[node]}", mac, peer, network.link_offset + link, rate))
            count[node] += 1
    return ports


def _check_rate(rate_bps: float) -> None:
    if rate_bps > FASTEST_BPS * (1 + 1e-9):
        raise InputError(
            "namespaces on one machine do not carry this",
            key="cluster.back_end.link_rate",
            found=f"{rate_bps / 1e9:g} Gb/s",
            allowed=f"up to {FASTEST_BPS / 1e9:g} Gb/s, better 200 Mb/s",
            hint=f"write `lab: {{dilation: {round(rate_bps / 2e8)}}}`: all runs that many times slower, and times are"
            " given as if it did not",
        )


def _choices(cluster: Cluster, used: NDArray[np.int64]) -> dict[tuple[int, int], tuple[int, ...]]:
    """Links of equal cost, of every switch towards every NIC."""
    network, table = cluster.back_end, cluster.back_end.routing
    found: dict[tuple[int, int], tuple[int, ...]] = {}
    for switch in range(network.wiring.ports, network.wiring.nodes):
        node = np.full(len(used), switch, np.int32)
        record = table.find(node, used.astype(np.int32))
        for target, row in zip(used.tolist(), record.tolist(), strict=True):
            if row < 0:
                continue
            width = int(table.width[row])
            first = int(table.first[row]) + (target - int(table.lo[row])) // int(table.stride[row]) * width
            links = [int(link) for link in table.choices[first : first + width] if link >= 0]
            if links:
                found[switch, target] = tuple(network.link_offset + link for link in links)
    return found
