"""Tables of routes as BGP would fill them, with some parts down: the shortest paths, and all of equal length.

What is modelled: eBGP between all switches, loops refused by the numbers on the path, prefixes that are attached where
they are announced, routes taken from another table of the switch, EVPN's prefix routes (type 5) by route targets. The
VNI into which a packet is put is the one that came with the route (RFC 9136), or that of its table (Linux without
downstream VNIs): systems differ, so that both are tried.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, NamedTuple

from railyard.ask.deploy.configured import ALL, ConfiguredPort, network

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from ipaddress import IPv4Address, IPv6Address

    from railyard.ask.deploy.configured import Configured, Line, Prefix
    from railyard.cluster.network_table import NetworkTable


class RouteNode(NamedTuple):
    """A table of routes of a switch."""

    switch: str
    table: str

    def words(self) -> str:
        """`be-leaf0 (blue)`."""
        return f"{self.switch} ({self.table})" if self.table else self.switch


class AttachedServer(NamedTuple):
    """A port of a server.

    Attributes:
        name: Of it: `node0[be0]`.
        tenant: Whose it is; empty: nobody's.
    """

    name: str
    tenant: str
    address: IPv4Address | IPv6Address
    switch: str
    port: str


class BgpSession(NamedTuple):
    """An exchange of routes between two tables, in one direction.

    Attributes:
        target: The table that hears them; packets come back by its port.
        cable: Number of the cable in the network.
    """

    source: RouteNode
    target: RouteNode
    cable: int
    lines: tuple[Line, ...]


@dataclass(frozen=True, eq=False)
class Wired:
    """The network to judge.

    Attributes:
        carrier: What tunnels go over: IPv4's, of what is judged of IPv6; None: this.
    """

    switches: dict[str, Configured]
    network: NetworkTable
    servers: tuple[AttachedServer, ...] = field(repr=False)
    carrier: Wired | None = field(default=None, repr=False)

    def port(self, server: AttachedServer) -> ConfiguredPort:
        """Configuration of a port to a server."""
        return self.switches[server.switch].ports.get(server.port, ConfiguredPort())

    def entry(self, server: AttachedServer) -> RouteNode | None:
        """The table into which its packets come; None: its port has no address, and takes none."""
        port = self.port(server)
        return None if port.address is None else RouteNode(server.switch, port.vrf)

    @cached_property
    def sessions(self) -> tuple[BgpSession, ...]:
        """Exchanges of routes, both directions."""
        return tuple(self._sessions())

    def _sessions(self) -> Iterator[BgpSession]:
        for cable in self.network.between.tolist():
            places = zip(self.network.ends[cable].tolist(), self.network.ports[cable], strict=True)
            ends = [self._ends(self.network.name[device], port) for device, port in places]
            for vlan in (one for one in ends[0] if one in ends[1]):  # a set's order differs between runs
                (one, mine), (other, theirs) = ends[0][vlan], ends[1][vlan]
                lines = (*mine, *theirs)
                yield BgpSession(one, other, cable, lines)
                yield BgpSession(other, one, cable, lines)

    def _ends(self, switch: str, port: str) -> dict[str, tuple[RouteNode, tuple[Line, ...]]]:
        """By VLAN of a port (empty: none): the table that exchanges routes over it."""
        found: dict[str, tuple[RouteNode, tuple[Line, ...]]] = {}
        configured = self.switches[switch]
        for name, table in configured.tables.items():
            if "active" not in table.lines:
                continue
            for at, line in self._of_port(name, port, switch):
                here = configured.ports.get(at, ConfiguredPort())
                if here.vrf == name:  # else the table waits for a port that is another's
                    lines = (line, *([here.lines["vrf"]] if "vrf" in here.lines else []))
                    found[at.removeprefix(port)] = RouteNode(switch, name), lines
        return found

    @cached_property
    def _neighbors(self) -> dict[tuple[str, str, str], list[tuple[str, Line]]]:
        found: dict[tuple[str, str, str], list[tuple[str, Line]]] = defaultdict(list)
        for switch, configured in self.switches.items():
            for name, table in configured.tables.items():
                for at, line in table.neighbors.items():
                    found[switch, name, at.split(".")[0]].append((at, line))
        return found

    def _of_port(self, table: str, port: str, switch: str) -> list[tuple[str, Line]]:
        return self._neighbors.get((switch, table, port), [])

    @cached_property
    def special(self) -> frozenset[Prefix]:
        """Prefixes that several tables announce, and those in static routes or within them."""
        tables = [table for switch in self.switches.values() for table in switch.tables.values()]
        seen = Counter(prefix for table in tables for prefix in table.announced)
        found = {prefix for prefix, count in seen.items() if count > 1}
        for leak in (leak for table in tables for leak in table.leaks if leak.prefix is not None):
            found |= {prefix for prefix in seen if leak.prefix is not None and prefix.overlaps(leak.prefix)}
        return frozenset(found)


class RouteHop(NamedTuple):
    """Next hop of a packet.

    Attributes:
        tunnel: Whether between switches that need not be next to each other.
    """

    node: RouteNode
    lines: tuple[Line, ...]
    tunnel: bool = False


@dataclass
class BgpRoute:
    """The best of a prefix in a table.

    Attributes:
        hops: All of equal length; none: it is attached here.
    """

    path: tuple[int, ...]
    hops: list[RouteHop]


@dataclass(frozen=True)
class Down:
    """Lost parts.

    Attributes:
        switch: Its name; empty: none.
        cable: Its number; -1: none.
    """

    words: str = ""
    switch: str = ""
    cable: int = -1


Table = dict["Prefix", BgpRoute]


class BgpRoutes:
    """Tables of a component."""

    def __init__(self, wired: Wired, nodes: frozenset[RouteNode], down: Down) -> None:
        self.wired, self.nodes, self.down = wired, nodes, down
        self.carrier = wired.carrier or wired
        self.inside: dict[RouteNode, list[BgpSession]] = defaultdict(list)
        self.under: dict[RouteNode, list[BgpSession]] = defaultdict(list)
        for one in self._alive(wired):
            if one.source in nodes:
                self.inside[one.source].append(one)
        for one in self._alive(self.carrier):
            if one.source.table == ALL and one.target.table == ALL:
                self.under[one.source].append(one)
        self.tables: dict[RouteNode, Table] = {node: {} for node in nodes if node.switch != down.switch}
        self.takers: dict[RouteNode, list[tuple[str, Line]]] = defaultdict(list)
        for node in self.tables:
            for leak in wired.switches[node.switch].tables[node.table].leaks:
                if leak.prefix is None:
                    self.takers[RouteNode(node.switch, leak.vrf)].append((node.table, leak.line))
        self._reached: dict[str, dict[str, BgpRoute]] = {}
        for prefix, origins in sorted(self._origins().items()):
            self._spread(prefix, origins)
        self._take_static()

    def _alive(self, wired: Wired) -> Iterator[BgpSession]:
        yield from (one for one in wired.sessions if one.cable != self.down.cable and not self._dead(one))

    def _dead(self, session: BgpSession) -> bool:
        return self.down.switch in (session.source.switch, session.target.switch) if self.down.switch else False

    def _origins(self) -> dict[Prefix, dict[RouteNode, Line]]:
        found: dict[Prefix, dict[RouteNode, Line]] = defaultdict(dict)
        for node in self.tables:
            switch = self.wired.switches[node.switch]
            own = {one.address.network for one in switch.ports.values() if one.address and one.vrf == node.table}
            static = {leak.prefix for leak in switch.tables[node.table].leaks if leak.prefix is not None}
            for prefix, line in switch.tables[node.table].announced.items():
                if prefix in own or prefix in static:
                    found[prefix][node] = line
        return found

    def _spread(self, prefix: Prefix, origins: dict[RouteNode, Line]) -> None:
        """A prefix from the tables that announce it to all that hear of it, shortest paths first."""
        for node in origins:
            self.tables[node][prefix] = BgpRoute((), [])
        front = sorted([*origins, *self._leaked(prefix, origins)])
        if self._is_overlay:
            self._spread_overlay(prefix)
        while front:
            heard: dict[RouteNode, list[tuple[tuple[int, ...], RouteHop]]] = defaultdict(list)
            for node in front:
                best = self.tables[node][prefix]
                path = (self.wired.switches[node.switch].asn, *best.path)
                for one in self.inside[node]:
                    if one.target in self.tables and self.wired.switches[one.target.switch].asn not in path:
                        heard[one.target].append((path, RouteHop(node, one.lines)))
            fresh = list(self._accept(prefix, heard))
            front = sorted([*fresh, *self._leaked(prefix, fresh)])

    def _leaked(self, prefix: Prefix, fresh: Iterable[RouteNode]) -> list[RouteNode]:
        """Tables of the same switches that take a route from these; what was taken so is not taken on."""
        found = []
        for node in fresh:
            for table, line in self.takers.get(node, ()):
                other = RouteNode(node.switch, table)
                if other in self.tables and prefix not in self.tables[other]:
                    self.tables[other][prefix] = BgpRoute(self.tables[node][prefix].path, [RouteHop(node, (line,))])
                    found.append(other)
        return found

    def _accept(
        self, prefix: Prefix, heard: dict[RouteNode, list[tuple[tuple[int, ...], RouteHop]]]
    ) -> Iterator[RouteNode]:
        """Takes what is heard where it is better than, or as good as, what is there."""
        for node, routes in heard.items():
            mine, shortest = self.tables[node].get(prefix), min(len(path) for path, _ in routes)
            if mine is not None and (not mine.hops or len(mine.path) <= shortest):
                continue
            good = [(path, hop) for path, hop in routes if len(path) == shortest]
            self.tables[node][prefix] = BgpRoute(good[0][0], [hop for _, hop in good])
            yield node

    @property
    def _is_overlay(self) -> bool:
        return any(one.overlay is not None for one in self.wired.switches.values())

    def _spread_overlay(self, prefix: Prefix) -> None:
        """A prefix by EVPN, from the tables that have it to those that import a target of it."""
        heard: dict[RouteNode, list[tuple[tuple[int, ...], RouteHop]]] = defaultdict(list)
        for origin in sorted(node for node, table in self.tables.items() if prefix in table):
            source = self.wired.switches[origin.switch]
            table = source.tables[origin.table]
            if source.overlay is None or "overlay" not in table.lines:
                continue
            reached = self._from(origin.switch)
            for node in self.tables:
                there = self.wired.switches[node.switch].tables[node.table]
                shared = table.exports.keys() & there.imports.keys()
                if shared and node.switch != origin.switch and node.switch in reached:
                    lines = (table.exports[min(shared)], there.imports[min(shared)])
                    hops = self._tunnels(origin, {table.vni, there.vni}, lines)
                    heard[node] += [(reached[node.switch].path, hop) for hop in hops]
        list(self._accept(prefix, heard))

    def _tunnels(self, origin: RouteNode, vnis: set[int], lines: tuple[Line, ...]) -> Iterator[RouteHop]:
        source = self.wired.switches[origin.switch]
        for vni in sorted(vnis - {0}):
            at = source.of_vni(vni)
            if at is not None:
                mark = source.tables[at].lines
                more = tuple(mark[key] for key in ("vni", "tunnel") if key in mark)
                yield RouteHop(RouteNode(origin.switch, at), (*lines, *more), tunnel=True)

    def _from(self, switch: str) -> dict[str, BgpRoute]:
        """Switches that hear of the loopback of one, and so reach its end of a tunnel; with EVPN on the way."""
        if switch in self._reached:
            return self._reached[switch]
        configured = self.carrier.switches[switch]
        found: dict[str, BgpRoute] = {}
        loopback = configured.loopback
        if loopback and network(f"{loopback}/32") in configured.tables[ALL].announced:
            found[switch] = BgpRoute((), [])
        front = list(found)
        while front:
            fresh: list[str] = []
            for name in front:
                path = (self.carrier.switches[name].asn, *found[name].path)
                for one in self.under[RouteNode(name, ALL)]:
                    far = self.carrier.switches[one.target.switch]
                    if far.name not in found and far.asn not in path and far.overlay is not None:
                        found[far.name] = BgpRoute(path, [])
                        fresh.append(far.name)
            front = sorted(fresh)
        self._reached[switch] = found
        return found

    def _take_static(self) -> None:
        """Static routes into another table of the switch: better than BGP's, not than what is attached."""
        for node, table in self.tables.items():
            attached = self._attached(node)
            for leak in self.wired.switches[node.switch].tables[node.table].leaks:
                if leak.prefix is not None and leak.prefix not in attached:
                    table[leak.prefix] = BgpRoute((), [RouteHop(RouteNode(node.switch, leak.vrf), (leak.line,))])

    def _attached(self, node: RouteNode) -> set[Prefix]:
        switch = self.wired.switches[node.switch]
        return {one.address.network for one in switch.ports.values() if one.address and one.vrf == node.table}
