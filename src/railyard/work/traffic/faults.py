"""Reads faults in time from a table, as logs of events have them: one a line, under a heading.

    at,where,event,value
    20 us,h3-leaf0,down,
    60 us,h3-leaf0,up,
    10 us,leaf0-spine1,rate,0.25
    5 us,core2,down,
    0 us,leaf0-spine1:all,down,
    0 us,*,errors,1e-9

`where` is a cable (two nodes and a dash between), a node with all its links, or `*`, every link; both directions of
each. Where several cables join two nodes, `:2` behind them is the third of these and `:all` the whole bundle; the first
one without it. Nodes are h0, h1, ... (hosts), leaf0, ..., spine0, ..., core0, .... `down` and `up` need no value;
`rate` takes the part that is kept, `errors` the part of bits that arrives wrong.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

import numpy as np
from pydantic import Field

from railyard.cluster.fault.fault import some_cables
from railyard.engine.packet.faults import LinkFault, both_ways, changes, of_node
from railyard.kit import quantities, table
from railyard.kit.errors import InputError
from railyard.kit.schema import yaml
from railyard.work.scenario import problems
from railyard.work.scenario.load import check
from railyard.work.scenario.section import FaultSection, Section, fault_of
from railyard.work.trace.builder import decimal, integer

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

    from railyard.cluster.fault import Effect
    from railyard.cluster.fault.fault import Links
    from railyard.engine.packet import PacketNetwork
    from railyard.work.traffic.played import LinkNames


class FaultFile(Section):
    """What goes wrong in a network of packets."""

    faults: tuple[FaultSection, ...] = Field(min_length=1, description="What goes wrong, and when.")


@dataclass(frozen=True)
class TreePlaces:
    """Places of a tree of packets; see `railyard.cluster.fault.Places`."""

    network: PacketNetwork
    names: LinkNames

    def link(self, number: int) -> Links:
        """See `Places`."""
        if not 0 <= number < self.network.links:
            allowed = f"0 to {self.network.links - 1}"
            raise InputError("there is no such link", key="link", found=number, allowed=allowed)
        return np.array([number], np.int64)

    def tier(self, name: str) -> Links:
        """See `Places`."""
        found = [link for link in range(self.network.links) if self.names.tier(link) == name]
        if not found:
            allowed = sorted({self.names.tier(link) for link in range(self.network.links)})
            raise InputError("the network has no such tier", key="tier", found=name, allowed=allowed)
        return np.array(found, np.int64)

    def cable(self, ends: str, cables: int | Literal["all"] = 1, first: int = 0) -> Links:
        """See `Places`."""
        names = ends.replace(" ", "").split("-")
        if len(names) != 2:
            raise InputError("expected two nodes", key="cable", found=ends, allowed="such as `leaf0 - spine1`")
        try:
            one, other = (self.names.number(name, "cable") for name in names)
            found = both_ways(self.network, one, other)
        except InputError as error:
            if error.problems[0].key == "cable":
                raise
            raise InputError("no cable joins the two", key="cable", found=ends) from None
        forth = self.network.link_source[found] == one
        return some_cables(found[forth], found[~forth], cables, first)

    def switch(self, name: str) -> Links:
        """See `Places`."""
        number = self.names.number(name.replace(" ", ""), "switch")
        if number < self.network.hosts:
            raise InputError("a host is not a switch", key="switch", found=name, hint="write `kind: host-down`")
        return of_node(self.network, number)

    def out_of(self, switch: str) -> Links:
        """See `Places`."""
        mine = self.switch(switch)
        found: Links = mine[self.network.link_source[mine] == self.names.number(switch.replace(" ", ""), "switch")]
        return found

    def nic(self, host: int, nic: int, port: int | None) -> Links:
        """See `Places`."""
        if nic or port:
            raise InputError("a host has one NIC of one port here", key="nic" if nic else "port", found=nic or port)
        return self.host(host)

    def host(self, host: int) -> Links:
        """See `Places`."""
        if host >= self.network.hosts:
            allowed = f"0 to {self.network.hosts - 1}"
            raise InputError("there is no such host", key="host", found=host, allowed=allowed)
        return of_node(self.network, host)

    def ranks_of_host(self, _host: int) -> tuple[int, ...]:
        """Flows belong to hosts; nothing computes."""
        return ()

    def rank(self, rank: int) -> int:
        """See `Places`."""
        raise InputError("flows between hosts have no ranks", key="rank", found=rank, hint="run it as a scenario")

    def every_link(self) -> Links:
        """See `Places`."""
        return np.arange(self.network.links, dtype=np.int64)


def read_document(path: Path, network: PacketNetwork, names: LinkNames) -> tuple[LinkFault, ...]:
    """The faults of a file.

    Raises:
        InputError: The file cannot be read, or a fault is impossible; with its place.
    """
    tree = yaml.read(path, if_empty="such as `faults: [{kind: switch-down, switch: spine0, at: 5 us}]`")
    places = TreePlaces(network, names)
    effects: list[Effect] = []
    for number, section in enumerate(check(tree, FaultFile).faults):
        try:
            effects += fault_of(section).effects(places)
        except InputError as error:
            raise problems.place(error, tree, ("faults", str(number)), FaultFile) from None
    return tuple(changes(effects, np.arange(network.links)))


COLUMNS = ("at", "where", "event", "value")
EVENTS = ("down", "up", "rate", "errors")


def read_table(path: Path, network: PacketNetwork, names: LinkNames) -> tuple[LinkFault, ...]:
    """The faults of a file, in the order of its lines.

    Raises:
        InputError: The file cannot be read or a line is wrong; with the line.
    """
    rows = list(table.read(path, *COLUMNS, known=COLUMNS, comment="#", delimiter=","))
    faults: list[LinkFault] = []
    for row in rows:
        try:
            faults += _faults(row, network, names)
        except InputError as error:
            raise row.located(error) from None
    return tuple(faults)


def _faults(row: table.TableRow, network: PacketNetwork, names: LinkNames) -> list[LinkFault]:
    at, where, event, value = (row[name] for name in COLUMNS)
    row.one_of("event", EVENTS)
    at_ps = quantities.time(at)
    links = _links(where, network, names)
    if event in ("down", "up"):
        if value:
            raise InputError(f"{event!r} takes no value", key="value", found=value)
        return [LinkFault(at_ps, link, "rate", float(event == "up")) for link in links]
    if not value:
        raise InputError(f"{event!r} needs a value", key="value", allowed="0 to 1")
    return [
        LinkFault(at_ps, link, "rate" if event == "rate" else "errors", decimal(value, "value", high=1.0))
        for link in links
    ]


def _links(where: str, network: PacketNetwork, names: LinkNames) -> Iterable[int]:
    if where == "*":
        return range(network.links)
    if "-" not in where:
        return [int(link) for link in of_node(network, names.number(where, "where"))]
    ends, _, which = where.partition(":")
    cables: int | Literal["all"] = "all" if which == "all" else 1
    first = integer(which, "where") if which and cables == 1 else 0
    return [int(link) for link in TreePlaces(network, names).cable(ends, cables, first)]
