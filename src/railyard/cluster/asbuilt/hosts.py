"""Which devices are hosts where nothing says so outright."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

HOST_PORT = re.compile(r"(eth|en[opsx]|ens|enp|eno|ib|mlx|bond|rdma|bnxt|irdma|roce|be|fe)[\w.-]*\d[\w.-]*")
"""Names that Linux, and Railyard's plans, give to interfaces of hosts; those of switches begin otherwise."""

FEW = 4
"""A device with less than this part of the neighbours that its neighbours have is a host."""


def hosts_of(
    cables: Sequence[tuple[tuple[str, str], tuple[str, str]]], stations: Collection[str], forwarding: Collection[str]
) -> set[str]:
    """Devices that say that they forward nothing, have ports named as Linux names NICs, or far fewer neighbours.

    Args:
        cables: Device and port at both ends.
        stations: Devices that say that they forward nothing.
        forwarding: Devices whose ports may be called as a host's and that are none.
    """
    ports: dict[str, list[str]] = {}
    near: dict[str, list[str]] = {}
    for (a, a_port), (b, b_port) in cables:
        ports.setdefault(a, []).append(a_port)
        ports.setdefault(b, []).append(b_port)
        near.setdefault(a, []).append(b)
        near.setdefault(b, []).append(a)
    out = set(stations)
    for name, mine in near.items():
        most = max(len(near[other]) for other in mine)
        linux = all(HOST_PORT.fullmatch(port) for port in ports[name])
        if (linux and name not in forwarding) or len(mine) * FEW <= most:
            out.add(name)
    return out
