"""What a switch's configuration says of tenants, each fact with the line that says it."""

from __future__ import annotations

from dataclasses import dataclass, field
from ipaddress import IPv4Interface, IPv4Network, IPv6Interface, IPv6Network, ip_network
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from railyard.ask.deploy.emit.intent import Access, SwitchIntent


Prefix = IPv4Network | IPv6Network
Address = IPv4Interface | IPv6Interface
"""Address of a port. All that is read of a switch is of one family: IPv6 if `read` was asked for IPv6."""

ALL = ""
"""Name of the table of routes that a switch has anyway."""


@dataclass(frozen=True, order=True)
class Line:
    """A line of a file.

    Attributes:
        number: From 1.
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
    """

    prefix: Prefix | None
    vrf: str
    line: Line


@dataclass
class RouteTable:
    """A table of routes.

    Attributes:
        vni: Its number in tunnels; 0: it is in none.
        neighbors: Ports, with `.VLAN` where they have it, on which it exchanges routes.
        lines: By what they say: `vni`, `overlay` (its routes go into EVPN), `active` (it exchanges any).
    """

    vni: int = 0
    announced: dict[Prefix, Line] = field(default_factory=dict)
    neighbors: dict[str, Line] = field(default_factory=dict)
    imports: dict[str, Line] = field(default_factory=dict)
    exports: dict[str, Line] = field(default_factory=dict)
    leaks: list[Leak] = field(default_factory=list)
    lines: dict[str, Line] = field(default_factory=dict)

    def leak(self, prefix: Prefix | None, vrf: str, line: Line) -> None:
        """Takes a route, or all routes, of another table."""
        self.leaks.append(Leak(prefix, table_name(vrf), line))

    def tunnel(self, vni: int, line: Line, what: str = "vni") -> None:
        """Takes its number in tunnels."""
        self.vni, self.lines[what] = vni, line

    def target(self, which: str, targets: Sequence[str], line: Line) -> None:
        """Takes route targets: for `import`, `export` or `both`."""
        for kind, mine in (("import", self.imports), ("export", self.exports)):
            if which in (kind, "both"):
                mine.update(dict.fromkeys(targets, line))


@dataclass
class ConfiguredPort:
    """A port, or a VLAN of one.

    Attributes:
        address: With its prefix; None: it has none.
        filter: Name of what servers there may reach; empty: all.
        lines: By what they say: `vrf`, `address`, `filter`.
    """

    vrf: str = ALL
    address: Address | None = None
    filter: str = ""
    lines: dict[str, Line] = field(default_factory=dict)


@dataclass(frozen=True)
class FilterRule:
    """A row of a filter: the first that a destination fits decides; where none does, it is dropped.

    Attributes:
        permits: Or drops.
    """

    permits: bool
    target: Prefix
    line: Line


@dataclass
class Configured:
    """A switch.

    Attributes:
        loopback: Where tunnels to it end; empty: it has none.
        tables: By name; that of all is there always.
        overlay: The line by which it exchanges EVPN's routes; None: it does not.
    """

    name: str
    asn: int = 0
    loopback: str = ""
    ports: dict[str, ConfiguredPort] = field(default_factory=dict)
    tables: dict[str, RouteTable] = field(default_factory=lambda: {ALL: RouteTable()})
    filters: dict[str, list[FilterRule]] = field(default_factory=dict)
    overlay: Line | None = None

    def port(self, name: str) -> ConfiguredPort:
        """A port, made where it is not there yet."""
        return self.ports.setdefault(name, ConfiguredPort())

    def set_port(self, name: str, what: str, value: object, line: Line) -> None:
        """Takes what a line says of a port: its `vrf`, `address` or `filter`."""
        port = self.port(name)
        setattr(port, what, value)
        port.lines[what] = line

    def table(self, name: str) -> RouteTable:
        """A table, made where it is not there yet."""
        return self.tables.setdefault(name, RouteTable())

    def of_vni(self, vni: int) -> str | None:
        """The table of a VNI."""
        return next((name for name, table in self.tables.items() if vni and table.vni == vni), None)


def table_name(vrf: str) -> str:
    """Name of the table of a VRF."""
    return ALL if vrf == "default" else vrf


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
    """A prefix; bits beyond its length are ignored."""
    return ip_network(text, strict=False)


Facts = dict[str, object]


def _prefix(access: Access, family: int) -> Prefix:
    return IPv4Network(f"{access.address}/31") if family == 4 else IPv6Network(f"{access.address6}/127")


def meant(intent: SwitchIntent, family: int) -> dict[str, Facts]:
    """The intended tables: ports, announcements, neighbours, and number in tunnels of each."""
    found: dict[str, Facts] = {}
    evpn = intent.by == "evpn"
    for vrf in intent.vrfs:
        found[vrf.name] = {
            "ports": {one.port for one in intent.access_of(vrf.name)},
            "announced": {_prefix(one, family) for one in intent.access_of(vrf.name)},
            "neighbors": {f"{one.port}.{vrf.vlan}" for one in intent.sessions if vrf in one.vrfs},
            "vni": vrf.number if evpn else 0,
            "imports": {vrf.target} if evpn else set(),
            "exports": {vrf.target} if evpn else set(),
        }
    found[ALL] = {
        "ports": {one.port for one in intent.access if not one.vrf},
        "filters": {one.port: {IPv4Network(prefix) for prefix in one.permits} for one in intent.access if one.permits},
        "overlay": evpn,
    }
    return found


def told(configured: Configured, intent: SwitchIntent) -> dict[str, Facts]:
    """What the configuration in a file says of each table."""
    found: dict[str, Facts] = {}
    reached = {one.port: one for one in intent.access}
    for name, table in configured.tables.items():
        ports = {port for port, one in configured.ports.items() if one.vrf == name and port in reached and one.address}
        found[name] = {"ports": ports}
        if name != ALL:
            found[name] |= {
                "announced": set(table.announced),
                "neighbors": set(table.neighbors),
                "vni": table.vni,
                "imports": set(table.imports),
                "exports": set(table.exports),
            }
    permits = {
        port: {rule.target for rule in configured.filters.get(one.filter, []) if rule.permits}
        for port, one in configured.ports.items()
        if one.filter
    }
    found[ALL] |= {"filters": permits, "overlay": configured.overlay is not None}
    return found


def differences(intent: SwitchIntent, configured: Configured, family: int = 4) -> list[str]:
    """What a file says otherwise of tenants, in words; empty where it says just that."""
    wanted, found = meant(intent, family), told(configured, intent)
    return [
        f"{name or 'the table of all'}, {key}: intended {value}, the file says {found.get(name, {}).get(key)}"
        for name, facts in wanted.items()
        for key, value in facts.items()
        if found.get(name, {}).get(key) != value
    ] + [f"{name}: in the file, but not intended" for name in found if name not in wanted]
