"""All configurations of a plan; each file of a switch is read back and held against the intent before it is given."""

from __future__ import annotations

from typing import TYPE_CHECKING

from railyard.ask.check.isolation import as_meant
from railyard.ask.check.isolation.read import DUAL, ENDINGS, INTERFACES, configured
from railyard.ask.deploy.emit import dcqcn, eos, frr, junos, servers, sonic, sonic_tenants, subnet
from railyard.ask.deploy.emit.collectives import write as libraries
from railyard.ask.deploy.emit.collectives.intent import NOTHING, CollectivesIntent
from railyard.ask.deploy.emit.intent import hosts, switches
from railyard.ask.deploy.emit.read_back import differences
from railyard.ask.deploy.plan.drawn import is_infiniband
from railyard.cluster.asbuilt.port_names import dialect
from railyard.kit.errors import InputError, SimulationError, did_you_mean

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from railyard.ask.deploy.emit.intent import SwitchIntent
    from railyard.ask.deploy.plan.cabling import Plan

WRITERS: dict[str, tuple[Callable[[SwitchIntent], str], str]] = {
    "frr": (frr.render, ENDINGS["frr"]),
    "sonic": (sonic.render, ENDINGS["sonic"]),
    "eos": (eos.render, ENDINGS["eos"]),
    "junos": (junos.render, ENDINGS["junos"]),
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


def files(plan: Plan, system: str, collectives: CollectivesIntent = NOTHING) -> Iterator[tuple[str, str]]:
    """Names and texts of all files.

    Args:
        plan: What is built.
        system: Of Ethernet switches.
        collectives: What the scenario fixes about them.

    Raises:
        SimulationError: A file says otherwise than intended: a fault of Railyard's.
    """
    render, ending = writer(system)
    _refuse_unfiltered(plan, system)
    names = dialect(system)
    for number in range(len(plan.networks)):
        if is_infiniband(plan, number):
            yield from subnet.files(plan, number)
            continue
        for intent in switches(plan, number, names):
            file = f"{intent.name}.{ending}"
            texts = {file: render(intent)} | _second(intent, system)
            wrong = differences(intent, system, texts[file], texts.get(f"{intent.name}.{ENDINGS['frr']}", ""))
            for family in (4, 6) if system in DUAL else (4,):
                read = configured(system, intent.name, texts, family)
                wrong += as_meant.differences(intent, read, family) if intent.by or family == 6 else []
            if wrong:
                raise SimulationError(f"{intent.name}: what was written is not what was meant: {wrong[0]}")
            yield from ((f"switches/{name}", text) for name, text in texts.items())
    first = None
    for host in hosts(plan):
        first = first or host
        if host.interfaces:
            yield f"servers/{host.name}.interfaces", servers.network(host)
    if first is not None:
        values = dcqcn.meant(plan.cluster.fabric)
        if values:
            yield f"servers/{dcqcn.FILE}", dcqcn.render(values, servers.hcas(first))
        told = libraries.files(collectives, servers.environment(first, plan.cluster))
        yield from ((f"servers/{name}", text) for name, text in told.items())
        yield "servers/sysctl.conf", servers.sysctl()
        yield "servers/nccl-topology.xml", servers.topology(plan.cluster)
        yield "servers/nccl-graph.xml", servers.graph(plan.cluster)


def _second(intent: SwitchIntent, system: str) -> dict[str, str]:
    """What one file cannot say of tenants: devices and shares that FRR cannot make, routing in SONiC."""
    if system == "frr" and (intent.vrfs or any(one.shaped_bps for one in intent.access)):
        return {f"{intent.name}.{INTERFACES}": frr.interfaces(intent)}
    if system == "sonic" and intent.vrfs:
        return {f"{intent.name}.{ENDINGS['frr']}": sonic_tenants.routing(intent)}
    return {}


def _refuse_unfiltered(plan: Plan, system: str) -> None:
    """Refuses access lists on a system that has none."""
    tenancy = plan.cluster.plans["back_end"].tenancy
    if system == "frr" and tenancy is not None and tenancy.mechanism.name == "acl":
        allowed = [name for name in WRITERS if name != "frr"]
        raise InputError("FRR filters no packets", key="--os", found="frr", allowed=allowed, hint="or `by: vrf`")
