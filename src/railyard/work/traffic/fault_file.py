"""Reads faults from a YAML file, the same records as a scenario's `faults`.

    faults:
      - {kind: link-down, cable: h3 - leaf0, at: 20 us, for: 40 us}
      - {kind: degrade-link, cable: leaf0 - spine1, factor: 25 %, at: 10 us}
      - {kind: switch-down, switch: core2, at: 5 us}
      - {kind: bit-errors, ratio: 1e-9}

Nodes are h0, h1, ... (hosts), leaf0, ..., spine0, ..., core0, ....
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

import numpy as np
from pydantic import Field

from railyard.cluster.fault.fault import some_cables
from railyard.engine.packet.faults import both_ways, of_node
from railyard.engine.packet.link_faults import changes
from railyard.kit.errors import InputError
from railyard.kit.schema import yaml
from railyard.work.scenario import problems
from railyard.work.scenario.load import check
from railyard.work.scenario.section import Section
from railyard.work.scenario.unions import FaultSection, fault_of

if TYPE_CHECKING:
    from pathlib import Path

    from railyard.cluster.fault import Effect
    from railyard.cluster.fault.fault import Links
    from railyard.engine.packet import PacketNetwork
    from railyard.engine.packet.faults import LinkFault
    from railyard.work.traffic.played import LinkNames


class FaultFile(Section):
    """What goes wrong in a network of packets."""

    faults: tuple[FaultSection, ...] = Field(min_length=1, description="What goes wrong, and when.")


@dataclass(frozen=True)
class TreePlaces:
    """Places of a tree of packets; see `railyard.cluster.fault.Places`.

    Attributes:
        network: Its links.
        names: Of its nodes.
    """

    network: PacketNetwork
    names: LinkNames

    def link(self, number: int) -> Links:
        """See `Places`."""
        if not 0 <= number < self.network.links:
            allowed = f"0 to {self.network.links - 1}"
            raise InputError("there is no such link", key="link", found=number, allowed=allowed)
        return np.array([number], np.int64)

    def tier(self, name: str) -> Links:
        """See `Places`."""
        found = [link for link in range(self.network.links) if self.names.tier(link) == name]
        if not found:
            allowed = sorted({self.names.tier(link) for link in range(self.network.links)})
            raise InputError("the network has no such tier", key="tier", found=name, allowed=allowed)
        return np.array(found, np.int64)

    def cable(self, ends: str, cables: int | Literal["all"] = 1, first: int = 0) -> Links:
        """See `Places`."""
        names = ends.replace(" ", "").split("-")
        if len(names) != 2:
            raise InputError("expected two nodes", key="cable", found=ends, allowed="such as `leaf0 - spine1`")
        try:
            one, other = (self.names.number(name, "cable") for name in names)
            found = both_ways(self.network, one, other)
        except InputError as error:
            if error.problems[0].key == "cable":
                raise
            raise InputError("no cable joins the two", key="cable", found=ends) from None
        forth = self.network.link_source[found] == one
        return some_cables(found[forth], found[~forth], cables, first)

    def switch(self, name: str) -> Links:
        """See `Places`."""
        number = self.names.number(name.replace(" ", ""), "switch")
        if number < self.network.hosts:
            raise InputError("a host is no switch", key="switch", found=name, hint="write `kind: host-down`")
        return of_node(self.network, number)

    def out_of(self, switch: str) -> Links:
        """See `Places`."""
        mine = self.switch(switch)
        found: Links = mine[self.network.link_source[mine] == self.names.number(switch.replace(" ", ""), "switch")]
        return found

    def nic(self, host: int, nic: int, port: int | None) -> Links:
        """See `Places`."""
        if nic or port:
            raise InputError("a host has one NIC of one port here", key="nic" if nic else "port", found=nic or port)
        return self.host(host)

    def host(self, host: int) -> Links:
        """See `Places`."""
        if host >= self.network.hosts:
            allowed = f"0 to {self.network.hosts - 1}"
            raise InputError("there is no such host", key="host", found=host, allowed=allowed)
        return of_node(self.network, host)

    def ranks_of_host(self, _host: int) -> tuple[int, ...]:
        """Flows belong to hosts; nothing computes."""
        return ()

    def rank(self, rank: int) -> int:
        """See `Places`."""
        raise InputError("flows between hosts have no ranks", key="rank", found=rank, hint="run it as a scenario")

    def every_link(self) -> Links:
        """See `Places`."""
        return np.arange(self.network.links, dtype=np.int64)


def read_document(path: Path, network: PacketNetwork, names: LinkNames) -> tuple[LinkFault, ...]:
    """The faults of a file.

    Args:
        path: The file.
        network: Whose links they are.
        names: Of its nodes.

    Raises:
        InputError: The file cannot be read, or a fault is impossible; with its place.
    """
    tree = yaml.read(path, if_empty="such as `faults: [{kind: switch-down, switch: spine0, at: 5 us}]`")
    places = TreePlaces(network, names)
    effects: list[Effect] = []
    for number, section in enumerate(check(tree, FaultFile).faults):
        try:
            effects += fault_of(section).effects(places)
        except InputError as error:
            raise problems.place(error, tree, ("faults", str(number)), FaultFile) from None
    return tuple(changes(effects, np.arange(network.links)))
