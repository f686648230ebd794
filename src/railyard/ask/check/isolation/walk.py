"""A packet from a server's port through tables of routes, over all paths of equal length."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

from railyard.ask.check.isolation.permits import Permitted

if TYPE_CHECKING:
    from ipaddress import IPv4Address, IPv6Address

    from railyard.ask.check.isolation.configured import Line, Port, Prefix
    from railyard.ask.check.isolation.routes import Hop, Route, Routes
    from railyard.ask.check.isolation.wired import Node, Server, Wired


@dataclass(frozen=True)
class Path:
    """How a packet came to a server.

    Attributes:
        nodes: Tables that it was in.
        lines: By which it went from one to the next.
    """

    nodes: tuple[Node, ...]
    lines: tuple[Line, ...]

    def words(self) -> str:
        """`be-leaf0 (blue) > be-spine1 (blue)`."""
        return " > ".join(node.words() for node in self.nodes)


class Walker:
    """Packets over given routes."""

    def __init__(self, wired: Wired, routes: Routes) -> None:
        self.wired, self.routes = wired, routes

    @cached_property
    def _ports(self) -> dict[Node, list[tuple[Prefix, str, Port]]]:
        found: dict[Node, list[tuple[Prefix, str, Port]]] = {}
        for node in self.routes.tables:
            ports = self.wired.switches[node.switch].ports.items()
            found[node] = [
                (one.address.network, name, one) for name, one in ports if one.address and one.vrf == node.table
            ]
        return found

    def path(self, source: Server, target: Server) -> Path | None:
        """A way from one server's port to another's, if packets take one.

        Args:
            source: Who sends.
            target: To whose address.
        """
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

    def _from(self, entry: Node, target: Server, begin: Path) -> Path | None:
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

    def _on(self, path: Path, hop: Hop) -> Path:
        return Path((*path.nodes, hop.node), (*path.lines, *hop.lines))

    def _attached(self, node: Node, address: IPv4Address | IPv6Address) -> tuple[Prefix, str, Port] | None:
        mine = [row for row in self._ports[node] if address in row[0]]
        return max(mine, key=lambda row: row[0].prefixlen, default=None)

    def _best(self, node: Node, address: IPv4Address | IPv6Address) -> tuple[Prefix, Route] | None:
        """The longest prefix that an address fits, attached ones aside."""
        table = self.routes.tables[node]
        fits = [(prefix, route) for prefix, route in table.items() if route.hops and address in prefix]
        return max(fits, key=lambda row: row[0].prefixlen, default=None)
