"""A network as found, as columns: what inference and comparison work on."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from railyard.cluster.asbuilt.discovery import Discovery, FoundDevice


@dataclass(frozen=True, eq=False)
class Found:
    """Devices by number and cables by number.

    Attributes:
        discovery: What was read; devices and cables have its numbers.
        switch: bool[devices].
        host: bool[devices], ports of hosts; what is neither does not count.
        ends: int32[cables, 2], devices.
        rate_bps: int64[cables], 0 where unknown.
    """

    discovery: Discovery
    switch: NDArray[np.bool_]
    host: NDArray[np.bool_]
    ends: NDArray[np.int32]
    rate_bps: NDArray[np.int64]

    @classmethod
    def of(cls, discovery: Discovery) -> Found:
        """The columns of a discovery."""
        kinds = np.array([device.kind for device in discovery.devices], dtype=object)
        ends = np.array([(cable.a, cable.b) for cable in discovery.cables], np.int32).reshape(-1, 2)
        rate = np.array([cable.rate_bps for cable in discovery.cables], np.int64)
        return cls(discovery, kinds == "switch", kinds == "host", ends, rate)

    def device(self, number: int) -> FoundDevice:
        """A device."""
        return self.discovery.devices[number]

    def port(self, cable: int, device: int) -> str:
        """Port of a cable at one of its devices."""
        found = self.discovery.cables[cable]
        return found.a_port if found.a == device else found.b_port

    @cached_property
    def between(self) -> NDArray[np.int64]:
        """Cables between two switches."""
        return np.flatnonzero(self.switch[self.ends].all(axis=1) & (self.ends[:, 0] != self.ends[:, 1]))

    @cached_property
    def access(self) -> NDArray[np.int64]:
        """Cables between a switch and a host."""
        one, other = self.ends[:, 0], self.ends[:, 1]
        mixed = (self.switch[one] & self.host[other]) | (self.host[one] & self.switch[other])
        return np.flatnonzero(mixed)

    @cached_property
    def access_ends(self) -> NDArray[np.int32]:
        """int32[access cables, 2], switch and host."""
        ends = self.ends[self.access]
        turned = self.host[ends[:, 0]]
        return np.where(turned[:, None], ends[:, ::-1], ends)

    @cached_property
    def hosts_of(self) -> NDArray[np.int64]:
        """int64[devices], cables to hosts of each switch."""
        return np.bincount(self.access_ends[:, 0], minlength=len(self.switch))

    @cached_property
    def ports_of(self) -> list[set[str]]:
        """Ports of each device that have a cable."""
        out: list[set[str]] = [set() for _ in self.switch]
        for device, port in self.taken:
            out[device].add(port)
        return out

    @cached_property
    def taken(self) -> dict[tuple[int, str], int]:
        """The cable in each port that has one."""
        out: dict[tuple[int, str], int] = {}
        for number, cable in enumerate(self.discovery.cables):
            out[cable.a, cable.a_port] = number
            out[cable.b, cable.b_port] = number
        return out
