"""A population of clients: shares of devices, links and regions. Only clients that are needed are drawn."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from railyard.cluster.edge import transport
from railyard.cluster.edge.transport import ClientPaths, paths

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from railyard.catalog.types import AccessLink, Device
    from railyard.cluster.edge.transport import Floats, Ids, Presence


_REGIONS = 1 << 20
"""More than the number of regions, so that concentrator numbers of different kinds never collide."""


class Population(Protocol):
    """What the network needs to know of clients; see `railyard.cluster.edge.clients.Clients`."""

    @property
    def count(self) -> int:
        """Number of clients."""

    @property
    def seed(self) -> int:
        """Seed of each client's own draws."""

    @property
    def links(self) -> tuple[tuple[Any, float], ...]:
        """Access links with the share of each."""

    @property
    def regions(self) -> tuple[Any, ...]:
        """Regions, each with its `share`."""


@dataclass(frozen=True)
class SharedUplink:
    """A link that several clients share, minus the capacity taken by other users.

    Attributes:
        up_bps: Towards the server, ONE WAY.
        down_bps: Towards the clients.
    """

    up_bps: float
    down_bps: float


@dataclass(frozen=True)
class AccessNetwork:
    """The shared tree between access links and the server's line.

    Attributes:
        concentrators: By access link: clients of the population per concentrator, and its uplink.
        sites: Edge sites in every region, and the uplink of each; None: no edge sites.
        backbones: By region: its link to the server; None: unlimited.
    """

    concentrators: tuple[tuple[int, SharedUplink] | None, ...] = ()
    sites: tuple[int, SharedUplink] | None = None
    backbones: tuple[SharedUplink | None, ...] = ()

    @property
    def shares(self) -> bool:
        """Whether any link is shared."""
        return any(self.concentrators) or self.sites is not None or any(self.backbones)

    def concentrators_of(
        self, clients: Population, who: Ids, links: NDArray[np.intp], regions: NDArray[np.intp]
    ) -> NDArray[np.int64]:
        """int64[clients], global number of each client's concentrator; -1: its access has none.

        Clients with the same kind of link in one region are distributed evenly by hash, so that each concentrator
        serves the given number of clients.
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
            number = np.floor(transport.uniform(clients.seed, "concentrator", who[rows]) * count).astype(np.int64)
            found[rows] = (number * _REGIONS + regions[rows]) * len(self.concentrators) + kind
        return found

    def sites_of(
        self, clients: Population, who: Ids, concentrators: NDArray[np.int64], regions: NDArray[np.intp]
    ) -> NDArray[np.int64]:
        """int64[clients], global number of each client's edge site; -1: none. A concentrator belongs to one site."""
        if self.sites is None:
            return np.full(len(who), -1, np.int64)
        each = self.sites[0]
        alone = transport.uniform(clients.seed, "edge site", who)
        together = transport.uniform(clients.seed, "edge site of concentrator", concentrators)
        place = np.floor(np.where(concentrators < 0, alone, together) * each).astype(np.int64)
        found: NDArray[np.int64] = regions * each + np.minimum(place, each - 1)
        return found


_MOST_TRIES = 64
"""Batches of candidates before a round reports a lack of clients."""


@dataclass(frozen=True)
class Region:
    """Clients in one part of the world.

    Attributes:
        name: Name in tables.
        share: Share of all clients.
        offset_s: Offset of its time zone from UTC.
        far_s: ROUND TRIP from the end of an access link there to the server.
        loss: Packet loss on the way from there, in addition to the access link's.
    """

    name: str
    share: float
    offset_s: float
    far_s: float
    loss: float = 0.0


