"""A small plan as a lab of containers (containerlab): switches run FRR from the plan's files, servers are hosts."""

from __future__ import annotations

from typing import TYPE_CHECKING

from railyard.ask.deploy.emit.intent import hosts
from railyard.ask.deploy.plan.drawn import drawn, is_infiniband
from railyard.cluster.asbuilt.port_names import dialect

if TYPE_CHECKING:
    from collections.abc import Iterator

    from railyard.ask.deploy.plan.cabling import Plan

MOST = 200
"""Devices that are worth a lab on one machine."""

FRR, HOST = "quay.io/frrouting/frr:10.2.1", "alpine:3.20"
"""Images."""


def lab(plan: Plan, name: str) -> str | None:
    """The file; None of what is too large, or has a network of InfiniBand, which no container plays."""
    networks = range(len(plan.networks))
    if len(plan.devices) > MOST or any(is_infiniband(plan, number) for number in networks):
        return None
    address = {host.name: host.interfaces for host in hosts(plan)}
    lines = [f"name: {name}", "topology:", "  nodes:"]
    for number, device in enumerate(plan.devices.name):
        if number < plan.devices.servers:
            lines += [*_host(device), "      exec:"]
            lines += [f"        - ip address add {own}/31 dev {port}" for port, own, _, _ in address[device]]
        elif plan.devices.level[number]:
            lines += _switch(device)
        else:
            lines += _host(device)
    lines += ["  links:", *_links(plan)]
    return "\n".join([*lines, ""])


def _host(name: str) -> list[str]:
    return [f"    {name}:", "      kind: linux", f'      image: "{HOST}"', "      network-mode: none"]


def _switch(name: str) -> list[str]:
    return [
        f"    {name}:",
        "      kind: linux",
        f'      image: "{FRR}"',
        "      network-mode: none",
        "      binds:",
        f"        - switches/{name}.frr.conf:/etc/frr/frr.conf",
    ]


def _links(plan: Plan) -> Iterator[str]:
    for number in range(len(plan.networks)):
        found = drawn(plan, number, dialect("frr"))
        for cable in found.cables:
            near, far = (found.devices[end].name for end in (cable.a, cable.b))
            yield f'    - endpoints: ["{near}:{cable.a_port}", "{far}:{cable.b_port}"]'
