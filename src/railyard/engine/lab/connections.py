"""The TCP connections of a run, each on the path that the cluster drew for it."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

from railyard.collective.connections import connection_keys
from railyard.collective.lowering.routes import rail_of_local
from railyard.engine.lab import kernel_hash
from railyard.engine.lab.blueprint import FIRST_LISTENING, Connection
from railyard.engine.lab.wiring import address

if TYPE_CHECKING:
    from collections.abc import Hashable

    from railyard.cluster import Cluster
    from railyard.engine.lab.wiring import Lab


@dataclass
class Connections:
    """Connections while programs ask for them; each is opened once.

    Attributes:
        cluster: Where ranks are.
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
            use: What else tells it apart: the stream on which it is used.
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
        port = kernel_hash.source_port(near, far, FIRST_LISTENING + target, self._choices(links, ports[1]), used)
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
        return tuple(network.lane_path(near, far, key, lane).row(0).tolist())

    def _choices(self, path: tuple[int, ...], target: int) -> list[tuple[int, int, int]]:
        """Of each switch on a path with several ways on: its seed, how many they are, and which one is taken."""
        network = self.cluster.back_end
        found = []
        for link in path:
            switch = int(network.wiring.source[link - network.link_offset])
            links = self.lab.choices.get((switch, target), ())
            if len(links) > 1:
                found.append((self.lab.seed_of[switch], len(links), links.index(link)))
        return found
