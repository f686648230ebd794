"""Namespaces, cables and routes of a cluster."""

from __future__ import annotations

import ipaddress
from collections import defaultdict
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

from railyard.cluster.names import node_name
from railyard.cluster.routes import subflow
from railyard.collective.connections import connection_keys
from railyard.collective.lowering.routes import rail_of_local
from railyard.engine.lab.blueprint import FIRST_LISTENING, Connection, LabNode, LabPort, Wires
from railyard.kit.errors import InputError, SimulationError

if TYPE_CHECKING:
    from collections.abc import Hashable, Sequence

    from numpy.typing import NDArray

    from railyard.cluster import Cluster


FIRST_ADDRESS = ipaddress.IPv4Address("10.0.0.1")
"""Address of NIC port 0; the others follow."""

FASTEST_BPS = 1e9
"""Rate of a link that a kernel forwards between namespaces with ease, among others; see docs/validation/lab.md."""

MTU = 9000

MOST_NODES = 160
"""Namespaces of a lab."""


@dataclass(frozen=True, eq=False)
class Lab:
    """The network of a cluster as a lab has it.

    Attributes:
        choices: By switch and port of a NIC, as the network numbers both: the links by which it goes on, in the order
            of the route.
        seed_of: By switch: of its hashes.
    """

    wires: Wires
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
        LabNode(name, seeds.get(number, 0), tuple(addresses[number]), tuple(routes[number]))
        for number, name in enumerate(names)
    )
    return Lab(Wires(nodes, hosts, tuple(ports), MTU, routing), choices, seed_of)


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


def _ports(cluster: Cluster, rate_bps: NDArray[np.float64], node_of: NDArray[np.int64]) -> list[LabPort]:
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
    ports: list[LabPort] = []
    count: dict[int, int] = defaultdict(int)
    for pair in pairs:
        for side, link in enumerate(pair):
            node, number = int(node_of[wiring.source[link]]), len(ports)
            rate = float(rate_bps[network.link_offset + link])
            _check_rate(rate)
            mac = f"02:59:{number >> 24 & 255:02x}:{number >> 16 & 255:02x}:{number >> 8 & 255:02x}:{number & 255:02x}"
            peer = number + 1 - 2 * side
            ports.append(LabPort(node, f"eth{count[node]}", mac, peer, network.link_offset + link, rate))
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
    network, table = cluster.back_end, cluster.back_end.wiring.routing
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


FIRST_PORT, LAST_PORT = 10_000, 60_000
"""Source ports to choose from."""

_TCP = 6
_LENGTH = 48
_AT_ONCE = 512
_MASK32 = np.uint64(0xFFFFFFFF)


def _rotated(value: NDArray[np.uint64], bits: int) -> NDArray[np.uint64]:
    return (value << np.uint64(bits)) | (value >> np.uint64(64 - bits))


def _round(v: list[NDArray[np.uint64]]) -> None:
    v[0] = v[0] + v[1]
    v[2] = v[2] + v[3]
    v[1] = _rotated(v[1], 13) ^ v[0]
    v[3] = _rotated(v[3], 16) ^ v[2]
    v[0] = _rotated(v[0], 32)
    v[2] = v[2] + v[1]
    v[0] = v[0] + v[3]
    v[1] = _rotated(v[1], 17) ^ v[2]
    v[3] = _rotated(v[3], 21) ^ v[0]
    v[2] = _rotated(v[2], 32)


