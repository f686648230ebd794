"""Who gets which address and file when it first boots: one record that every format is written from."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from railyard.ask.deploy.emit.provision.inventory import Known
from railyard.ask.deploy.plan.addresses import HOSTS6, MANAGEMENT6, addresses_of, ipv4, ipv6
from railyard.ask.deploy.plan.drawn import interface, is_infiniband
from railyard.ask.deploy.plan.shared import shared_of
from railyard.kit.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from railyard.ask.deploy.plan.cabling import Plan

ENDING = {"frr": "frr.conf", "sonic": "config_db.json", "eos": "eos.cfg", "junos": "junos.set"}
"""Of files of switches."""

SECOND = {"frr": "interfaces", "sonic": ENDING["frr"]}
"""Of those that one file does not say all of."""

URL = re.compile(r"(?:https?|tftp)://[A-Za-z0-9.-]+(?::[0-9]{1,5})?(?:/[A-Za-z0-9._~-]+)*/?")
"""Where devices fetch their files: no marks that a shell, an expression or a file of settings reads otherwise."""


@dataclass(frozen=True)
class Boot:
    """A device at its first boot.

    Attributes:
        device: Name.
        address, address6: That it gets.
        known: How it is told from others; none of all where its link alone tells.
        file: What it fetches, a whole URL; empty where nothing.
        second: Routing in SONiC, devices and shares beside FRR, a whole URL; empty where it has none.
        gateway, gateway6: Of a server's link, whose addresses are a network of two; empty for ports of management.
    """

    device: str
    address: str
    address6: str
    known: Known
    file: str = ""
    second: str = ""
    gateway: str = ""
    gateway6: str = ""

    @property
    def told(self) -> bool:
        """Whether it can be told from others."""
        return bool(self.gateway or self.known.mac or self.known.serial or self.known.circuit_id)


def folder_of(url: str) -> str:
    """A URL that files are appended to.

    Raises:
        InputError: It is none that all devices take.
    """
    if not URL.fullmatch(url):
        raise InputError(
            "no URL that devices could fetch files by",
            key="--provision",
            found=url,
            allowed="http, https or tftp, a host, a path of letters, digits and `._~-`: http://10.248.0.2/plan",
        )
    return url.rstrip("/") + "/"


def boots(plan: Plan, system: str, folder: str, inventory: Mapping[str, Known]) -> Iterator[Boot]:
    """Switches by their port of management, then servers by their first link to the front-end.

    Args:
        plan: The plan.
        system: Operating system of Ethernet switches.
        folder: URL that the plan's folder is served by.
        inventory: What is known of devices, by name.
    """
    devices, numbers = plan.devices, addresses_of(plan)
    plain = {name for number, name in enumerate(plan.networks) if is_infiniband(plan, number)}
    shared = {name: shared_of(plan, number) for number, name in enumerate(plan.networks) if name not in plain}
    for row in np.flatnonzero(numbers.management).tolist():
        name, address = devices.name[row], int(numbers.management[row])
        known, files = inventory.get(name, Known()), ("", "")
        if devices.network[row] not in plain:
            more = (
                f"{folder}switches/{name}.{SECOND[system]}"
                if shared[devices.network[row]].second_file(row, system)
                else ""
            )
            files = folder + boot_file(system, name), more
        yield Boot(name, ipv4(address), ipv6(MANAGEMENT6, address), known, *files)
    if "front-end" not in plan.networks or "front-end" in plain:
        return
    rows, number = plan.cables, plan.networks.index("front-end")
    first = (rows.network == number) & (rows.a_port == 1) & (devices.level[rows.a] == 0) & (numbers.access > 0)
    for row in np.flatnonzero(first).tolist():
        name, gateway = devices.name[int(rows.a[row])], int(numbers.access[row])
        ends = ipv4(gateway + 1), ipv6(HOSTS6, gateway + 1)
        yield Boot(name, *ends, Known(), "", "", ipv4(gateway), ipv6(HOSTS6, gateway))


def front(plan: Plan) -> str:
    """Name of the interface by which servers boot."""
    return interface("front-end", 1) if "front-end" in plan.networks else ""


def boot_file(system: str, name: str) -> str:
    """What a switch fetches first, in the plan's folder."""
    if system == "sonic":
        return f"provision/ztp/{name}.json"
    return f"switches/{name}.{ENDING[system]}" if system == "eos" else f"provision/ztp/{name}.sh"
