"""A packet run that has been made, how it can be made again, and what its links are called."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from railyard.kit.errors import InputError, did_you_mean

if TYPE_CHECKING:
    from collections.abc import Callable

    from railyard.engine.packet import PacketNetwork, Settings, Traffic
    from railyard.graph import Record
    from railyard.work.traffic.htsim_topology import Tree
    from railyard.work.traffic.htsim_wiring import TreeNetwork


class LinkNames:
    """Names of the links of a tree: `leaf3->spine1`, and their tiers.

    Args:
        tree: The tree.
        wired: Its links.
        tiers: Names of tiers.
    """

    def __init__(self, tree: Tree, wired: TreeNetwork, tiers: tuple[str, ...]) -> None:
        counts = {"h": tree.hosts, "leaf": tree.pods * tree.tors, "spine": tree.pods * tree.aggs, "core": tree.cores}
        self._kinds = tuple(counts)
        self._first = np.cumsum([0, *counts.values()])
        self._wired = wired
        self._tiers = tiers

    def link(self, number: int) -> str:
        """From where to where."""
        return f"{self._node(int(self._wired.source[number]))}->{self._node(int(self._wired.target[number]))}"

    def number(self, name: str, key: str) -> int:
        """The node of a name.

        Args:
            name: Such as `leaf3`.
            key: That names it, for errors.

        Raises:
            InputError: There is none.
        """
        kind = name.rstrip("0123456789")
        digits = name[len(kind) :]
        if kind not in self._kinds or not digits:
            raise self._unknown(name, key)
        first, last = self._first[self._kinds.index(kind) : self._kinds.index(kind) + 2]
        if int(digits) >= last - first:
            raise self._unknown(name, key)
        return int(first) + int(digits)

    def _unknown(self, name: str, key: str) -> InputError:
        counts = [(kind, int(count)) for kind, count in zip(self._kinds, np.diff(self._first), strict=True) if count]
        allowed = ", ".join(f"{kind}0 to {kind}{count - 1}" for kind, count in counts)
        near = [f"{kind}{number}" for kind, count in counts for number in range(min(count, 1024))]
        return InputError("no such node", key=key, found=name, allowed=allowed, hint=did_you_mean(name, near))

    def tier(self, number: int) -> str:
        """`nic`, `leaf-spine` or `spine-core`."""
        return self._tiers[int(self._wired.tier[number])]

    def _node(self, number: int) -> str:
        kind = int(np.searchsorted(self._first, number, side="right")) - 1
        return f"{self._kinds[kind]}{number - int(self._first[kind])}"


@dataclass(frozen=True, eq=False)
class Played:
    """A run.

    Attributes:
        simulate: Runs traffic over the same network.
        network: Its links.
        traffic: Its flows.
        settings: Of it.
        first: What came of it.
        names: Of links.
    """

    simulate: Callable[[Traffic, Settings], Record]
    network: PacketNetwork
    traffic: Traffic
    settings: Settings
    first: Record
    names: LinkNames

    def again(self, settings: Settings) -> Record:
        """The same traffic under other settings."""
        return self.simulate(self.traffic, settings)
