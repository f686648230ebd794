"""A fault that devices report, in terms that both audits price: cables as found, and what they have left."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from railyard.ask.audit.design.port_map import UNKNOWN
from railyard.cluster.asbuilt.port_names import same_port

if TYPE_CHECKING:
    from railyard.ask.audit.finding import Finding
    from railyard.cluster.asbuilt.discovery import Discovery


@dataclass(frozen=True)
class Symptom:
    """A finding and what it does.

    Attributes:
        finding: What is wrong, unpriced but for `slower` and `idle`.
        cables: Cables as found, by number, and what they have of their rate; 0: they carry nothing.
        part: Of the traffic for which that holds.
    """

    finding: Finding
    cables: tuple[tuple[int, float], ...] = ()
    part: float = 1.0


class Names:
    """Devices and cables of a discovery by whatever tools call them."""

    def __init__(self, discovery: Discovery) -> None:
        self.discovery = discovery
        self.number: dict[str, int] = {}
        for number, device in enumerate(discovery.devices):
            for name in (device.described, device.key, device.name):
                self.number.setdefault(name.lower(), number)
        for name, (number, _) in discovery.addresses.items():
            self.number.setdefault(name, number)
        self.cable: dict[tuple[int, str], int] = {}
        for number, cable in enumerate(discovery.cables):
            self.cable[cable.a, same_port(cable.a_port)] = number
            self.cable[cable.b, same_port(cable.b_port)] = number

    def device(self, name: str) -> int | None:
        """Number of a device by name, address or GUID."""
        name = name.lower()
        return self.number.get(name, self.number.get(name.removeprefix("0x").lstrip("0")))

    def at(self, device: int, port: str) -> int | None:
        """The cable in a port."""
        return self.cable.get((device, same_port(port)))

    def ends(self, device: int, port: str) -> tuple[str, str]:
        """A port and the far end of its cable, in words; `?` where there is none."""
        mine = f"{self.discovery.devices[device].described}[{port}]"
        number = self.at(device, port)
        if number is None:
            return mine, UNKNOWN
        cable = self.discovery.cables[number]
        near = cable.a == device and same_port(cable.a_port) == same_port(port)
        far, far_port = (cable.b, cable.b_port) if near else (cable.a, cable.a_port)
        return mine, f"{self.discovery.devices[far].described}[{far_port}]"

    def of_host(self, name: str) -> tuple[int, ...]:
        """All cables of a host."""
        mine = {number for number, device in enumerate(self.discovery.devices) if device.name == name}
        return tuple(number for number, one in enumerate(self.discovery.cables) if one.a in mine or one.b in mine)
