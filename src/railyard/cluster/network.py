"""One network of a cluster: its ports, its routes and its fabric."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from railyard.cluster import routes
from railyard.cluster.links import Csr, CsrWeighted
from railyard.cluster.steering import withdrawn
from railyard.cluster.topology.wiring import ACCESS_CROSSBAR
from railyard.kit.quantities import ranges

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from railyard.cluster.boxes import Bundles
    from railyard.cluster.fabric.fabric import Fabric
    from railyard.cluster.steering import Steering
    from railyard.cluster.topology.wiring import Detour, Tier, Wiring


def spread(wiring: Wiring, detour: Detour, src: NDArray[np.int32], dst: NDArray[np.int32]) -> CsrWeighted:
    """An even split over minimal routes, with the detours' share through some other groups.

    A hash of the pair of groups selects the intermediate groups, so that all pairs together use all groups evenly.
    Source: L. Valiant, "A scheme for fast parallel communication", SIAM J. Comput. 11(2), 1982.

    Args:
        wiring: The network.
        detour: Share and number of detours.
        src: int32[flows], sending ports.
        dst: int32[flows], receiving ports.
    """
    direct = routes.spread(wiring.routing, wiring.target, src, dst)
    far = np.flatnonzero(src // detour.group_ports != dst // detour.group_ports)
    flow = np.repeat(far, detour.intermediates)
    middle = _middle_ports(wiring, detour, src[far], dst[far])
    there = routes.spread(wiring.routing, wiring.target, src[flow], middle)
    routers = wiring.target[_first_links(wiring, middle)]
    onward = routes.spread(wiring.routing, wiring.target, routers, dst[flow])
    arrives = wiring.target[there.link] == middle[there.rows()]
    part = detour.share / detour.intermediates
    keep = np.ones(len(src))
    keep[far] -= detour.share
    rows = [direct.rows(), flow[there.rows()][~arrives], flow[onward.rows()]]
    links = [direct.link, there.link[~arrives], onward.link]
    shares = [direct.share * keep[direct.rows()], there.share[~arrives] * part, onward.share * part]
    return CsrWeighted.gathered(len(src), np.concatenate(rows), np.concatenate(links), np.concatenate(shares))


def _middle_ports(wiring: Wiring, detour: Detour, src: NDArray[np.int32], dst: NDArray[np.int32]) -> NDArray[np.int32]:
    one, other = src // detour.group_ports, dst // detour.group_ports
    pair = one.astype(np.uint64) * np.uint64(detour.groups) + other.astype(np.uint64)
    begin = routes.pick(routes.mix(pair), np.full(len(pair), detour.groups - 2, np.int32))
    slot = (begin[:, None] + np.arange(detour.intermediates)) % (detour.groups - 2)
    group = slot + (slot >= np.minimum(one, other)[:, None])
    group += group >= np.maximum(one, other)[:, None]
    filled = np.minimum(detour.group_ports, len(wiring.used) - group * detour.group_ports)
    lane = routes.mix(src.astype(np.uint64))[:, None] ^ group.astype(np.uint64)
    within = routes.pick(routes.mix(lane), filled.astype(np.int32))
    middle: NDArray[np.int32] = (group * detour.group_ports + within).ravel().astype(np.int32)
    return middle


def _first_links(wiring: Wiring, port: NDArray[np.int32]) -> NDArray[np.int32]:
    table = wiring.routing
    return table.choices[table.first[table.record_ptr[port]]]


_SOURCE_PORTS = np.uint64(0x3FFF)  # beside the two uppermost bits, which RoCE sets


@dataclass(frozen=True, eq=False)
class Network:
    """A wired network with its fabric. All link ids that it returns are those of the cluster's `LinkTable`.

    Attributes:
        name: `back-end`, `front-end` or `storage`.
        wiring: Links and routes in the network's own numbers.
        port_of_rank: int32[ranks, NICs of a rank], ports by which each rank sends and receives.
        extra_ports: int32[], further ports (storage servers).
        node_offset: Offset from the network's node numbers to the cluster's.
        link_offset: Offset from the network's link numbers to the cluster's.
        bundle_offset: Id of the first bundle of this network.
        bundles: The folded network of a spraying fabric, or None.
        link_latency_ps: int64[links of the cluster], the link table's column.
        crossbar: On `ideal` over a network without switches: the first of the crossbar's links, which are one out of
            every port and then one into every port; otherwise None.
        steering: How paths are chosen where switches hash; None: they are hashed.
    """

    name: str
    topology: str
    wiring: Wiring = field(repr=False)
    fabric: Fabric
    port_of_rank: NDArray[np.int32] = field(repr=False)
    extra_ports: NDArray[np.int32] = field(repr=False)
    node_offset: int
    link_offset: int
    bundle_offset: int
    bundles: Bundles | None = field(repr=False)
    link_latency_ps: NDArray[np.int64] = field(repr=False)
    seed: int = 0
    crossbar: int | None = None
    steering: Steering | None = field(default=None, repr=False)

    @property
    def tiers(self) -> tuple[Tier, ...]:
        """Kinds of its links."""
        return self.wiring.tiers if self.crossbar is None else (*self.wiring.tiers, ACCESS_CROSSBAR)

    @property
    def nodes(self) -> int:
        """Ports and switches; a crossbar that is not part of the wiring is the last."""
        return self.wiring.nodes + (self.crossbar is not None)

    @property
    def ports(self) -> int:
        """Size of the range of port numbers."""
        return self.wiring.ports

    def without(self, links: NDArray[np.int64]) -> Network:
        """The same network with routes that avoid some of the cluster's links, as far as there are others.

        Bundles keep their routes: a fabric that sprays uses the remaining members.
        """
        own = links[(links >= self.link_offset) & (links < self.link_offset + self.wiring.links)] - self.link_offset
        if not len(own):
            return self
        return replace(self, wiring=replace(self.wiring, routing=withdrawn(self.wiring, own)))

    @cached_property
    def salts(self) -> NDArray[np.uint32]:
        """uint32[nodes], hash salt of each switch."""
        return routes.salts(self.wiring.nodes, seed=self.seed, shared=self.fabric.shared_hash)

    def usage(
        self, src_port: NDArray[np.int32], dst_port: NDArray[np.int32], flow_key: NDArray[np.uint64]
    ) -> CsrWeighted:
        """Links of each transfer, with the share of its bytes on each, as the fabric balances load.

        Args:
            src_port: int32[transfers], sending ports.
            dst_port: int32[transfers], receiving ports.
            flow_key: uint64[transfers], entropy of each connection; equal keys hash to the same path.

        Raises:
            InputError: A pair has no path.
        """
        if self.fabric.load_balancing == "ideal":
            return self.endpoints(src_port, dst_port)
        src_port, dst_port = self.wiring.ends(src_port, dst_port)
        if self.fabric.bundled:
            return self.spread(src_port, dst_port)
        return self.split(src_port, dst_port, flow_key, self.fabric.paths)

    def hashed(self, src_port: NDArray[np.int32], dst_port: NDArray[np.int32], entropy: NDArray[np.uint64]) -> Csr:
        """One equal-cost path per flow, hashed hop by hop.

        Args:
            src_port: int32[flows].
            dst_port: int32[flows].
            entropy: uint64[flows], the hash input (addresses, UDP source port, queue pair).

        Raises:
            InputError: A pair has no path.
        """
        src, dst = self.wiring.ends(_int32(src_port), _int32(dst_port))
        path = routes.hashed(
            self.wiring.routing, self.wiring.target, src, dst, entropy=np.asarray(entropy, np.uint64), salt=self.salts
        )
        return Csr(path.ptr, path.link + np.int32(self.link_offset))

    def split(
        self, src_port: NDArray[np.int32], dst_port: NDArray[np.int32], flow_key: NDArray[np.uint64], count: int
    ) -> CsrWeighted:
        """Each transfer over `count` hashed paths in equal shares; paths may coincide."""
        pair = routes.subflows(np.asarray(flow_key, np.uint64), count)
        source, target = np.repeat(src_port, count), np.repeat(dst_port, count)
        if self.steering is not None:
            pair = self.steering.labels(source, target, pair)
        path = self.by_port(source, target, pair)
        if count == 1:
            return path.weighted()
        row = np.repeat(np.arange(len(src_port)), count)
        return CsrWeighted.summed(len(src_port), [(row, path, np.full(len(row), 1 / count))])

    def by_port(self, src_port: NDArray[np.int32], dst_port: NDArray[np.int32], pair: NDArray[np.uint64]) -> Csr:
        """The path of each flow whose queue pair numbers determine this UDP source port."""
        return self.hashed(src_port, dst_port, self._entropy(src_port, dst_port, pair))

    def path_keys(
        self, src_port: NDArray[np.int32], dst_port: NDArray[np.int32], flow_key: NDArray[np.uint64], lane: int = 0
    ) -> NDArray[np.uint32]:
        """uint32[transfers], hash input of queue pair `lane` of each connection; as in `split`."""
        return routes.path_keys(self._entropy(src_port, dst_port, routes.subflow(flow_key, lane)))

    def _entropy(
        self, src_port: NDArray[np.int32], dst_port: NDArray[np.int32], pair: NDArray[np.uint64]
    ) -> NDArray[np.uint64]:
        """The addresses and the UDP source port; with `e_ecmp` also the queue pair number.

        Linux derives 14 bits of the source port from the numbers of both queue pairs.
        """
        if not self.fabric.e_ecmp:
            pair = pair & _SOURCE_PORTS if self.fabric.source_port == "queue-pair" else np.zeros_like(pair)
        ends = routes.mix(src_port.astype(np.uint64) << np.uint64(32) | dst_port.astype(np.uint64))
        return routes.mix(ends ^ routes.mix(pair))

    def spread(
        self, src_port: NDArray[np.int32], dst_port: NDArray[np.int32], *, physical: bool = False
    ) -> CsrWeighted:
        """An even split over all equal-cost links at every switch.

        Names bundles if the fabric sprays and the topology can be folded, otherwise real links.

        Args:
            src_port: int32[flows].
            dst_port: int32[flows].
            physical: Whether to name real links even if bundles are possible.

        Raises:
            InputError: A pair has no path.
        """
        src, dst = self.wiring.ends(_int32(src_port), _int32(dst_port))
        if self.bundles is not None and not physical:
            usage = routes.spread(self.bundles.routing, self.bundles.target, src, dst)
            return CsrWeighted(usage.ptr, self._global(usage.link), usage.share)
        if self.wiring.detour is not None:
            usage = spread(self.wiring, self.wiring.detour, src, dst)
        else:
            usage = routes.spread(self.wiring.routing, self.wiring.target, src, dst)
        return CsrWeighted(usage.ptr, usage.link + np.int32(self.link_offset), usage.share)

    def _global(self, link: NDArray[np.int32]) -> NDArray[np.int32]:
        shift = np.where(link < self.wiring.links, self.link_offset, self.bundle_offset - self.wiring.links)
        return (link + shift).astype(np.int32)

    def endpoints(self, src_port: NDArray[np.int32], dst_port: NDArray[np.int32]) -> CsrWeighted:
        """Only the sender's and the receiver's own links: all that limits a non-blocking crossbar."""
        src, dst = _int32(src_port), _int32(dst_port)
        flow = np.flatnonzero(src != dst)
        parts = [_fan(flow, src[flow], *self._out), _fan(flow, dst[flow], *self._in)]
        rows, links, shares = (np.concatenate([part[item] for part in parts]) for item in range(3))
        return CsrWeighted.gathered(len(src), rows, links + self.link_offset, shares)

    @cached_property
    def _out(self) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        if self.crossbar is not None:
            return _one_each(self.ports, self.crossbar - self.link_offset)
        return _by_port(self.wiring.source, self.ports)

    @cached_property
    def _in(self) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        if self.crossbar is not None:
            return _one_each(self.ports, self.crossbar - self.link_offset + self.ports)
        return _by_port(self.wiring.target, self.ports)

    def port_links(self, port: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Links out of a port and links into it; bundles if the fabric sprays over several, e.g. over planes."""
        out, into = (link[ptr[port] : ptr[port + 1]] for ptr, link in (self._out, self._in))
        return self._images(out), self._images(into)

    def _images(self, link: NDArray[np.int64]) -> NDArray[np.int64]:
        """The cluster's ids of the network's own links, or of their bundles; each once."""
        if self.bundles is None:
            return link + self.link_offset
        bundle = self.bundles.bundle_of[link]
        return np.unique(np.where(bundle >= 0, bundle + self.bundle_offset, link + self.link_offset))

    def reachable(self, src_port: NDArray[np.int32], dst_port: NDArray[np.int32]) -> NDArray[np.bool_]:
        """Whether there is a path; always on `ideal`, not between rails of a rail-only network."""
        if self.fabric.load_balancing == "ideal":
            return np.ones(len(src_port), np.bool_)
        ends = self.wiring.ends(_int32(src_port), _int32(dst_port))
        return routes.walked(self.wiring.routing, self.wiring.target, *ends)[1]

    def hops(self, src_port: NDArray[np.int32], dst_port: NDArray[np.int32]) -> NDArray[np.int64]:
        """Switches on a shortest path; 0 from a port to itself."""
        path = routes.hashed(
            self.wiring.routing, self.wiring.target, *self.wiring.ends(_int32(src_port), _int32(dst_port))
        )
        return np.maximum(path.lengths - 1, 0)

    def path_latency_ps(self, src_port: NDArray[np.int32], dst_port: NDArray[np.int32]) -> NDArray[np.int64]:
        """One way, first bit, no queue: both NICs, the fabric's setup, every cable and every switch of a shortest path.

        If the setup is a credit round trip from the egress leaf, it crosses the long links of the path both ways before
        the message does; if each site grants its own credits (`credits: site`), the message is set up in both. On
        `ideal`, ports that the topology does not connect count as connected by one switch.
        """
        crossed = self.crossed_ps(src_port, dst_port)
        ends = np.full(crossed.shape, self.fabric.end_latency_ps)
        if self.credits_cross:
            far_ps = self._walked_ps(src_port, dst_port, np.where(self._long, self.link_latency_ps, 0))[0]
            sites_ps = np.where(far_ps > 0, self.fabric.setup_latency_ps, 0)
            ends += 2 * far_ps if self.fabric.credits == "egress" else sites_ps
        return np.where(_int32(src_port) != _int32(dst_port), crossed + ends, 0)

    @property
    def credits_cross(self) -> bool:
        """Whether messages wait for credits before they are sent, and some go to another site."""
        return bool(self.fabric.setup_latency_ps and self.long_latency_ps)

    @property
    def long_latency_ps(self) -> int:
        """One-way latency of its longest link between sites; 0 if it has none."""
        return int(self.link_latency_ps[self._long].max(initial=0))

    def crossed_ps(self, src_port: NDArray[np.int32], dst_port: NDArray[np.int32]) -> NDArray[np.int64]:
        """The part of `path_latency_ps` between the NICs: every cable and every switch."""
        src, dst = _int32(src_port), _int32(dst_port)
        crossed, joined = self._walked_ps(src, dst, self.link_latency_ps)
        if not joined.all():
            if self.fabric.load_balancing != "ideal":
                routes.refuse(src, dst, ~joined)
            crossed = np.where(joined, crossed, self._crossbar_latency_ps(src, dst))
        return np.where(src != dst, crossed, 0)

    def _walked_ps(
        self, src_port: NDArray[np.int32], dst_port: NDArray[np.int32], latency_ps: NDArray[np.int64]
    ) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
        """Sum of a column of the cluster's links along shortest paths, and whether there is one."""
        ends = self.wiring.ends(_int32(src_port), _int32(dst_port))
        path, joined = routes.walked(self.wiring.routing, self.wiring.target, *ends)
        total = np.concatenate([[0], np.cumsum(latency_ps[path.link + self.link_offset])])
        return total[path.ptr[1:]] - total[path.ptr[:-1]], joined

    @cached_property
    def _long(self) -> NDArray[np.bool_]:
        """bool[links of the cluster], the network's links between sites."""
        long_links = np.zeros(len(self.link_latency_ps), np.bool_)
        kinds = np.array([tier.kind == "long" for tier in self.wiring.tiers])
        long_links[self.link_offset : self.link_offset + self.wiring.links] = kinds[self.wiring.tier]
        return long_links

    def _crossbar_latency_ps(self, src: NDArray[np.int32], dst: NDArray[np.int32]) -> NDArray[np.int64]:
        out_ptr, out = self._out
        in_ptr, into = self._in
        crossed: NDArray[np.int64] = (
            self.link_latency_ps[out[out_ptr[src]] + self.link_offset]
            + self.link_latency_ps[into[in_ptr[dst]] + self.link_offset]
        )
        return crossed


def _int32(values: NDArray[np.int32]) -> NDArray[np.int32]:
    return np.asarray(values, np.int32)


def _one_each(ports: int, first: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    return np.arange(ports + 1), first + np.arange(ports)


def _by_port(end: NDArray[np.int32], ports: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    link = np.flatnonzero(end < ports)
    link = link[np.argsort(end[link], kind="stable")]
    return np.searchsorted(end[link], np.arange(ports + 1)), link


def _fan(
    flow: NDArray[np.int64], port: NDArray[np.int32], ptr: NDArray[np.int64], link: NDArray[np.int64]
) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.float64]]:
    count = ptr[port + 1] - ptr[port]
    return (
        np.repeat(flow, count),
        link[ranges(ptr[port], count)],
        np.repeat(1.0 / np.maximum(count, 1), count),
    )
