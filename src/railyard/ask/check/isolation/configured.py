"""What a switch's configuration says of tenants, each fact with the line that says it."""

from __future__ import annotations

from dataclasses import dataclass, field
from ipaddress import IPv4Interface, IPv4Network, IPv6Interface, IPv6Network, ip_network
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

Prefix = IPv4Network | IPv6Network
Address = IPv4Interface | IPv6Interface
"""Of a port. What is read of a switch is of one family: of IPv6 what `read` was asked for of IPv6."""

ALL = ""
"""Name of the table of routes that a switch has anyway."""


@dataclass(frozen=True, order=True)
class Line:
    """A line of a file.

    Attributes:
        file: Its name.
        number: From 1.
        text: Without blanks around it.
    """

    file: str
    number: int
    text: str

    def words(self) -> str:
        """`be-leaf0.eos.cfg:31: vrf blue`."""
        return f"{self.file}:{self.number}: {self.text}"


@dataclass(frozen=True)
class Leak:
    """Routes of one table that lead into another of the same switch.

    Attributes:
        prefix: Of a static route; None: all that the other table has.
        vrf: The other table.
        line: That says so.
    """

    prefix: Prefix | None
    vrf: str
    line: Line


@dataclass
class Table:
    """A table of routes.

    Attributes:
        vni: By which it is told apart in tunnels; 0: it is in none.
        announced: Prefixes that it announces.
        neighbors: Ports, with `.VLAN` where they have it, on which it exchanges routes.
        imports, exports: Route targets.
        leaks: Routes into other tables.
        lines: By what they say: `vni`, `overlay` (its routes go into EVPN), `active` (it exchanges any).
    """

    vni: int = 0
    announced: dict[Prefix, Line] = field(default_factory=dict)
    neighbors: dict[str, Line] = field(default_factory=dict)
    imports: dict[str, Line] = field(default_factory=dict)
    exports: dict[str, Line] = field(default_factory=dict)
    leaks: list[Leak] = field(default_factory=list)
    lines: dict[str, Line] = field(default_factory=dict)


@dataclass
class Port:
    """A port, or a VLAN of one.

    Attributes:
        vrf: Its table of routes.
        address: With its prefix; None: it has none.
        filter: Name of what servers there may reach; empty: all.
        lines: By what they say: `vrf`, `address`, `filter`.
    """

    vrf: str = ALL
    address: Address | None = None
    filter: str = ""
    lines: dict[str, Line] = field(default_factory=dict)


@dataclass(frozen=True)
class Rule:
    """A row of a filter: the first that a destination fits decides; where none does, it is dropped.

    Attributes:
        permits: Or drops.
        target: Destinations.
        line: That says so.
    """

    permits: bool
    target: Prefix
    line: Line


@dataclass
class Configured:
    """A switch.

    Attributes:
        name: Of the device.
        asn: Its autonomous system.
        loopback: Where tunnels to it end; empty: it has none.
        ports: By name.
        tables: By name; that of all is there always.
        filters: By name.
        overlay: The line by which it exchanges EVPN's routes; None: it does not.
    """

    name: str
    asn: int = 0
    loopback: str = ""
    ports: dict[str, Port] = field(default_factory=dict)
    tables: dict[str, Table] = field(default_factory=lambda: {ALL: Table()})
    filters: dict[str, list[Rule]] = field(default_factory=dict)
    overlay: Line | None = None

    def port(self, name: str) -> Port:
        """A port, made where it is not there yet."""
        return self.ports.setdefault(name, Port())

    def table(self, name: str) -> Table:
        """A table, made where it is not there yet."""
        return self.tables.setdefault(name, Table())

    def of_vni(self, vni: int) -> str | None:
        """The table of a VNI."""
        return next((name for name, table in self.tables.items() if vni and table.vni == vni), None)


def indented(file: str, text: str) -> Iterator[tuple[tuple[str, ...], Line]]:
    """Lines with the headings above them, by how far each is indented; comments are passed over."""
    stack: list[tuple[int, str]] = []
    for number, row in enumerate(text.splitlines(), start=1):
        plain = row.strip()
        if not plain or plain[0] in "!#":
            continue
        depth = len(row) - len(row.lstrip())
        while stack and stack[-1][0] >= depth:
            stack.pop()
        yield tuple(words for _, words in stack), Line(file, number, plain)
        stack.append((depth, plain))


def network(text: str) -> Prefix:
    """A prefix, whatever bits stand behind it."""
    return ip_network(text, strict=False)
