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

from typing import TYPE_CHECKING, Literal

from railyard.engine.packet.faults import LinkFault, of_node
from railyard.kit import table, units
from railyard.kit.errors import InputError
from railyard.work.trace.text_file import decimal, integer
from railyard.work.traffic.fault_file import TreePlaces

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

    from railyard.engine.packet import PacketNetwork
    from railyard.work.traffic.played import LinkNames

COLUMNS = ("at", "where", "event", "value")
EVENTS = ("down", "up", "rate", "errors")


def read_table(path: Path, network: PacketNetwork, names: LinkNames) -> tuple[LinkFault, ...]:
    """The faults of a file, in the order of its lines.

    Args:
        path: The file.
        network: Whose links they are.
        names: Of its nodes.

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
    at_ps = units.time(at)
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