@dataclass(frozen=True, eq=False)
class Clients:
    """A population of independent clients from the same mixture.

    Attributes:
        count: Number of clients.
        devices: Devices with their shares, which sum to 1.
        links: Access links with their shares, which sum to 1.
        regions: Regions; their shares sum to 1.
        presence: When clients are available.
        mean_samples: Mean number of training samples per client.
        sample_spread: Standard deviation of its logarithm.
        able: Whether each device has the memory to take part.
        network: Shared links on the way to the server.
    """

    count: int
    devices: tuple[tuple[Device, float], ...]
    links: tuple[tuple[AccessLink, float], ...]
    regions: tuple[Region, ...]
    presence: Presence
    mean_samples: float
    sample_spread: float
    seed: int
    able: tuple[bool, ...] = ()
    network: AccessNetwork = field(default_factory=AccessNetwork)

    @property
    def able_share(self) -> float:
        """Share of the clients whose device may take part."""
        total = sum(share for _, share in self.devices)
        return sum(share for (_, share), able in zip(self.devices, self._able, strict=True) if able) / total

    @property
    def _able(self) -> tuple[bool, ...]:
        return self.able or (True,) * len(self.devices)

    def devices_of(self, who: Ids) -> NDArray[np.intp]:
        """Index of each client's device."""
        return _drawn(self.seed, "device", who, [share for _, share in self.devices])

    def links_of(self, who: Ids) -> NDArray[np.intp]:
        """Index of each client's access link."""
        return _drawn(self.seed, "access", who, [share for _, share in self.links])

    def regions_of(self, who: Ids) -> NDArray[np.intp]:
        """Index of each client's region."""
        return _drawn(self.seed, "region", who, [region.share for region in self.regions])

    def flops(self, who: Ids, devices: NDArray[np.intp]) -> Floats:
        """float64[clients], training FLOP/s: the median of its class times the device's own factor."""
        middle = np.array([max(device.flops.values()) * device.training_efficiency for device, _ in self.devices])
        spread = np.array([device.spread for device, _ in self.devices])
        out: Floats = middle[devices] * np.exp(spread[devices] * transport.normal(self.seed, "speed", who))
        return out

    def samples(self, who: Ids) -> Floats:
        """float64[clients], training samples: log-normal with the given mean, at least 1."""
        sigma = self.sample_spread
        drawn = np.exp(sigma * transport.normal(self.seed, "samples", who) - sigma * sigma / 2.0)
        return np.maximum(np.rint(self.mean_samples * drawn), 1.0)

    def paths(self, who: Ids, links: NDArray[np.intp], regions: NDArray[np.intp], at_s: float) -> ClientPaths:
        """Paths between clients and the server at a time, seconds."""
        far = np.array([region.far_s for region in self.regions])[regions]
        lost = np.array([region.loss for region in self.regions])[regions]
        found = [np.zeros(len(who)) for _ in range(4)]
        for kind in np.unique(links):
            rows = np.flatnonzero(links == kind)
            link = self.links[kind][0]
            one = paths(link, self.seed, who[rows], at_s, far[rows])
            for column, values in zip(found, (one.down_bps, one.up_bps, one.rtt_s, one.loss), strict=True):
                column[rows] = values
        found[3] = 1.0 - (1.0 - found[3]) * (1.0 - lost)
        return ClientPaths(*found)

    def there(self, who: Ids, regions: NDArray[np.intp], now_s: float) -> NDArray[np.bool_]:
        """bool[clients], who is available at a time, seconds of UTC."""
        offset = np.array([region.offset_s for region in self.regions])[regions]
        out: NDArray[np.bool_] = self.presence.there(self.seed, who, now_s, offset)
        return out if all(self._able) else out & np.array(self._able)[self.devices_of(who)]

    def share_there(self, now_s: float) -> float:
        """Probability that a client is available and able at a time, seconds of UTC."""
        offset = np.array([region.offset_s for region in self.regions])
        share = np.array([region.share for region in self.regions])
        return self.able_share * float((share * self.presence.share(now_s + offset)).sum() / share.sum())

    def draw(self, wanted: int, now_s: float, number: int) -> Ids:
        """Draws clients uniformly without replacement from those available.

        Candidates are drawn uniformly from all clients and skipped if they are unavailable or already drawn. The result
        is a uniform sample of those available, whatever the population's size.

        Args:
            wanted: Number of clients.
            now_s: Seconds of UTC.
            number: Number of the round; each has its own draw.

        Returns:
            int64, `wanted` of them, or fewer if not enough are available.
        """
        random = np.random.Generator(np.random.Philox(key=np.array([self.seed, number], np.uint64)))
        if wanted * 4 >= self.count * self.share_there(now_s):
            everyone = np.arange(self.count)
            here = everyone[self.there(everyone, self.regions_of(everyone), now_s)]
            if len(here) > wanted:
                here = np.sort(random.permutation(here)[:wanted])  # in their order: columns are read in theirs
            return here
        found = np.zeros(0, np.int64)
        for _ in range(_MOST_TRIES):
            batch = int(1.2 * (wanted - len(found)) / self.share_there(now_s)) + 16
            some = random.integers(0, self.count, batch)
            some = some[self.there(some, self.regions_of(some), now_s)]
            together = np.concatenate([found, some])
            found = together[np.sort(np.unique(together, return_index=True)[1])]
            if len(found) >= wanted:
                return found[:wanted]
        return found


def _drawn(seed: int, stream: str, who: Ids, shares: list[float]) -> NDArray[np.intp]:
    """Kind of each client."""
    edges = np.cumsum(shares)[:-1] / np.sum(shares)
    drawn = transport.uniform(seed, stream, who)
    found = np.zeros(len(drawn), np.intp)
    for edge in edges:  # a few vectorized comparisons beat a search per client
        found += drawn >= edge
    return found
