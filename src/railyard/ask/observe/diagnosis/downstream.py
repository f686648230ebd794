"""From ports that wait to whoever lets them wait: along cables, as a network discovery found them.

A port that has no credits, or was told to pause, waits for the device at the other end of its cable. That device is
slow itself, or one of its own ports waits in turn: then the search goes on there. It ends at a host, whose NIC takes
data more slowly than they come, or at a switch none of whose ports waits: then nobody is named, for a queue of that
switch is full of traffic of many.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from railyard.cluster.asbuilt.discovery import Discovery

    Port = tuple[int, str]

WAITS = 0.1
"""Of the longest wait of all ports, from which a port waits."""

MAIN = 0.6
"""Of all waiting, the part that must lead to one end for it to be named."""

SURE = 0.6
"""Confidence in that end: it takes data slowly, or too many send to it."""


@dataclass(frozen=True)
class End:
    """Where waiting leads to.

    Attributes:
        part: Host and NIC, or switch.
        is_host: Whether it is a host.
        share: Of all waiting.
        way: Ports on the way from the worst of those that lead there, in words.
    """

    part: str
    is_host: bool
    share: float
    way: tuple[str, ...]


def located(cabling: Discovery, where: str, port: str) -> Port | None:
    """The device and port that a counter means; None where the discovery has none such.

    Args:
        cabling: The discovery.
        where: As the counter's file calls its device: a name, `lid 6`, a GUID.
        port: As it calls the port: `port 5`, `mlx5_0 port 1`.
    """
    number = port.rpartition("port ")[2].strip() if "port " in port else port
    address = cabling.addresses.get(where) or cabling.addresses.get(where.removeprefix("0x").lstrip("0").lower())
    if address is not None:
        return address[0], address[1] or number
    part = port.partition(" ")[0]
    for at, device in enumerate(cabling.devices):
        if where in (device.name, device.label) and (device.kind != "host" or device.part in ("", part)):
            return at, number if device.kind == "switch" or "port " in port else "1"
    return None


def ends(cabling: Discovery, waiting: Mapping[Port, float]) -> list[End]:
    """Where the waiting of ports leads to, most of it first.

    Args:
        cabling: The discovery.
        waiting: How long each port waited, in any unit.
    """
    far = _far(cabling)
    least = WAITS * max(waiting.values(), default=0.0)
    starts = {port: value for port, value in waiting.items() if value >= least and value > 0 and port in far}
    found: dict[int, list[tuple[float, list[Port]]]] = defaultdict(list)
    for port, value in starts.items():
        way = _way(port, starts, far)
        found[far[way[-1]][0]].append((value, way))
    total = sum(starts.values())
    listed = [
        End(
            _name(cabling, device),
            cabling.devices[device].kind == "host",
            sum(value for value, _ in those) / total,
            tuple(f"{_name(cabling, at)} port {name}" for at, name in max(those)[1]),
        )
        for device, those in found.items()
    ]
    return sorted(listed, key=lambda end: -end.share)


def _far(cabling: Discovery) -> dict[Port, Port]:
    """The other end of every cable's ends."""
    far: dict[Port, Port] = {}
    for cable in cabling.cables:
        far[cable.a, cable.a_port] = cable.b, cable.b_port
        far[cable.b, cable.b_port] = cable.a, cable.a_port
    return far


def _way(port: Port, waiting: Mapping[Port, float], far: Mapping[Port, Port]) -> list[Port]:
    """Ports from one that waits to the last one, each time over the port of the next device that waits longest."""
    way, seen = [port], {port[0]}
    while True:
        device, arrived = far[way[-1]]
        on = [one for one in waiting if one[0] == device and one[1] != arrived and far[one][0] not in seen]
        if not on or device in seen:
            return way
        seen.add(device)
        way.append(max(on, key=lambda one: waiting[one]))


def _name(cabling: Discovery, device: int) -> str:
    found = cabling.devices[device]
    return " ".join(word for word in (found.name, found.part) if word)


def summed(ports: Sequence[tuple[Port, float]]) -> dict[Port, float]:
    """Waiting by port."""
    found: dict[Port, float] = defaultdict(float)
    for port, value in ports:
        found[port] += value
    return dict(found)
