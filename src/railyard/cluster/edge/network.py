"""Links that clients share on their way to the server: concentrators of access, edge sites, backbones of regions."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from railyard.cluster.edge import draws

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from railyard.cluster.edge.draws import Ids

_REGIONS = 1 << 20
"""More than there are regions: numbers of concentrators of several kinds do not meet."""


class Population(Protocol):
    """What of the clients the network looks at, as `railyard.cluster.edge.clients.Clients` has it."""

    @property
    def count(self) -> int:
        """How many there are."""

    @property
    def seed(self) -> int:
        """Of everything that is a client's own."""

    @property
    def links(self) -> tuple[tuple[Any, float], ...]:
        """Access links with the share of each."""

    @property
    def regions(self) -> tuple[Any, ...]:
        """Each with its `share`."""


@dataclass(frozen=True)
class SharedLink:
    """A link that several clients share, less what others take of it.

    Attributes:
        up_bps: Towards the server, ONE WAY.
        down_bps: Towards the clients.
    """

    up_bps: float
    down_bps: float


@dataclass(frozen=True)
class Network:
    """What is shared between access links and the server's line: a tree.

    Attributes:
        concentrators: By access link: clients of the population behind each of its concentrators, and its uplink.
        sites: Edge sites in every region, and the uplink of each; None: there are none.
        backbones: By region: its link to the server; None: never short.
    """

    concentrators: tuple[tuple[int, SharedLink] | None, ...] = ()
    sites: tuple[int, SharedLink] | None = None
    backbones: tuple[SharedLink | None, ...] = ()

    @property
    def shares(self) -> bool:
        """Whether anything is shared at all."""
        return any(self.concentrators) or self.sites is not None or any(self.backbones)

    def concentrators_of(
        self, clients: Population, who: Ids, links: NDArray[np.intp], regions: NDArray[np.intp]
    ) -> NDArray[np.int64]:
        """int64[clients], number of each client's concentrator among all of all kinds; -1: its access has none.

        Clients of one kind of link in one region are dealt out evenly, by hash, so that as many of the population are
        behind each as was said.
        """
        found = np.full(len(who), -1, np.int64)
        shares = np.array([region.share for region in clients.regions])
        total = sum(share for _, share in clients.links)
        for kind, concentrator in enumerate(self.concentrators):
            rows = np.flatnonzero(links == kind)
            if concentrator is None or not len(rows):
                continue
            here = clients.count * clients.links[kind][1] / total * shares / shares.sum()
            count = np.maximum(np.ceil(here / concentrator[0]), 1.0)[regions[rows]]
            number = np.floor(draws.uniform(clients.seed, "concentrator", who[rows]) * count).astype(np.int64)
            found[rows] = (number * _REGIONS + regions[rows]) * len(self.concentrators) + kind
        return found

    def sites_of(
        self, clients: Population, who: Ids, concentrators: NDArray[np.int64], regions: NDArray[np.intp]
    ) -> NDArray[np.int64]:
        """int64[clients], number of each client's edge site among all; -1: there are none. A concentrator has one."""
        if self.sites is None:
            return np.full(len(who), -1, np.int64)
        each = self.sites[0]
        alone = draws.uniform(clients.seed, "edge site", who)
        together = draws.uniform(clients.seed, "edge site of concentrator", concentrators)
        place = np.floor(np.where(concentrators < 0, alone, together) * each).astype(np.int64)
        found: NDArray[np.int64] = regions * each + np.minimum(place, each - 1)
        return found
