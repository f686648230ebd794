"""All configurations of a plan; each file of a switch is read back and held against the intent before it is given."""

from __future__ import annotations

from typing import TYPE_CHECKING

from railyard.cluster.asbuilt.port_names import dialect
from railyard.deploy.emit import eos, frr, junos, servers, sonic, subnet
from railyard.deploy.emit.intent import hosts, switches
from railyard.deploy.emit.read_back import differences
from railyard.deploy.plan.drawn import is_infiniband
from railyard.errors import InputError, SimulationError, did_you_mean

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from railyard.deploy.emit.intent import SwitchIntent
    from railyard.deploy.plan.cabling import Plan

WRITERS: dict[str, tuple[Callable[[SwitchIntent], str], str]] = {
    "frr": (frr.render, "frr.conf"),
    "sonic": (sonic.render, "config_db.json"),
    "eos": (eos.render, "eos.cfg"),
    "junos": (junos.render, "junos.set"),
}
"""By operating system: what writes a switch's file, and its name."""


def writer(name: str) -> tuple[Callable[[SwitchIntent], str], str]:
    """Of an operating system.

    Raises:
        InputError: There is none of that name.
    """
    if name not in WRITERS:
        raise InputError(
            "there is no such operating system of switches",
            key="--os",
            found=name,
            allowed=list(WRITERS),
            hint=did_you_mean(name, WRITERS),
        )
    return WRITERS[name]


def files(plan: Plan, system: str) -> Iterator[tuple[str, str]]:
    """Names and texts of all files.

    Raises:
        SimulationError: A file says otherwise than intended: a fault of Railyard's.
    """
    render, ending = writer(system)
    names = dialect(system)
    for number in range(len(plan.networks)):
        if is_infiniband(plan, number):
            yield from subnet.files(plan.cluster.plans[list(plan.cluster.plans)[number]].wiring.detour is None)
            continue
        for intent in switches(plan, number, names):
            text = render(intent)
            wrong = differences(intent, system, text)
            if wrong:
                raise SimulationError(f"{intent.name}: what was written is not what was meant: {wrong[0]}")
            yield f"switches/{intent.name}.{ending}", text
    first = None
    for host in hosts(plan):
        first = first or host
        if host.interfaces:
            yield f"servers/{host.name}.interfaces", servers.network(host)
    if first is not None:
        yield "servers/nccl.conf", servers.environment(first, plan.cluster)
        yield "servers/sysctl.conf", servers.sysctl()
        yield "servers/nccl-topology.xml", servers.topology(plan.cluster)
        yield "servers/nccl-graph.xml", servers.graph(plan.cluster)
