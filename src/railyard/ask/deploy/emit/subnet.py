"""OpenSM: its options and partitions. Roots of the tree it finds by itself: no plan knows addresses of switches."""

from __future__ import annotations

from typing import TYPE_CHECKING

from railyard.ask.deploy.emit.netlist import port_guids
from railyard.ask.deploy.plan.drawn import drawn
from railyard.cluster.asbuilt.port_names import dialect

if TYPE_CHECKING:
    from collections.abc import Iterator

    from railyard.ask.deploy.plan.cabling import Plan

MEMBERS = 8
"""Ports a line: OpenSM takes lines of 4,096 characters, and people read shorter ones."""


def files(plan: Plan, network: int) -> Iterator[tuple[str, str]]:
    """`opensm.conf` and `partitions.conf`; a tree that is not whole is routed by Up/Down, where ftree gives up."""
    key = list(plan.cluster.plans)[network]
    regular = plan.cluster.plans[key].wiring.detour is None
    options = {
        "routing_engine": "ftree,updn" if regular else "updn,minhop",
        "partition_config_file": "/etc/opensm/partitions.conf",
        "sweep_interval": "10",
    }
    yield "opensm/opensm.conf", "".join(f"{key} {value}\n" for key, value in options.items())
    yield "opensm/partitions.conf", "\n".join([*_partitions(plan, network, key), ""])


def _partitions(plan: Plan, network: int, key: str) -> Iterator[str]:
    """Partitions of tenants; limited members of the default one reach the subnet manager and no one another."""
    tenancy = plan.cluster.plans[key].tenancy
    if tenancy is None or tenancy.mechanism.name != "pkey":
        yield "Default=0x7fff, ipoib, defmember=full : ALL=full;"
        return
    yield "# Addresses of ports are the plan's own: real ones come with the machines (ibstat -p)."
    yield "# SELF is a full member and speaks to all: the subnet manager runs on no tenant's server."
    yield "Default=0x7fff, ipoib : ALL=limited, SELF=full;"
    guids = port_guids(drawn(plan, network, dialect("infiniband")))
    for tenant in tenancy.tenants:
        mine = (tenancy.owner == tenant.number).nonzero()
        names = [f"{plan.devices.name[server]} mlx5_{nic}" for server, nic in zip(*mine, strict=True)]
        for first in range(0, len(names), MEMBERS):
            members = ", ".join(f"0x{guids[name]:x}" for name in names[first : first + MEMBERS])
            yield f"{tenant.name}=0x{tenant.identifier:x}, defmember=full : {members};"
