"""Switches as configured, with the cables between them and the servers on them."""

from __future__ import annotations

from collections import Counter, defaultdict
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, NamedTuple

from railyard.ask.check.isolation.configured import Port

if TYPE_CHECKING:
    from collections.abc import Iterator
    from ipaddress import IPv4Address, IPv6Address

    from railyard.ask.check.isolation.configured import Configured, Line, Prefix


class Node(NamedTuple):
    """A table of routes of a switch."""

    switch: str
    table: str

    def words(self) -> str:
        """`be-leaf0 (blue)`."""
        return f"{self.switch} ({self.table})" if self.table else self.switch


class Cable(NamedTuple):
    """Between two switches."""

    a: str
    a_port: str
    b: str
    b_port: str

    def words(self) -> str:
        """As reports write it."""
        return f"{self.a}[{self.a_port}] - {self.b}[{self.b_port}]"


class Server(NamedTuple):
    """A port of a server.

    Attributes:
        name: Of it: `node0[be0]`.
        tenant: Whose it is; empty: nobody's.
        address: Its own.
        switch: Where it hangs.
        port: There.
    """

    name: str
    tenant: str
    address: IPv4Address | IPv6Address
    switch: str
    port: str


class Session(NamedTuple):
    """An exchange of routes between two tables, in one direction.

    Attributes:
        source: Whose routes go.
        target: Who hears them, and by whose port packets come back.
        cable: Over which.
        lines: That make it.
    """

    source: Node
    target: Node
    cable: Cable
    lines: tuple[Line, ...]


@dataclass(frozen=True, eq=False)
class Wired:
    """What is judged.

    Attributes:
        switches: By name.
        cables: Between them.
        servers: On them.
        carrier: What tunnels go over: IPv4's, of what is judged of IPv6; None: this.
    """

    switches: dict[str, Configured]
    cables: tuple[Cable, ...]
    servers: tuple[Server, ...] = field(repr=False)
    carrier: Wired | None = field(default=None, repr=False)

    def port(self, server: Server) -> Port:
        """Where a server hangs, as configured."""
        return self.switches[server.switch].ports.get(server.port, Port())

    def entry(self, server: Server) -> Node | None:
        """The table into which its packets come; None: its port has no address, and takes none."""
        port = self.port(server)
        return None if port.address is None else Node(server.switch, port.vrf)

    @cached_property
    def sessions(self) -> tuple[Session, ...]:
        """All exchanges of routes, both directions."""
        return tuple(self._sessions())

    def _sessions(self) -> Iterator[Session]:
        for cable in self.cables:
            ends = self._ends(cable.a, cable.a_port), self._ends(cable.b, cable.b_port)
            for vlan in ends[0].keys() & ends[1].keys():
                (one, mine), (other, theirs) = ends[0][vlan], ends[1][vlan]
                lines = (*mine, *theirs)
                yield Session(one, other, cable, lines)
                yield Session(other, one, cable, lines)

    def _ends(self, switch: str, port: str) -> dict[str, tuple[Node, tuple[Line, ...]]]:
        """By VLAN of a port (empty: none): the table that exchanges routes over it."""
        found: dict[str, tuple[Node, tuple[Line, ...]]] = {}
        configured = self.switches[switch]
        for name, table in configured.tables.items():
            if "active" not in table.lines:
                continue
            for at, line in self._of_port(name, port, switch):
                here = configured.ports.get(at, Port())
                if here.vrf == name:  # else the table waits for a port that is another's
                    lines = (line, *([here.lines["vrf"]] if "vrf" in here.lines else []))
                    found[at.removeprefix(port)] = Node(switch, name), lines
        return found

    @cached_property
    def _neighbors(self) -> dict[tuple[str, str, str], list[tuple[str, Line]]]:
        """By switch, table and port: its neighbours, with their VLANs."""
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
