"""Tenants that are isolated, or packets that get from one to another, with their path and the lines that allow it.

First what is connected at all, which holds under any failures; then, where tenants do are connected, packets between
all of their servers, with everything up and without any one switch or cable.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import defaultdict
from dataclasses import dataclass
from difflib import SequenceMatcher
from functools import cached_property
from itertools import chain
from typing import TYPE_CHECKING

import numpy as np

from railyard.ask.check.isolation.routes import BgpRoutes, Down, RouteNode
from railyard.cluster.network_table import components

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence
    from ipaddress import IPv4Address, IPv6Address

    from railyard.ask.check.isolation.routes import AttachedServer, BgpRoute, RouteHop, Wired
    from railyard.ask.deploy.configured import ConfiguredPort, FilterRule, Line, Prefix


def connected(wired: Wired) -> list[tuple[frozenset[RouteNode], tuple[AttachedServer, ...]]]:
    """Tables that are connected, and the servers in them; those without servers are left out."""
    ties, entries = list(_ties(wired)), [wired.entry(server) for server in wired.servers]
    number = {one: at for at, one in enumerate(dict.fromkeys([*chain.from_iterable(ties), *entries]))}
    ends = np.array([(number[one], number[other]) for one, other in ties], np.int64).reshape(-1, 2)
    group = components(len(number), ends).tolist()
    servers: dict[int, list[AttachedServer]] = defaultdict(list)
    for server, entry in zip(wired.servers, entries, strict=True):
        if entry is not None:
            servers[group[number[entry]]].append(server)
    nodes: dict[int, set[RouteNode]] = defaultdict(set)
    for one, at in number.items():
        if isinstance(one, RouteNode):
            nodes[group[at]].add(one)
    return [(frozenset(nodes[root]), tuple(mine)) for root, mine in servers.items()]


def _ties(wired: Wired) -> Iterator[tuple[object, object]]:
    """What is joined: tables by sessions and leaks, and tables with the VNIs and route targets that they have."""
    yield from ((session.source, session.target) for session in wired.sessions)
    for name, switch in wired.switches.items():
        for table_name, table in switch.tables.items():
            node = RouteNode(name, table_name)
            yield from ((node, RouteNode(name, leak.vrf)) for leak in table.leaks)
            if table.vni:
                yield node, ("vni", table.vni)
            targets = (*table.imports, *table.exports) if switch.overlay is not None else ()
            yield from ((node, ("target", target)) for target in targets)


class Permitted:
    """Packets that a filter lets pass.

    Attributes:
        edges: First addresses of intervals, rising, the first 0.
        rule: Of each interval the rule that decides; None: none does, and it is dropped.
    """

    def __init__(self, rules: Sequence[FilterRule]) -> None:
        spans = [(int(rule.target.network_address), int(rule.target.broadcast_address) + 1) for rule in rules]
        self.edges = sorted({0, *(edge for span in spans for edge in span)})
        self.rule: list[FilterRule | None] = [None] * len(self.edges)
        for (first, end), rule in reversed(list(zip(spans, rules, strict=True))):
            for at in range(bisect_right(self.edges, first) - 1, bisect_right(self.edges, end - 1)):
                self.rule[at] = rule

    def decides(self, address: int) -> FilterRule | None:
        """The rule for a destination."""
        return self.rule[bisect_right(self.edges, address) - 1]

    def passes(self, address: int) -> bool:
        """Whether a packet to the address goes on."""
        rule = self.decides(address)
        return rule is not None and rule.permits

    def line(self, address: int) -> Line | None:
        """The line that decides."""
        rule = self.decides(address)
        return None if rule is None else rule.line


@dataclass(frozen=True)
class Path:
    """Path of a packet to a server."""

    nodes: tuple[RouteNode, ...]
    lines: tuple[Line, ...]

    def words(self) -> str:
        """`be-leaf0 (blue) > be-spine1 (blue)`."""
        return " > ".join(node.words() for node in self.nodes)


class PacketWalker:
    """Packets over given routes."""

    def __init__(self, wired: Wired, routes: BgpRoutes) -> None:
        self.wired, self.routes = wired, routes

    @cached_property
    def _ports(self) -> dict[RouteNode, list[tuple[Prefix, str, ConfiguredPort]]]:
        found: dict[RouteNode, list[tuple[Prefix, str, ConfiguredPort]]] = {}
        for node in self.routes.tables:
            ports = self.wired.switches[node.switch].ports.items()
            found[node] = [
                (one.address.network, name, one) for name, one in ports if one.address and one.vrf == node.table
            ]
        return found

    def path(self, source: AttachedServer, target: AttachedServer) -> Path | None:
        """A way from one server's port to another's, if packets take one."""
        entry, port = self.wired.entry(source), self.wired.port(source)
        if entry is None or entry not in self.routes.tables:
            return None
        lines = tuple(port.lines[key] for key in ("vrf", "address") if key in port.lines)
        if port.filter:
            rules = Permitted(self.wired.switches[source.switch].filters.get(port.filter, []))
            if not rules.passes(int(target.address)):
                return None
            line = rules.line(int(target.address))
            lines += (port.lines["filter"], *(() if line is None else (line,)))
        return self._from(entry, target, Path((entry,), lines))

    def _from(self, entry: RouteNode, target: AttachedServer, begin: Path) -> Path | None:
        seen, waiting = {entry}, [begin]
        while waiting:
            path = waiting.pop()
            node = path.nodes[-1]
            attached = self._attached(node, target.address)
            route = self._best(node, target.address)
            if attached is not None and (route is None or attached[0].prefixlen >= route[0].prefixlen):
                if node.switch == target.switch and attached[1] == target.port:
                    more = tuple(attached[2].lines[key] for key in ("vrf", "address") if key in attached[2].lines)
                    return Path(path.nodes, (*path.lines, *more))
                continue
            for hop in route[1].hops if route is not None else ():
                if hop.node not in seen and hop.node in self.routes.tables:
                    seen.add(hop.node)
                    waiting.append(self._on(path, hop))
        return None

    def _on(self, path: Path, hop: RouteHop) -> Path:
        return Path((*path.nodes, hop.node), (*path.lines, *hop.lines))

    def _attached(
        self, node: RouteNode, address: IPv4Address | IPv6Address
    ) -> tuple[Prefix, str, ConfiguredPort] | None:
        mine = [row for row in self._ports[node] if address in row[0]]
        return max(mine, key=lambda row: row[0].prefixlen, default=None)

    def _best(self, node: RouteNode, address: IPv4Address | IPv6Address) -> tuple[Prefix, BgpRoute] | None:
        table = self.routes.tables[node]
        fits = [(prefix, route) for prefix, route in table.items() if route.hops and address in prefix]
        return max(fits, key=lambda row: row[0].prefixlen, default=None)


SHOWN = 3
"""Lines of a plan that are missing, in a finding."""

MOST = 4_000
"""Pairs of servers that are followed one by one; of more, one for each pair of tenants."""


@dataclass(frozen=True)
class Violation:
    """A server that reaches another tenant's.

    Attributes:
        down: What has to be lost for it; empty: nothing.
        blamed: Lines that are on the way and in no plan, or what of the plan is missing, in words.
    """

    source: AttachedServer
    target: AttachedServer
    path: Path
    down: str = ""
    blamed: tuple[str, ...] = ()

    def words(self) -> str:
        """The whole finding."""
        when = f", without {self.down}" if self.down else ""
        why = f"; because of {'; '.join(self.blamed)}" if self.blamed else ""
        pair = f"`{self.source.tenant}` reaches `{self.target.tenant}`"
        ends = f"{self.source.name} to {self.target.address} ({self.target.name})"
        return f"{pair}: {ends} by {self.path.words()}{when}{why}"


@dataclass(frozen=True)
class Proof:
    """Result of a proof.

    Attributes:
        violations: One a pair of tenants and of tables in which their servers are.
        pairs: Ordered pairs of tenants that were asked about.
        joined: Tenants that are connected, and between which yet no packet passes.
    """

    violations: tuple[Violation, ...]
    pairs: int
    joined: tuple[str, ...] = ()


def prove(wired: Wired, progress: Callable[[str, float], None] | None = None) -> Proof:
    """Whether tenants are isolated.

    Args:
        wired: Switches as configured.
        progress: Takes what is being done, and its share from 0 to 1.
    """
    names = sorted({server.tenant for server in wired.servers})
    violations: list[Violation] = []
    joined: list[str] = []
    for nodes, servers in connected(wired):
        mixed = [pair for pair in _classes(wired, servers) if _may(wired, *pair)]
        if not mixed:
            continue
        found = _walked(wired, nodes, _fewer(mixed), progress)
        violations += found
        if not found:
            tenants = sorted({server.tenant for pair in mixed for server in pair})
            joined.append(f"{', '.join(tenants)} are connected, but no packet passes with any one part down")
    return Proof(tuple(violations), len(names) * (len(names) - 1), tuple(joined))


def _classes(wired: Wired, servers: Sequence[AttachedServer]) -> Iterator[tuple[AttachedServer, AttachedServer]]:
    """Pairs of servers of different tenants, one for all that are alike: table, filter and tenant."""
    alike: dict[tuple[object, ...], AttachedServer] = {}
    for server in servers:
        alike.setdefault((wired.entry(server), wired.port(server).filter, server.tenant), server)
    by_target: dict[tuple[object, ...], list[AttachedServer]] = defaultdict(list)
    for server in servers:
        by_target[wired.entry(server), server.tenant].append(server)
    for source in alike.values():
        for (_, tenant), targets in by_target.items():
            if tenant == source.tenant:
                continue
            if wired.port(source).filter:
                yield from ((source, target) for target in targets)
            else:
                yield from _announced_alike(wired, source, targets)


def _announced_alike(
    wired: Wired, source: AttachedServer, targets: Sequence[AttachedServer]
) -> Iterator[tuple[AttachedServer, AttachedServer]]:
    """One target of each kind: announced, not announced, or in a prefix of which others make something."""
    kinds: dict[object, AttachedServer] = {}
    for target in targets:
        port = wired.port(target)
        net = port.address.network if port.address else None
        announced = net in wired.switches[target.switch].tables[port.vrf].announced
        here = source.switch == target.switch
        kinds.setdefault((announced, here, net if net in wired.special else None), target)
    yield from ((source, target) for target in kinds.values())


def _fewer(pairs: list[tuple[AttachedServer, AttachedServer]]) -> list[tuple[AttachedServer, AttachedServer]]:
    if len(pairs) <= MOST:
        return pairs
    return list({(source.tenant, target.tenant): (source, target) for source, target in pairs}.values())


def _may(wired: Wired, source: AttachedServer, target: AttachedServer) -> bool:
    name = wired.port(source).filter
    return not name or Permitted(wired.switches[source.switch].filters.get(name, [])).passes(int(target.address))


def _walked(
    wired: Wired,
    nodes: frozenset[RouteNode],
    pairs: Sequence[tuple[AttachedServer, AttachedServer]],
    progress: Callable[[str, float], None] | None,
) -> list[Violation]:
    """Packets between the pairs, with everything up; then, of those that none reached, without any one part."""
    found: dict[tuple[object, ...], Violation] = {}
    losses = list(_losses(wired, nodes))
    for number, down in enumerate(losses):
        left = [pair for pair in pairs if _key(wired, pair) not in found]
        if not left:
            break
        if progress is not None:
            progress(f"packets{f' without {down.words}' if down.words else ''}", number / len(losses))
        walker = PacketWalker(wired, BgpRoutes(wired, nodes, down))
        for pair in left:
            path = walker.path(*pair)
            if path is not None:
                found.setdefault(_key(wired, pair), Violation(*pair, path, down.words))
    return list(found.values())


def _key(wired: Wired, pair: tuple[AttachedServer, AttachedServer]) -> tuple[object, ...]:
    source, target = pair
    return wired.entry(source), source.tenant, wired.entry(target), target.tenant


def _losses(wired: Wired, nodes: frozenset[RouteNode]) -> Iterator[Down]:
    yield Down()
    mine = {node.switch for node in nodes}
    for name in sorted(mine):
        yield Down(name, switch=name)
    for cable in wired.network.between.tolist():
        if mine.issuperset(wired.network.name[end] for end in wired.network.ends[cable].tolist()):
            yield Down(" - ".join(wired.network.both_ends(cable)), cable=cable)


class ConfigChanges:
    """Differences of files from the plan, read file by file when asked for."""

    def __init__(self, texts: Mapping[str, str], planned: Mapping[str, str]) -> None:
        self.texts, self.planned = texts, planned
        self._known: dict[str, tuple[frozenset[int], tuple[str, ...]]] = {}

    def of(self, file: str) -> tuple[frozenset[int], tuple[str, ...]]:
        """Numbers of the lines that the plan has not, and texts of those that only the plan has."""
        if file not in self._known:
            found, meant = (source.get(file, "").splitlines() for source in (self.texts, self.planned))
            more: set[int] = set()
            less: list[str] = []
            for what, first, end, begin, last in SequenceMatcher(None, meant, found, autojunk=False).get_opcodes():
                if what != "equal":
                    more |= set(range(begin + 1, last + 1))
                    less += [row.strip() for row in meant[first:end]]
            self._known[file] = frozenset(more), tuple(row for row in less if row)
        return self._known[file]

    def blamed(self, path: Path) -> tuple[str, ...]:
        """What lets a packet pass: lines on its path that the plan does not have, else lines that only the plan has."""
        lines = list(dict.fromkeys(path.lines))
        strange = [line for line in lines if line.number in self.of(line.file)[0]]
        if strange:
            return tuple(f"`{line.words()}`" for line in strange)
        files = dict.fromkeys(line.file for line in lines)
        return tuple(f"{file} lacks `{text}`" for file in files for text in self.of(file)[1])[:SHOWN]
