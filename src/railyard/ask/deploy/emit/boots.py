"""Who gets which address and file when it first boots: one record that every format is written from."""

from __future__ import annotations

import re
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np

from railyard.ask.deploy.cabling import HOSTS6, MANAGEMENT6, addresses_of, interface, ipv4, ipv6, is_infiniband
from railyard.ask.deploy.system import systems
from railyard.ask.deploy.tenants import shared_of
from railyard.kit import table
from railyard.kit.errors import InputError, Problem, did_you_mean

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Mapping
    from pathlib import Path

    from railyard.ask.deploy.cabling import CablingPlan


COLUMNS = ("device", "mac", "serial", "circuit_id")

MAC = re.compile(r"[0-9a-f]{2}(?:[:.-]?[0-9a-f]{2}){5}")
SERIAL = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{3,63}")
CIRCUIT = re.compile(r"[\x20-\x7e]{1,120}")
"""Four characters of a serial number at least: what ends in it is taken for the device."""


@dataclass(frozen=True)
class KnownDevice:
    """A device as it asks.

    Attributes:
        mac: `00:11:22:33:44:55` of the port that it boots by; empty where not known.
        serial: Its number, which systems send with their request.
        circuit_id: What the relay says of the port that it is connected to (RFC 3046, suboption 1).
    """

    mac: str = ""
    serial: str = ""
    circuit_id: str = ""


def read(path: Path, devices: Collection[str]) -> dict[str, KnownDevice]:
    """Known facts by the plan's names.

    Raises:
        InputError: A column, a name or an address is wrong, or two devices have the same.
    """
    rows = table.read(path, "device", known=COLUMNS, lower=True)
    found: dict[str, KnownDevice] = {}
    problems: list[Problem] = []
    for row in rows:
        wrong = list(_wrong(row, devices, found))
        problems += [row.wrong(column, words, hint=_near(column, row, devices, words)).problems[0]
                     for column, words in wrong]  # fmt: skip
        if not wrong:
            mac = re.sub(r"[^0-9a-f]", "", row.get("mac", "").lower())
            pairs = ":".join(mac[at : at + 2] for at in range(0, len(mac), 2))
            found[row["device"]] = KnownDevice(pairs, row.get("serial", ""), row.get("circuit_id", ""))
    problems += [Problem(words, file=str(path), found=value) for words, value in _twice(found)]
    if problems:
        raise InputError.many(problems)
    return found


def _near(column: str, row: dict[str, str], devices: Collection[str], words: str) -> str | None:
    return did_you_mean(row[column], devices) if words.startswith("the plan has") else None


def _wrong(given: dict[str, str], devices: Collection[str], found: dict[str, KnownDevice]) -> Iterable[tuple[str, str]]:
    device = given["device"]
    if device not in devices:
        yield "device", "the plan has no such device"
    elif device in found:
        yield "device", "the device has two rows"
    shapes = (("mac", MAC, "no MAC address"), ("serial", SERIAL, "no serial number of 4 to 64 letters, digits, `.-_`"))
    for column, shape, words in (*shapes, ("circuit_id", CIRCUIT, "no printable text of up to 120 letters")):
        value = given.get(column, "")
        text = value.lower() if column == "mac" else value
        if value and not shape.fullmatch(text):
            yield column, words
    mac = re.sub(r"[^0-9a-f]", "", given.get("mac", "").lower())
    if len(mac) == 12 and int(mac[:2], 16) & 1:
        yield "mac", "a multicast MAC address, which no device has"


def _twice(found: dict[str, KnownDevice]) -> Iterable[tuple[str, str]]:
    for column in ("mac", "serial", "circuit_id"):
        seen: dict[str, str] = {}
        for device, known in found.items():
            value = getattr(known, column)
            if value and value in seen:
                yield f"{seen[value]} and {device} have the same {column}", value
            seen[value] = device
    ends = sorted((known.serial[::-1], device) for device, known in found.items() if known.serial)
    for (one, first), (other, second) in pairwise(ends):
        if other != one and other.startswith(one):
            yield f"the serial number of {second} ends in that of {first}, so they are ambiguous", one[::-1]


URL = re.compile(r"(?:https?|tftp)://[A-Za-z0-9.-]+(?::[0-9]{1,5})?(?:/[A-Za-z0-9._~-]+)*/?")
"""URLs from which devices fetch files: no characters that a shell, an expression or a settings file would interpret."""


@dataclass(frozen=True)
class Boot:
    """A device at its first boot.

    Attributes:
        known: What identifies it; all empty if its link alone does.
        file: What it fetches, a whole URL; empty where nothing.
        second: URL of its second file (routing in SONiC, devices and shares with FRR); empty if it has none.
        gateway, gateway6: Of a server's link, whose addresses are a network of two; empty for ports of management.
    """

    device: str
    address: str
    address6: str
    known: KnownDevice
    file: str = ""
    second: str = ""
    gateway: str = ""
    gateway6: str = ""

    @property
    def told(self) -> bool:
        """Whether it can be identified."""
        return bool(self.gateway or self.known.mac or self.known.serial or self.known.circuit_id)


def folder_of(url: str) -> str:
    """A URL that files are appended to.

    Raises:
        InputError: It is none that all devices take.
    """
    if not URL.fullmatch(url):
        raise InputError(
            "not a URL from which devices can fetch files",
            key="--provision",
            found=url,
            allowed="http, https or tftp, a host, a path of letters, digits and `._~-`: http://10.248.0.2/plan",
        )
    return url.rstrip("/") + "/"


def boots(plan: CablingPlan, system: str, folder: str, inventory: Mapping[str, KnownDevice]) -> Iterator[Boot]:
    """Switches by their port of management, then servers by their first link to the front-end."""
    devices, numbers = plan.devices, addresses_of(plan)
    plain = {name for number, name in enumerate(plan.networks) if is_infiniband(plan, number)}
    shared = {name: shared_of(plan, number) for number, name in enumerate(plan.networks) if name not in plain}
    for row in np.flatnonzero(numbers.management).tolist():
        name, address = devices.name[row], int(numbers.management[row])
        known, files = inventory.get(name, KnownDevice()), ("", "")
        if devices.network[row] not in plain:
            more = (
                f"{folder}switches/{name}.{systems.get(system).second}"
                if shared[devices.network[row]].second_file(row, system)
                else ""
            )
            files = folder + boot_file(system, name), more
        yield Boot(name, ipv4(address), ipv6(MANAGEMENT6, address), known, *files)
    if "front-end" not in plan.networks or "front-end" in plain:
        return
    rows, number = plan.cables, plan.networks.index("front-end")
    first = (rows.network == number) & (rows.port[:, 0] == 1) & (devices.level[rows.a] == 0) & (numbers.access > 0)
    for row in np.flatnonzero(first).tolist():
        name, gateway = devices.name[int(rows.a[row])], int(numbers.access[row])
        ends = ipv4(gateway + 1), ipv6(HOSTS6, gateway + 1)
        yield Boot(name, *ends, KnownDevice(), "", "", ipv4(gateway), ipv6(HOSTS6, gateway))


def front(plan: CablingPlan) -> str:
    """Name of the interface by which servers boot."""
    return interface("front-end", 1) if "front-end" in plan.networks else ""


def boot_file(system: str, name: str) -> str:
    """File that a switch fetches first, in the plan's folder."""
    if system == "sonic":
        return f"provision/ztp/{name}.json"
    return f"switches/{name}.{systems.get(system).ending}" if system == "eos" else f"provision/ztp/{name}.sh"
