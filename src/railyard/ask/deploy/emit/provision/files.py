"""All files of provisioning, each read back before it is given."""

from __future__ import annotations

import csv
import io
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from railyard.ask.deploy.emit.provision import kea, read_back, ztp
from railyard.ask.deploy.emit.provision.intent import Boot, boots
from railyard.kit.errors import SimulationError

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from railyard.ask.deploy.emit.provision.inventory import Known
    from railyard.ask.deploy.plan.cabling import Plan


@dataclass(frozen=True)
class Provision:
    """What is asked for.

    Attributes:
        folder: URL that the plan's folder is served by, with a slash at its end.
        inventory: What is known of devices, by the plan's names.
    """

    folder: str
    inventory: Mapping[str, Known] = field(default_factory=dict)


def files(plan: Plan, system: str, asked: Provision) -> Iterator[tuple[str, str]]:
    """Names and texts.

    Raises:
        SimulationError: A file says otherwise than intended: a fault of Railyard's.
    """
    listed = list(boots(plan, system, asked.folder, asked.inventory))
    for name, text, six in (
        ("kea-dhcp4.conf", kea.dhcp4(listed, system), False),
        ("kea-dhcp6.conf", kea.dhcp6(listed, system), True),
    ):
        wrong = read_back.wanted(listed, six=six) ^ read_back.said(text, six=six)
        if wrong:
            raise SimulationError(f"{name}: what was written is not what was meant: {min(wrong)}")
        yield f"provision/{name}", text
    yield "provision/to-be-filled.csv", to_be_filled(listed)
    for one in listed:
        file = ztp.file_of(one, system, asked.folder)
        if file is not None:
            yield file


def to_be_filled(listed: Sequence[Boot]) -> str:
    """Devices that nothing tells from others yet, as an inventory with empty cells."""
    buffer = io.StringIO()
    rows = csv.writer(buffer, lineterminator="\n")
    rows.writerow(["device", "mac", "serial", "circuit_id"])
    rows.writerows([one.device, "", "", ""] for one in listed if not one.told)
    return buffer.getvalue()
