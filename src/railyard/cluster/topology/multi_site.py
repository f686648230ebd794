"""Multi-site (scale-across): sites of any inner family, connected by long links between border switches."""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, ClassVar

import numpy as np

from railyard.cluster.routes import RouteBuilder
from railyard.cluster.topology import clos
from railyard.cluster.topology.compose import Copies, copy_routes, side_by_side
from railyard.cluster.topology.dual_plane import DualPlane
from railyard.cluster.topology.three_tier import ThreeTier
from railyard.cluster.topology.wiring import (
    Box,
    Endpoints,
    Parts,
    SwitchGroup,
    Tier,
    TopologySpec,
    Wiring,
    cables,
    divisors,
    impossible,
    links_for,
    topologies,
)
from railyard.kit.schema import field as f
from railyard.kit.schema.quantity import LENGTH, LINK_RATE, limits

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from railyard.cluster.routes import Routes

BORDER = Tier("border", 30.0)


@dataclass(frozen=True)
class MultiSite:
    r"""Equal sites; every site has border switches, and border i of a site has long links to border i of every other.

          site 0                                          site 1
        +------------------+                          +------------------+
        | spines or cores  |                          | spines or cores  |
        |  |  |      |     |        50 km of fibre    |     |      |  |  |
        | leafs   border   |--- border 0 ==== border 0 ---| border   leafs |
        | ||||     leafs   |--- border 1 ==== border 1 ---| leafs     ||||  |
        +------------------+                          +------------------+

    A border switch is connected like servers, to leafs of the inner network, with as much capacity as its long links
    have. Traffic to another site takes the shortest ways to any border, evenly over all that are equally near.
    """

    kind: ClassVar[str] = "multi-site"

    sites: int = field(default=2, metadata=f.count("sites", "Number of sites", bounds=limits(1, 64)))
    distance_m: float = field(
        default=50_000.0,
        metadata=f.length("distance", "Length of a long link", "50 km", bounds=LENGTH.within("1 m", "40_000 km")),
    )
    links: int | None = field(
        default=None,
        metadata=f.count(
            "links", "Long links between every two sites; what the oversubscription asks", bounds=limits(1, 4096)
        ),
    )
    link_bps: float | None = field(
        default=None,
        metadata=f.rate("link_rate", "Rate of a long link; the fastest port of the switch", bounds=LINK_RATE),
    )
    oversubscription: float = clos.ratio(
        words="Capacity of a site's NICs over that of all its long links", default=4.0, bounds=limits(0.05, 1e6)
    )
    inner: TopologySpec = field(
        default_factory=ThreeTier, metadata=f.topology("inner", "Topology of each site: a kind, or kind and keys")
    )

    def build(self, endpoints: Endpoints, parts: Parts) -> Wiring:
        """Wires the network; see `TopologySpec`."""
        self._check(endpoints)
        servers = endpoints.servers // self.sites
        extra = math.ceil(endpoints.extra / self.sites)
        border = self._border(Endpoints(servers, endpoints.nics, extra), parts)
        inside = Endpoints(servers, endpoints.nics, extra + border.count * border.attachments)
        site = self.inner.build(inside, parts)
        return _MultiSitePlan(site, self.sites, border, extra, endpoints.extra, self.distance_m).wire()

    def _check(self, endpoints: Endpoints) -> None:
        if self.sites < 2:
            raise impossible("there are at least two sites", key="sites", found=self.sites, possible="write 2")
        if endpoints.servers % self.sites:
            fit = [count for count in divisors(endpoints.servers) if count > 1]
            raise impossible(
                f"{endpoints.servers} servers do not divide evenly over the sites",
                key="sites",
                found=self.sites,
                possible=f"possible: {', '.join(map(str, fit[:8])) or 'none'}",
            )
        for key, value in (("distance", self.distance_m), ("oversubscription", self.oversubscription)):
            if not value > 0:
                raise impossible("expected more than 0", key=key, found=value, possible="write for example 50 km, 4:1")

    def _border(self, site: Endpoints, parts: Parts) -> _Border:
        """Border switches of a site: the fewest over which the long links divide evenly."""
        box = parts.border or (parts.leaf if parts.leaf.fabric_bps > 0 else parts.spine)
        rate = self.link_bps if self.link_bps is not None else box.port_rate_bps
        if not 0 < rate <= box.port_rate_bps:
            raise impossible(
                f"the ports of {box.name} are slower than this",
                key="link_rate",
                found=f"{rate / 1e9:g} Gb/s",
                possible=f"at most {box.port_rate_bps / 1e9:g} Gb/s",
            )
        box.check_rate(rate, "topology.link_rate")
        others = self.sites - 1
        nics_bps = site.servers * site.nics * parts.link_bps
        asked = max(1, links_for(nics_bps, rate * others, self.oversubscription))
        links = asked if self.links is None else self.links
        if links < 1:
            raise impossible(
                "sites are joined by at least one link", key="links", found=links, possible="write 1 or more"
            )
        planes = self.inner.planes if isinstance(self.inner, DualPlane) else 1
        for count in divisors(links):
            each = links // count
            attachments = links_for(others * each * rate, parts.link_bps)
            need = others * each * rate + attachments * parts.link_bps
            if need <= box.capacity_bps * (1 + 1e-9) and others * each + attachments * planes <= box.max_ports:
                return _Border(count, each, attachments, rate, box)
        raise impossible(
            f"one switch ({box.name}) cannot carry even one long link to every other site",
            key="sites",
            found=self.sites,
            possible="fewer sites or a larger switch",
        )