def siphash(words: NDArray[np.uint64], length: int, key: int) -> NDArray[np.uint64]:
    """SipHash-2-4 of rows of whole 64-bit words.

    Args:
        words: uint64[rows, words], little-endian.
        length: Bytes of a row.
        key: Both halves of the key.

    Source: J.-P. Aumasson, D. J. Bernstein, "SipHash: a fast short-input PRF", INDOCRYPT 2012.
    """
    secret = np.full(len(words), key, np.uint64)
    constants = (0x736F6D6570736575, 0x646F72616E646F6D, 0x6C7967656E657261, 0x7465646279746573)
    v: list[NDArray[np.uint64]] = [secret ^ np.uint64(one) for one in constants]
    last = np.full((len(words), 1), (length << 56) & (1 << 64) - 1, np.uint64)
    for word in np.concatenate([words, last], axis=1).T:
        v[3] = v[3] ^ word
        _round(v)
        _round(v)
        v[0] = v[0] ^ word
    v[2] = v[2] ^ np.uint64(0xFF)
    for _ in range(4):
        _round(v)
    return v[0] ^ v[1] ^ v[2] ^ v[3]


def _rotated32(value: NDArray[np.uint64], bits: int) -> NDArray[np.uint64]:
    return ((value << np.uint64(bits)) | (value >> np.uint64(32 - bits))) & _MASK32


