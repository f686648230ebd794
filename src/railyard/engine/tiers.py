"""A network folded by symmetry to a few numbers a tier: what of a ring, an exchange or a send crosses it, how hashed.

A *unit* of a tier is what its links join: a leaf with its NICs for the links from leafs to spines, a pod for those to
cores. Which share of the messages of a group leaves its unit depends on how many scale-up domains the group spans, on
the distance between them in rank order and on where servers are; it is counted on the cluster itself, for the sizes
that divide its domains.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Literal

import numpy as np

from railyard.collective.choice import DEFAULT_POLICY
from railyard.collective.connections import connections_opened
from railyard.collective.machine import Shape
from railyard.collective.pat import hops
from railyard.kit.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from railyard.cluster import Cluster, Network
    from railyard.engine.analytic import F

_SIZES = 14
"""Sizes of groups that are counted, at most."""

_AS_FULL = 0.95
"""A unit is as full as the fullest from this share of its load on: the others are seldom the ones that all wait for."""

_EVERY_UNIT = 1.0
"""Share of units that are as full as the fullest, of sends: each is the fullest at some stage."""

PATTERNS = ("ring", "exchange", "send", "pat")
_ALGORITHMS = ("ring", "pairwise", "transfer", "pat")
"""Algorithms whose connections each pattern has."""

Pattern = Literal["ring", "exchange", "send", "pat"]


@dataclass(frozen=True)
class Tiers:
    """One network; arrays over its t tiers, the first of which are the NICs, each a unit of its own.

    Attributes:
        port_bps: Line rate of a NIC's port.
        ports: Of an accelerator; below 1 where some share them.
        ranks: Accelerators of the cluster.
        links: float64[t], links up of a unit.
        units: float64[t], how many there are.
        link_bps: float64[t], what one of them carries: less background traffic, times what the fabric reaches.
        paths: float64[4, d], hashed paths of what a NIC sends to one neighbour, by pattern, for groups with so many
            members in a scale-up domain; 0 where bytes are spread evenly.
        sizes: float64[k], ascending, domains of a group and domains from one to the next.
        crossing: float64[t, 3, 4, k, k]: the share of what NICs send to other domains that leaves their unit, on
            average; the same out of the fullest unit, which may have more NICs than the mean one, as a share of what a
            mean one's NICs send; and the share of units that are as full as it. By pattern, for groups of
            `sizes[second]` domains at a distance of `sizes[first]` domains. Of sends the second is that of one stage
            at a time.
    """

    names: tuple[str, ...]
    port_bps: float
    ports: float
    ranks: int
    links: F
    units: F
    link_bps: F
    paths: F
    sizes: F
    crossing: F

    @classmethod
    def of(cls, cluster: Cluster) -> Tiers:
        """The back-end of a cluster, in the order in which it numbers its servers.

        Raises:
            InputError: Switches are not alike (a dragonfly, a torus): their links carry more than what leaves a unit.
        """
        network = cluster.back_end
        owned = np.unique(network.port_of_rank).size
        out = network.port_links(int(network.port_of_rank[0, 0]))[0]
        found = [_Tier.of(cluster, number) for number in _numbers(network)]
        units = np.array([owned, *(tier.units for tier in found)], np.float64)
        links = np.array([owned, *(tier.links for tier in found)], np.float64)
        up_bps = cluster.links.rate_bps[out].sum() * units[0]
        domains = np.arange(0, cluster.ranks - cluster.ranks % cluster.scale_up_domain, cluster.scale_up_domain)
        every = [np.arange(len(domains)), *(tier.unit_of_rank[domains] for tier in found)]
        sizes = _sizes(len(domains))
        return cls(
            names=tuple(tier.name for tier in network.tiers[: len(every)]),
            port_bps=float(cluster.links.line_bps[out].sum()),
            ports=owned / cluster.ranks,
            ranks=cluster.ranks,
            links=links / units,
            units=units,
            link_bps=np.array([up_bps, *(tier.up_bps for tier in found)]) / links,
            paths=_paths(cluster),
            sizes=np.array(sizes, np.float64),
            crossing=_crossings(every, sizes),
        )


def _paths(cluster: Cluster) -> F:
    """float64[4, domain + 1], see `Tiers.paths`; of all queue pairs of all connections that the library opens."""
    fabric, domain = cluster.fabric, cluster.scale_up_domain
    found = np.zeros((len(PATTERNS), domain + 1))
    if not fabric.hashed:
        return found
    found[:] = fabric.paths
    domains = cluster.ranks // domain
    if not fabric.tells_queue_pairs_apart or not domains:
        return found
    for local in range(1, domain + 1):
        shape = Shape.grid(domains, local, scale_up=cluster.scale_up.kind)
        for pattern, algorithm in enumerate(_ALGORITHMS):
            if algorithm == "pat" and local > 1:  # it needs one rank in each domain
                continue
            found[pattern, local] *= connections_opened(cluster, shape, algorithm, DEFAULT_POLICY)
    return found


def _numbers(network: Network) -> range:
    """Tiers of links above those of the NICs."""
    if network.fabric.load_balancing == "ideal":
        return range(0)
    if network.wiring.classes is None:
        raise InputError(
            "contention in closed form knows networks of leafs, spines and cores",
            key="back_end.topology",
            found=network.topology,
            hint="the engine `flow` knows every topology",
        )
    return range(1, len(network.wiring.tiers))


@dataclass(frozen=True)
class _Tier:
    """Links of one tier and the units below them.

    Attributes:
        unit_of_rank: int64[ranks], by the first NIC of each.
        units: How many units have ranks.
        links: One way, up from these.
        up_bps: All of them together.
    """

    unit_of_rank: NDArray[np.int64]
    units: int
    links: int
    up_bps: float

    @classmethod
    def of(cls, cluster: Cluster, number: int) -> _Tier:
        network = cluster.back_end
        wiring = network.wiring
        unit = _joined(wiring.nodes, wiring.source, wiring.target, wiring.tier < number)
        of_rank = unit[network.port_of_rank[:, 0]]
        used = np.unique(unit[network.port_of_rank])
        up = np.flatnonzero((wiring.tier == number) & np.isin(unit[wiring.source], used))
        rate = cluster.links.rate_bps[network.link_offset + up]
        return cls(of_rank, len(used), len(up), float(rate.sum()))


def _joined(
    nodes: int, source: NDArray[np.int32], target: NDArray[np.int32], chosen: NDArray[np.bool_]
) -> NDArray[np.int64]:
    """int64[nodes], the lowest node that each is joined to by the chosen links."""
    lowest = np.arange(nodes)
    source, target = source[chosen], target[chosen]
    while True:
        before = lowest.copy()
        np.minimum.at(lowest, target, lowest[source])
        if np.array_equal(before, lowest):
            return lowest


def _sizes(domains: int) -> list[int]:
    """Divisors; of very many, some that are evenly spaced in logarithms."""
    found = [each for each in range(1, domains + 1) if domains % each == 0] or [1]
    if len(found) <= _SIZES:
        return found
    logs = np.log(found)
    wanted = np.linspace(0.0, logs[-1], _SIZES)
    return [found[at] for at in np.unique(np.abs(logs[:, None] - wanted).argmin(axis=0))]


def _crossings(units: Sequence[NDArray[np.int64]], sizes: Sequence[int]) -> F:
    """float64[t, 3, 4, k, k], see `Tiers.crossing`."""
    numbers = (np.unique(unit, return_inverse=True)[1].ravel().astype(np.int64) for unit in units)
    return np.array([_crossing(number.tobytes(), tuple(sizes)) for number in numbers])


@lru_cache(maxsize=64)
def _crossing(units: bytes, sizes: tuple[int, ...]) -> F:
    """float64[3, 4, k, k] of one tier, given the units of its domains; networks that differ in rates share it.

    Groups that do not fit are like the largest that do.
    """
    number = np.frombuffer(units, np.int64)
    found = np.zeros((3, len(PATTERNS), len(sizes), len(sizes)))
    for hop, apart in enumerate(sizes):
        for wide, many in enumerate(sizes):
            if apart * many <= len(number):
                found[..., hop, wide] = _shares(number, apart, many)
            else:
                nearest = (hop, wide - 1) if wide > 1 else (hop - 1, wide)
                found[..., hop, wide] = found[..., nearest[0], nearest[1]]
    return found


def _shares(unit: NDArray[np.int64], hop: int, wide: int) -> F:
    """float64[3, 4], of groups of `wide` domains at a distance of `hop`, placed next to one another."""
    if wide == 1:
        return np.zeros((3, len(PATTERNS)))
    blocks = len(unit) // (hop * wide)
    groups = unit[: blocks * hop * wide].reshape(blocks, wide, hop)
    size = np.bincount(groups.ravel(), minlength=int(unit.max()) + 1)
    ring = _leaving(groups, 1)
    near = _in_unit(groups) - 1.0
    leaving = [ring, 1.0 - near / (wide - 1), _trees(groups)]
    by_unit = [np.bincount(groups.ravel(), each.ravel(), minlength=len(size)) for each in leaving]
    larger = np.bincount(unit, minlength=len(size)) * len(size) / len(unit)  # the last leaf is seldom full
    share = larger / np.maximum(size, 1)
    sends, at_once = _sends(groups, share)
    full = [each * share for each in by_unit]
    most = [float(each.max()) for each in full]
    alike = [float(np.mean(each >= _AS_FULL * each.max())) for each in full]
    mean = [float(each.mean()) for each in leaving]
    return np.array([[*mean[:2], sends, mean[2]], [*most[:2], at_once, most[2]], [*alike[:2], _EVERY_UNIT, alike[2]]])


def _leaving(groups: NDArray[np.int64], distance: int) -> F:
    """float64[blocks, wide, hop], 1 where the domain that is so far on in the group is in another unit."""
    found: F = (groups != np.roll(groups, -distance, axis=1)).astype(np.float64)
    return found


def _trees(groups: NDArray[np.int64]) -> F:
    """float64[blocks, wide, hop], share of the bytes of aggregated trees that leaves: near neighbours get most."""
    steps = hops(groups.shape[1])
    sent = sum((len(offsets) * _leaving(groups, distance) for distance, offsets in steps), np.zeros(groups.shape))
    found: F = sent / sum(len(offsets) for _, offsets in steps)
    return found


def _in_unit(groups: NDArray[np.int64]) -> F:
    """float64[blocks, wide, hop], domains of a group in the unit of each of its domains."""
    blocks, _, hop = groups.shape
    number = np.arange(blocks * hop).reshape(blocks, 1, hop)
    _, at, count = np.unique(number * (groups.max() + 1) + groups, return_inverse=True, return_counts=True)
    found: F = count[at].reshape(groups.shape).astype(np.float64)
    return found


def _sends(groups: NDArray[np.int64], share: F) -> tuple[float, float]:
    """Sends to the next of a group that leave their unit: of all, and of one stage at a time out of or into a unit.

    Args:
        groups: Units of the domains of groups.
        share: float64[units], what one domain is of a unit, times the unit's size over the mean one's.
    """
    source, target = groups[:, :-1], groups[:, 1:]
    away = source != target
    stage = np.broadcast_to(np.arange(source.shape[1])[None, :, None], source.shape)
    most = 0.0
    for end in (source, target):
        met, count = np.unique((stage * len(share) + end)[away], return_counts=True)
        most = max(most, float((count * share[met % len(share)]).max(initial=0.0)))
    return float(away.mean()), most
