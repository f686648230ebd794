"""Names of a cluster's links, switches and hosts, as used in faults."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Literal

import numpy as np

from railyard.cluster.fault.fault import some_cables
from railyard.cluster.hall.devices import NETWORKS
from railyard.kit.errors import InputError, did_you_mean

if TYPE_CHECKING:
    from railyard.cluster.fault.fault import Links
    from railyard.cluster.links import LinkTable
    from railyard.cluster.machine import Cluster
    from railyard.cluster.network import Network

_HOST = re.compile(r"server(\d+)nic(\d+)|node(\d+)be(\d+)")
"""A NIC of the back-end: `server 5 NIC 3`, or as plans name it: `node05 be3`."""


@dataclass(frozen=True)
class LinkPlaces:
    """Places of a plain link table and a number of ranks: links by number and tier."""

    links: LinkTable
    ranks: int

    def link(self, number: int) -> Links:
        """See `Places`."""
        if not 0 <= number < self.links.physical:
            allowed = f"0 to {self.links.physical - 1}"
            raise InputError("there is no such link", key="link", found=number, allowed=allowed)
        return np.array([number], np.int64)

    def tier(self, name: str) -> Links:
        """See `Places`."""
        known = self.links.tiers
        tiers = [tier for tier in known if name in (tier, tier.split()[-1])]
        if not tiers:
            message = f"the cluster has no tier `{name}`"
            raise InputError(message, key="tier", found=name, allowed=known, hint=did_you_mean(name, known))
        return np.concatenate([self.links.of_tier(tier) for tier in tiers]).astype(np.int64)

    def rank(self, rank: int) -> int:
        """See `Places`."""
        if not 0 <= rank < self.ranks:
            raise InputError("there is no such rank", key="rank", found=rank, allowed=f"0 to {self.ranks - 1}")
        return rank

    def every_link(self) -> Links:
        """See `Places`."""
        return np.arange(self.links.physical, dtype=np.int64)

    def cable(self, ends: str, cables: int | Literal["all"] = 1, first: int = 0) -> Links:
        """See `Places`."""
        del cables, first
        raise self._nameless("cable", ends)

    def switch(self, name: str) -> Links:
        """See `Places`."""
        raise self._nameless("switch", name)

    def out_of(self, switch: str) -> Links:
        """See `Places`."""
        raise self._nameless("switch", switch)

    def nic(self, host: int, nic: int, port: int | None) -> Links:
        """See `Places`."""
        raise self._nameless("host", host if port is None else (host, nic, port))

    def host(self, host: int) -> Links:
        """See `Places`."""
        raise self._nameless("host", host)

    def ranks_of_host(self, host: int) -> tuple[int, ...]:
        """See `Places`."""
        raise self._nameless("host", host)

    @staticmethod
    def _nameless(key: str, found: object) -> InputError:
        return InputError("links without a cluster have no names", key=key, found=found, allowed="`link` or `tier`")


@dataclass(frozen=True)
class ClusterPlaces(LinkPlaces):
    """Places of a cluster."""

    cluster: Cluster

    @classmethod
    def of(cls, cluster: Cluster) -> ClusterPlaces:
        """The places of a cluster with all its ranks."""
        return cls(cluster.links, cluster.ranks, cluster)

    def cable(self, ends: str, cables: int | Literal["all"] = 1, first: int = 0) -> Links:
        """See `Places`."""
        names = ends.split(" - ") if " - " in ends else ends.split("-")
        if len(names) != 2:
            raise InputError("expected two nodes", key="cable", found=ends, allowed="such as `leaf 0 - spine 1`")
        one, other = (self._node(name, "cable") for name in names)
        source, target = self._ends
        forth = np.flatnonzero((source == one) & (target == other))
        if not len(forth):
            raise self._no_cable(ends, one)
        return some_cables(forth, np.flatnonzero((source == other) & (target == one)), cables, first)

    def switch(self, name: str) -> Links:
        """See `Places`."""
        return self._around(np.array([self._node(name, "switch", hosts=False)]))

    def out_of(self, switch: str) -> Links:
        """See `Places`."""
        return np.flatnonzero(self._ends[0] == self._node(switch, "switch", hosts=False))

    def nic(self, host: int, nic: int, port: int | None) -> Links:
        """See `Places`."""
        self._check_host(host)
        network = self.cluster.back_end
        ports = self._ports(network, host)
        if not 0 <= nic < len(ports):
            allowed = f"0 to {len(ports) - 1}"
            raise InputError(f"host {host} has no such NIC", key="nic", found=nic, allowed=allowed)
        links = self._around(ports[nic : nic + 1] + network.node_offset)
        return links if port is None else self._port(links, ports[nic] + network.node_offset, port)

    def host(self, host: int) -> Links:
        """See `Places`."""
        self._check_host(host)
        nodes = [self._ports(network, host) + network.node_offset for network in self.cluster.networks]
        return self._around(np.concatenate(nodes))

    def ranks_of_host(self, host: int) -> tuple[int, ...]:
        """See `Places`."""
        self._check_host(host)
        first = host * self.cluster.ranks_per_server
        return tuple(range(first, min(first + self.cluster.ranks_per_server, self.ranks)))

    def _check_host(self, host: int) -> None:
        if not 0 <= host < self.cluster.servers:
            allowed = f"0 to {self.cluster.servers - 1}"
            raise InputError("there is no such host", key="host", found=host, allowed=allowed)

    @cached_property
    def _ends(self) -> tuple[Links, Links]:
        count = self.links.physical
        return self.links.source[:count].astype(np.int64), self.links.target[:count].astype(np.int64)

    def _around(self, nodes: Links) -> Links:
        source, target = self._ends
        return np.flatnonzero(np.isin(source, nodes) | np.isin(target, nodes))

    def _port(self, links: Links, node: np.int64, port: int) -> Links:
        """Both directions of one of the links out of a node, in numerical order: planes, then trunks."""
        source, target = self._ends
        out = links[source[links] == node]
        if not 0 <= port < len(out):
            raise InputError("the NIC has no such port", key="port", found=port, allowed=f"0 to {len(out) - 1}")
        far = target[out[port]]
        found: Links = links[(source[links] == far) | (target[links] == far)]
        return found

    def _ports(self, network: Network, host: int) -> Links:
        ranks = np.array(self.ranks_of_host(host))
        return (
            np.unique(network.port_of_rank[ranks]).astype(np.int64) if network.port_of_rank.size else np.empty(0, int)
        )

    @cached_property
    def _switches(self) -> dict[str, tuple[int, int]]:
        """First node and count of every group of switches, by name without spaces, starting with the back-end."""
        found: dict[str, tuple[int, int]] = {}
        for network in self.cluster.networks:
            for group in network.wiring.groups:
                name = f"{group.part} {group.role}".strip()
                entry = (network.node_offset + group.first, group.count)
                found.setdefault(_bare(name), entry)
                found[_bare(f"{network.name} {name}")] = entry
                if network.name in NETWORKS:
                    found[_bare(f"{NETWORKS[network.name]}-{name}")] = entry
        return found

    def _node(self, name: str, key: str, *, hosts: bool = True) -> int:
        bare = _bare(name)
        nic = _HOST.fullmatch(bare)
        if nic is not None and hosts:
            network, host, index = self.cluster.back_end, int(nic[1] or nic[3]), int(nic[2] or nic[4])
            self._check_host(host)
            ports = self._ports(network, host)
            if index >= len(ports):
                raise self._unknown(name, key)
            return int(ports[index]) + network.node_offset
        found = re.fullmatch(r"(.*?)(\d+)", bare)
        first, count = self._switches.get(found[1], (0, 0)) if found else (0, 0)
        if found is None or int(found[2]) >= count:
            raise self._unknown(name, key)
        return first + int(found[2])

    def _unknown(self, name: str, key: str) -> InputError:
        groups = [
            (f"{group.part} {group.role}".strip(), group.count)
            for network in self.cluster.networks
            for group in network.wiring.groups
        ]
        allowed = [f"{group} 0 to {count - 1}" if count > 1 else f"{group} 0" for group, count in groups]
        nics = len(self._ports(self.cluster.back_end, 0))
        if key == "cable" and nics:
            allowed.append(f"server 0 to {self.cluster.servers - 1} NIC 0 to {nics - 1}")
        every = [f"{group} {number}" for group, count in groups for number in range(min(count, 1024))]
        hint = did_you_mean(name.strip(), every)
        return InputError(
            f"the cluster has no `{name.strip()}`",
            key=key,
            found=name.strip(),
            allowed=list(dict.fromkeys(allowed)),
            hint=hint,
        )

    def _no_cable(self, ends: str, node: int) -> InputError:
        from railyard.cluster.names import node_name

        source, target = self._ends
        near = np.unique(target[source == node])[:6]
        names = [node_name(self.cluster, int(other)) for other in near]
        return InputError(
            "no cable joins the two", key="cable", found=ends, allowed=f"from the first: {', '.join(names)}"
        )


def _bare(name: str) -> str:
    return "".join(name.lower().split())
