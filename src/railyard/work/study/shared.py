"""The tree of links that clients share on their way to a server, and what each tier of it adds to an update."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

import numpy as np

from railyard.engine.rounds import sharing
from railyard.engine.rounds.sharing import Tree

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from railyard.cluster.edge.clients import Clients
    from railyard.cluster.edge.draws import Floats, Ids
    from railyard.cluster.edge.network import SharedLink
    from railyard.engine.rounds.waiting import Cohort

SERVER, BACKBONE, SITE, CONCENTRATOR = TIERS = ("the server's line", "backbones", "edge sites", "concentrators")


class Senders(Protocol):
    """What of clients the tree looks at; a row each."""

    @property
    def who(self) -> Ids:
        """int64, which clients."""

    @property
    def link(self) -> NDArray[np.intp]:
        """Index of each one's access link."""

    @property
    def region(self) -> NDArray[np.intp]:
        """Index of each one's region."""


@dataclass(frozen=True, eq=False)
class Shared:
    """The same links both ways.

    Attributes:
        parent: int32[links], the next link towards the server; -1: the server's line.
        first: int32[clients], the first shared link of each.
        up_bps: float64[links].
        down_bps: float64[links].
        tier: int64[links], index into `TIERS`.
    """

    parent: NDArray[np.int32]
    first: NDArray[np.int32]
    up_bps: Floats
    down_bps: Floats
    tier: NDArray[np.int64]

    @property
    def up(self) -> Tree:
        """Towards the server."""
        return Tree(self.up_bps, self.parent, self.first)

    @property
    def down(self) -> Tree:
        """Towards the clients."""
        return Tree(self.down_bps, self.parent, self.first)


class _Growing:
    """A tree that is made tier by tier, from the server outwards."""

    def __init__(self, line_bps: float, clients: int) -> None:
        self.parent, self.tier = [np.full(1, -1, np.int32)], [np.zeros(1, np.int64)]
        self.up, self.down = [np.array([line_bps])], [np.array([line_bps])]
        self.first = np.zeros(clients, np.int32)
        self.links = 1

    def add(self, tier: str, number: NDArray[np.int64], link: SharedLink) -> None:
        """A tier's links of one size, nearer to the clients: those with a number of -1 are behind none of them."""
        rows = np.flatnonzero(number >= 0)
        if not len(rows):
            return
        _, one, which = np.unique(number[rows], return_index=True, return_inverse=True)
        self.parent.append(self.first[rows[one]])
        self.tier.append(np.full(len(one), TIERS.index(tier)))
        self.up.append(np.full(len(one), link.up_bps))
        self.down.append(np.full(len(one), link.down_bps))
        self.first[rows] = (self.links + which).astype(np.int32)
        self.links += len(one)

    def grown(self) -> Shared:
        """All of it."""
        columns = [np.concatenate(column) for column in (self.parent, self.up, self.down, self.tier)]
        return Shared(columns[0], self.first, *columns[1:])


def shared_of(clients: Clients, rows: Senders, line_bps: float) -> Shared:
    """Links that clients share on their way to a server with a line of so many bits a second."""
    network = clients.network
    growing = _Growing(line_bps, len(rows.who))
    if not network.shares:
        return growing.grown()
    for index, backbone in enumerate(network.backbones):
        if backbone is not None:
            growing.add(BACKBONE, np.where(rows.region == index, 0, -1), backbone)
    behind = network.concentrators_of(clients, rows.who, rows.link, rows.region)
    if network.sites is not None:
        growing.add(SITE, network.sites_of(clients, rows.who, behind, rows.region), network.sites[1])
    for kind, concentrator in enumerate(network.concentrators):
        if concentrator is not None:
            growing.add(CONCENTRATOR, np.where(rows.link == kind, behind, -1), concentrator[1])
    return growing.grown()


@dataclass(frozen=True, eq=False)
class Began:
    """When transfers began; float64[clients] each.

    Attributes:
        down_s: Of the download; inf: never.
        up_s: Of the upload; inf: never.
        stop_s: When the client went; inf: never.
        counted: bool[clients], whose update is counted: both its transfers ended.
    """

    down_s: Floats
    up_s: Floats
    stop_s: Floats
    counted: NDArray[np.bool_]


def added_s(cohort: Cohort, shared: Shared, sent: Began) -> dict[str, float]:
    """Mean seconds that each tier adds to an update: with it and those nearer to the clients, over those alone.

    Args:
        cohort: Clients.
        shared: Their links.
        sent: When their transfers began.

    Returns:
        By tier, from the clients to the server; tiers that are not there are left out. They add up to what sharing
        adds in all.
    """
    found: dict[str, float] = {}
    if not sent.counted.any():
        return found
    last = 0.0
    for tier in range(len(TIERS) - 1, -1, -1):
        if not (shared.tier == tier).any():
            continue
        kept = shared.tier >= tier
        total = 0.0
        for start, bits, bps, rates in (
            (sent.down_s, cohort.down_bits, cohort.down_bps, shared.down_bps),
            (sent.up_s, cohort.up_bits, cohort.up_bps, shared.up_bps),
        ):
            tree = Tree(np.where(kept, rates, np.inf), shared.parent, shared.first)
            took = sharing.finish_s(start, bits, bps, tree, sent.stop_s)[sent.counted] - start[sent.counted]
            total += float((took - (bits / bps)[sent.counted]).mean())
        found[TIERS[tier]] = total - last
        last = total
    return found