@dataclass(frozen=True)
class _Border:
    """Border switches of a site: their number, long links of each to one other site, and links into its own site."""

    count: int
    long_links: int
    attachments: int
    rate_bps: float
    box: Box


@dataclass(frozen=True)
class _MultiSitePlan:
    """Sites and the long links between them. Borders use the last extra ports of every site."""

    site: Wiring
    sites: int
    border: _Border
    extra: int
    extra_used: int
    distance_m: float

    @property
    def gates(self) -> NDArray[np.int32]:
        """int32[borders, attachments], port numbers that a site's borders use."""
        return self.site.extra[self.extra :].reshape(self.border.count, self.border.attachments)

    def wire(self) -> Wiring:
        copies = Copies(self.site, self.sites, share_ports=False)
        base = side_by_side(self.site, self.sites, share_ports=False, part="site")
        first_border = base.nodes
        nodes = first_border + self.sites * self.border.count
        gate_of = np.arange(nodes)
        for site in range(self.sites):
            border = first_border + site * self.border.count + np.arange(self.border.count)
            gate_of[self.gates + copies.port_shift(site)] = border[:, None]
        low, high = self._long_ends(first_border)
        long_source, long_target = cables([low], [high])
        source = np.concatenate([gate_of[base.source], long_source]).astype(np.int32)
        target = np.concatenate([gate_of[base.target], long_target]).astype(np.int32)
        tiers = (*base.tiers, BORDER, Tier("inter-site", self.distance_m, "long"))
        border_links = (base.source != source[: base.links]) | (base.target != target[: base.links])
        tier = np.where(border_links, len(base.tiers), base.tier).astype(np.int16)
        routing = self._routes(copies, first_border, base, nodes)
        per_pair = self.border.count * self.border.long_links * self.border.rate_bps
        cut = (self.sites // 2) * (self.sites - self.sites // 2) * per_pair
        extra = base.extra.reshape(self.sites, -1)[:, : self.extra].T.ravel()[: self.extra_used]
        return replace(
            base,
            extra=extra,
            nodes=nodes,
            groups=(*base.groups, self._group(first_border)),
            source=source,
            target=target,
            line_bps=np.concatenate([base.line_bps, np.full(len(long_source), self.border.rate_bps)]),
            tier=np.concatenate([tier, np.full(len(long_source), len(base.tiers) + 1, np.int16)]),
            tiers=tiers,
            routing=routing,
            classes=self._classes(base, first_border),
            bisection_bps=min(base.bisection_bps, cut),
            pod_ports=self.site.ports,
            # Detours use the port numbers of one network; between sites only minimal routes are used.
            detour=None,
        )

    def _group(self, first_border: int) -> SwitchGroup:
        ports = self._inward().shape[1] + (self.sites - 1) * self.border.long_links
        return SwitchGroup("border", 4, first_border, self.sites * self.border.count, ports, self.border.box.name)

    def _long_ends(self, first_border: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Borders at both ends of every long cable: by pair of sites, border, lane."""
        one, other = np.triu_indices(self.sites, 1)
        each = self.border.count * self.border.long_links
        border = np.tile(np.arange(each) // self.border.long_links, len(one))
        low = first_border + np.repeat(one, each) * self.border.count + border
        high = first_border + np.repeat(other, each) * self.border.count + border
        return low, high

    def _classes(self, base: Wiring, first_border: int) -> NDArray[np.int32] | None:
        """Each border is its own class because it is connected to other leafs."""
        if base.classes is None:
            return None
        return np.concatenate([base.classes, first_border + np.arange(self.sites * self.border.count)]).astype(np.int32)

    def _routes(self, copies: Copies, first_border: int, base: Wiring, nodes: int) -> Routes:
        builder = RouteBuilder(base.ports)
        ports = self.site.ports
        first_link = base.links
        ptr, near = _towards(self.site, self.gates.ravel())
        for site in range(self.sites):
            copy_routes(builder, copies, site, ports_too=True, without=self.gates.ravel())
            inner = np.flatnonzero(np.diff(ptr) > 0)
            inner = inner[~np.isin(inner, self.gates)]
            first = builder.flat(near + site * self.site.links) + ptr[inner]
            lo = site * ports
            builder.outside(copies.node(inner, site), lo, lo + ports, first, width=np.diff(ptr)[inner])
            border = first_border + site * self.border.count + np.arange(self.border.count)
            inward = self._inward() + site * self.site.links
            builder.records(border, lo, lo + ports, builder.choices(inward), width=inward.shape[1], stride=base.ports)
            self._long_routes(builder, site, border, first_link)
        return builder.build(nodes)

    def _inward(self) -> NDArray[np.int64]:
        """int64[borders, attachments], links in the site's numbering out of the borders' ports."""
        table = self.site.routing
        node = table.record_node
        record = np.searchsorted(node, self.gates.ravel())
        links = [table.choices[table.first[row] : table.first[row] + table.width[row]] for row in record]
        return np.concatenate(links).reshape(self.border.count, -1).astype(np.int64)

    def _long_routes(self, builder: RouteBuilder, site: int, border: NDArray[np.int64], first_link: int) -> None:
        ports, each = self.site.ports, self.border.long_links
        for other in range(self.sites):
            if other == site:
                continue
            low, high = min(site, other), max(site, other)
            pair = low * (2 * self.sites - low - 1) // 2 + high - low - 1
            lane = (pair * self.border.count + np.arange(self.border.count))[:, None] * each + np.arange(each)
            links = first_link + 2 * lane + (site > other)
            lo = other * ports
            builder.records(border, lo, lo + ports, builder.choices(links), width=each, stride=ports * self.sites)


def _towards(wiring: Wiring, gates: NDArray[np.int32]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Links on shortest paths from every node to the nearest gate port, as CSR by node.

    Found by a breadth-first search from the gates in reverse direction; other ports do not forward. A link is listed in
    proportion to the number of shortest paths behind it, so that leafs with more gates attract more traffic.
    """
    through = (wiring.target >= wiring.ports) | np.isin(wiring.target, gates)
    link = np.flatnonzero(through)
    source, target = wiring.source[link], wiring.target[link]
    distance = np.full(wiring.nodes, -1, np.int64)
    paths = np.zeros(wiring.nodes)
    distance[gates], paths[gates] = 0, 1.0
    step, parts = 0, []
    while True:
        step += 1
        nearer = (distance[target] == step - 1) & (distance[source] < 0)
        if not nearer.any():
            break
        distance[source[nearer]] = step
        paths += np.bincount(source[nearer], weights=paths[target[nearer]], minlength=wiring.nodes)
        parts.append(np.flatnonzero(nearer))
    good = np.concatenate(parts)
    good = good[np.argsort(source[good], kind="stable")]
    return _weighted(wiring.nodes, source[good], link[good], np.rint(paths[target[good]]).astype(np.int64))


def _weighted(
    nodes: int, source: NDArray[np.int32], link: NDArray[np.int64], paths: NDArray[np.int64]
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Each link as often as its number of paths requires, in lowest terms for each node; CSR by node."""
    first = np.flatnonzero(np.diff(source, prepend=-1))
    common = np.repeat(np.gcd.reduceat(paths, first), np.diff(first, append=len(source)))
    times = paths // common
    ptr = np.searchsorted(np.repeat(source, times), np.arange(nodes + 1))
    return ptr.astype(np.int64), np.repeat(link, times)


topologies.add(MultiSite.kind, MultiSite)
