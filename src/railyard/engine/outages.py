"""Dead links in time: until when what uses them stands still, and from when on routes keep off them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from railyard.cluster.fault import LinkRate

if TYPE_CHECKING:
    from collections.abc import Iterable

    from numpy.typing import NDArray

    from railyard.cluster import Cluster
    from railyard.cluster.fault import Effect
    from railyard.cluster.network import Network


@dataclass(frozen=True, eq=False)
class Outage:
    """Links of one network that are dead for a while.

    What is on its way is lost and sent again whenever the sender's timer runs out (`Fabric.recovery_ps`): traffic moves
    again with the first try after routes know, or after the links are back if that is sooner.

    Attributes:
        link: int64[], physical links.
        begin_ps: When they die.
        end_ps: When what uses them moves again because they are back; None: never.
        withdrawn_ps: From when on routes keep off them, and what was sent has been sent again; None: they never do.
        restored_ps: From when on routes use them again; None: never.
    """

    link: NDArray[np.int64]
    begin_ps: int
    end_ps: int | None
    withdrawn_ps: int | None
    restored_ps: int | None

    @property
    def times(self) -> set[int]:
        """When something changes."""
        return {time for time in (self.begin_ps, self.end_ps, self.withdrawn_ps, self.restored_ps) if time is not None}

    def is_dead(self, at_ps: int) -> bool:
        """Whether the links carry nothing."""
        return self.begin_ps <= at_ps and (self.end_ps is None or at_ps < self.end_ps)

    def is_withdrawn(self, at_ps: int) -> bool:
        """Whether routes keep off the links."""
        if self.withdrawn_ps is None or at_ps < self.withdrawn_ps:
            return False
        return self.restored_ps is None or at_ps < self.restored_ps


def outages_of(effects: Iterable[tuple[int, Effect]], cluster: Cluster) -> list[Outage]:
    """The outages of dead links, each in the way of its network's fabric."""
    found: list[Outage] = []
    for _, effect in effects:
        if isinstance(effect, LinkRate) and effect.factor == 0:
            found += _of_effect(effect, cluster)
    return found


def _of_effect(effect: LinkRate, cluster: Cluster) -> list[Outage]:
    found, left = [], effect.link
    for network in cluster.networks:
        own = left[(left >= network.link_offset) & (left < network.link_offset + network.wiring.links)]
        if len(own):
            found.append(_of_network(own, effect, network))
        left = np.setdiff1d(left, own)
    if len(left):
        found.append(Outage(left, effect.spell.begin_ps, effect.spell.end_ps, None, None))
    return found


def _of_network(link: NDArray[np.int64], effect: LinkRate, network: Network) -> Outage:
    begin, end, fabric = effect.spell.begin_ps, effect.spell.end_ps, network.fabric
    withdrawn = begin + fabric.recovery_ps() if begin > 0 else 0  # routes know what is dead before the run
    return Outage(
        link,
        begin,
        None if end is None else begin + fabric.recovery_ps(end - begin),
        withdrawn,
        None if end is None else max(end + fabric.reroute_ps, withdrawn),
    )