def jenkins(first: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """Jenkins' lookup3 hash of a 32-bit word and a zero, as `jhash_2words(first, 0, 0)`."""
    start = np.uint64(0xDEADBEEF + 8)
    a, b, c = (first + start) & _MASK32, np.full_like(first, start), np.full_like(first, start)
    for bits in ((14, 11, 25), (16, 4, 14)):
        c = ((c ^ b) - _rotated32(b, bits[0])) & _MASK32
        a = ((a ^ c) - _rotated32(c, bits[1])) & _MASK32
        b = ((b ^ a) - _rotated32(a, bits[2])) & _MASK32
    return ((c ^ b) - _rotated32(b, 24)) & _MASK32


def hashes(source: str, target: str, ports: NDArray[np.int64], target_port: int, seed: int) -> NDArray[np.int64]:
    """31-bit hashes of TCP packets, as one switch takes them.

    Args:
        source: IPv4 address.
        target: IPv4 address.
        ports: int64[k], source ports.
        target_port: Of all.
        seed: Of the switch, 1 to 2^32 - 1.
    """
    one, other = (int.from_bytes(ipaddress.IPv4Address(text).packed, "little") for text in (source, target))
    # the kernel compares by a signed difference of what lies in memory
    if ((other - one) & 0xFFFFFFFF) >> 31:
        one, other = other, one
    near = _swapped(ports)
    far = np.full_like(near, int(_swapped(np.array([target_port]))[0]))
    low, high = np.minimum(near, far), np.maximum(near, far)
    words = np.zeros((len(ports), _LENGTH // 8), np.uint64)
    words[:, 0] = _TCP << 16
    words[:, 3] = (low | high << np.uint64(16)) << np.uint64(32)
    words[:, 4] = np.uint64(one) << np.uint64(32)
    words[:, 5] = other
    outer = siphash(words, _LENGTH, (seed << 32) | seed) & _MASK32
    return (jenkins(np.where(outer == 0, np.uint64(1), outer)) >> np.uint64(1)).astype(np.int64)


def _swapped(ports: NDArray[np.int64]) -> NDArray[np.uint64]:
    return ((ports & 0xFF) << 8 | ports >> 8).astype(np.uint64)


def taken(hashed: NDArray[np.int64], width: int) -> NDArray[np.int64]:
    """The chosen one of so many equal next hops, in the order of the route."""
    bounds = np.array([((hop + 1 << 31) + width // 2) // width - 1 for hop in range(width)])
    return np.searchsorted(bounds, hashed)


def source_port(
    source: str, target: str, target_port: int, choices: Sequence[tuple[int, int, int]], used: set[int]
) -> int:
    """A source port whose packets every switch sends to the chosen next hop.

    Args:
        source: IPv4 address.
        target: IPv4 address.
        target_port: Where the receiver listens.
        choices: Of each switch with several next hops: its seed, how many they are, and which one it is to take.
        used: Source ports of that address that are taken.

    Raises:
        SimulationError: None does.
    """
    for begin in range(FIRST_PORT, LAST_PORT, _AT_ONCE):
        ports = np.arange(begin, begin + _AT_ONCE)
        fits = ~np.isin(ports, list(used)) if used else np.ones(len(ports), np.bool_)
        for seed, width, wanted in choices:
            fits &= taken(hashes(source, target, ports, target_port, seed), width) == wanted
        if fits.any():
            return int(ports[int(np.argmax(fits))])
    raise SimulationError(f"no source port takes TCP from {source} to {target} over the path that was drawn")


@dataclass
class Connections:
    """Connections while programs ask for them; each is opened once.

    Attributes:
        lab: Its network in namespaces.
        pxn: Whether what goes to another rail leaves by the peer's NIC on that rail.
        listed: What has been asked for.
    """

    cluster: Cluster
    lab: Lab
    pxn: bool = True
    listed: list[Connection] = field(default_factory=list)
    _known: dict[Hashable, int] = field(default_factory=dict)
    _used: dict[str, set[int]] = field(default_factory=dict)

    def lanes(self, each: int) -> int:
        """Connections between two ranks where a library opens so many through each NIC."""
        network = self.cluster.back_end
        nics: int = network.port_of_rank.shape[1]
        return (each * network.fabric.qps if self._hashes else 1) * nics

    @property
    def _hashes(self) -> bool:
        fabric = self.cluster.fabric
        return fabric.hashed and fabric.tells_queue_pairs_apart

    def number(self, source: int, target: int, communicator: int, lane: int, use: Hashable = ()) -> int:
        """The connection between two ranks.

        Args:
            source: Rank.
            target: Rank.
            communicator: As `connection_keys` takes it.
            lane: Which of `lanes`.
            use: Anything else that distinguishes it: the stream on which it is used.
        """
        key = (source, target, communicator, lane, use)
        if key not in self._known:
            self._known[key] = len(self.listed)
            self.listed.append(self._opened(source, target, communicator, lane))
        return self._known[key]

    def _opened(self, source: int, target: int, communicator: int, lane: int) -> Connection:
        network, domain = self.cluster.back_end, self.cluster.scale_up_domain
        per_server, nics = self.cluster.ranks_per_server, network.port_of_rank.shape[1]
        nic, rest = lane % nics, lane // nics
        leaves = source
        if self.pxn and source // domain != target // domain:
            rails, peer = rail_of_local(self.cluster), source - source % per_server + target % per_server
            crosses = rails[source % per_server] != rails[target % per_server]
            leaves = peer if crosses and peer // domain == source // domain else source
        ports = int(network.port_of_rank[leaves, nic]), int(network.port_of_rank[target, nic])
        near, far = address(ports[0]), address(ports[1])
        if source // per_server == target // per_server:
            return Connection(source, target, near, 0, far)
        links = self._path(ports, communicator, rest)
        used = self._used.setdefault(near, set())
        port = source_port(near, far, FIRST_LISTENING + target, self._choices(links, ports[1]), used)
        used.add(port)
        return Connection(source, target, near, port, far, links)

    def _path(self, ports: tuple[int, int], communicator: int, rest: int) -> tuple[int, ...]:
        """Links as the cluster draws them; where nothing is hashed, there is one path."""
        network = self.cluster.back_end
        near, far = (np.array([port], np.int32) for port in ports)
        if not network.fabric.hashed:
            return tuple(int(link) for link in network.spread(near, far, physical=True).row(0)[0])
        channel, lane = divmod(rest, network.fabric.qps) if self._hashes else (0, 0)
        key = connection_keys(np.array([communicator], np.uint64), near, far, np.array([channel]))
        return tuple(network.by_port(near, far, subflow(key, lane)).link.tolist())

    def _choices(self, path: tuple[int, ...], target: int) -> list[tuple[int, int, int]]:
        """For each switch on a path with several next hops, its seed, their number, and the one that is taken."""
        network = self.cluster.back_end
        found = []
        for link in path:
            switch = int(network.wiring.source[link - network.link_offset])
            links = self.lab.choices.get((switch, target), ())
            if len(links) > 1:
                found.append((self.lab.seed_of[switch], len(links), links.index(link)))
        return found
