"""A plan in the words of a discovery: what `ibnetdiscover` or LLDP would find were everything cabled as planned."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from railyard.cluster.asbuilt.discovery import Discovery, FoundCable, FoundDevice
from railyard.cluster.asbuilt.ibnetdiscover import PORT_LANES
from railyard.cluster.asbuilt.port_names import DIALECTS, Dialect
from railyard.cluster.hall.devices import NETWORKS

if TYPE_CHECKING:
    from railyard.ask.deploy.plan.cabling import Plan

MTU = {"infiniband": 0, "ethernet": 9216}
"""Largest frame that ports of switches take, in bytes: jumbo frames; InfiniBand's are not discovered."""

HOST_MTU = 9000
"""Of interfaces of servers, without the header."""


def is_infiniband(plan: Plan, network: int) -> bool:
    """Whether a network's switches are InfiniBand's."""
    key = list(plan.cluster.plans)[network]
    return any(switch.family == "infiniband" for switch in plan.cluster.plans[key].switches.values())


def interface(network: str, nic: int) -> str:
    """Name of a server's interface by its number on a network, from 1: `be0`."""
    return f"{NETWORKS[network]}{nic - 1}"


def drawn(plan: Plan, network: int, dialect: Dialect) -> Discovery:
    """One network of a plan as found, cables in the plan's order.

    Args:
        plan: The plan.
        network: Index into its networks.
        dialect: How ports of switches are called; that of InfiniBand makes each port of a server a device.
    """
    rows = np.flatnonzero(plan.cables.network == network)
    cables, name = plan.cables, plan.networks[network]
    infiniband = dialect.name == "infiniband"
    number: dict[tuple[int, int], int] = {}
    devices: list[FoundDevice] = []
    is_host = plan.devices.level == 0

    def device(one: int, port: int) -> int:
        part = port - 1 if is_host[one] and infiniband else -1
        if (one, part) not in number:
            number[one, part] = len(devices)
            devices.append(_device(plan, one, part))
        return number[one, part]

    columns = (
        getattr(cables, side + key)[rows].tolist() for side in "ab" for key in ("", "_port", "_cage", "_lane", "_lanes")
    )
    listed = []
    frames = MTU["infiniband" if infiniband else "ethernet"]
    rates, lengths = cables.rate_bps[rows].tolist(), cables.length_m[rows].tolist()
    for at, (a, p, cage, lane, lanes, b, q, far, far_lane, far_lanes) in enumerate(zip(*columns, strict=True)):
        one, other = device(a, p), device(b, q)
        own = "1" if infiniband else interface(name, p)
        port = own if is_host[a] else _port(dialect, p, cage, lane, lanes)
        far_port = _port(dialect, q, far, far_lane, far_lanes)
        mine = 0 if infiniband else HOST_MTU if is_host[a] else frames
        width = PORT_LANES if infiniband else 0
        listed.append(FoundCable(one, port, other, far_port, int(rates[at]), 0, mine, frames, lengths[at], width))
    return Discovery("the plan", tuple(devices), tuple(listed))


def _device(plan: Plan, one: int, part: int) -> FoundDevice:
    name = plan.devices.name[one]
    if plan.devices.level[one]:
        return FoundDevice(name, name, "switch")
    label = f"{name} mlx5_{part}" if part >= 0 else name
    return FoundDevice(label, name, "host", f"mlx5_{part}" if part >= 0 else "", label=label)


def _port(dialect: Dialect, number: int, cage: int, lane: int, lanes: int) -> str:
    if dialect.name == "infiniband":
        return str(number)
    return dialect.port(cage, None if lanes == 1 else lane, lanes)


def dialects(plan: Plan, network: int) -> list[Dialect]:
    """Dialects that a network's switches may have."""
    infiniband = is_infiniband(plan, network)
    return [one for name, one in DIALECTS.items() if (name == "infiniband") == infiniband]
