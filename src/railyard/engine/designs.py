"""Contention of thousands of designs at once: classes of traffic on tiers of networks, as arrays.

A design is a network and the classes of communicators of a job on it. Each class has its bytes a step, its pattern and
its place in rank order; what a class meets is a sum over the others, so that no design is looked at by itself.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from railyard.engine.analytic import fullest, slowdown
from railyard.engine.tiers import PATTERNS

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from railyard.engine.analytic import F
    from railyard.engine.tiers import Pattern, Tiers


@dataclass(frozen=True)
class DesignNetworks:
    """Networks of d designs; t tiers, those that a network lacks carry everything.

    Attributes:
        index: int64[d], which network each design has.
        port_bps: float64[networks].
        ports: float64[networks], NIC ports of an accelerator.
        ranks: float64[networks].
        links: float64[networks, t].
        units: float64[networks, t].
        link_bps: float64[networks, t].
        paths: float64[networks, 4, l], by pattern, for groups with so many members in a scale-up domain.
        sizes: float64[networks, k], logarithms of the sizes that `crossing` has, ascending.
        crossing: float64[networks, t, 3, 4, k, k], see `Tiers.crossing`.
    """

    index: NDArray[np.int64]
    port_bps: F
    ports: F
    ranks: F
    links: F
    units: F
    link_bps: F
    paths: F
    sizes: F
    crossing: F

    @classmethod
    def of(cls, tiers: Sequence[Tiers], index: NDArray[np.int64]) -> DesignNetworks:
        """Different networks side by side.

        Args:
            tiers: Each network once.
            index: int64[d], the network of each design.
        """
        most = max(len(each.names) for each in tiers)
        wide = max(each.crossing.shape[-1] for each in tiers)
        near = max(each.paths.shape[1] for each in tiers)

        def column(name: str) -> F:
            return np.array([float(getattr(each, name)) for each in tiers])

        def padded(name: str, fill: float) -> F:
            rows = [np.append(getattr(each, name), np.full(most - len(each.names), fill)) for each in tiers]
            return np.array(rows, np.float64)

        return cls(
            index=np.asarray(index, np.int64),
            port_bps=column("port_bps"),
            ports=column("ports"),
            ranks=column("ranks"),
            links=padded("links", 1.0),
            units=padded("units", 1.0),
            link_bps=padded("link_bps", np.inf),
            paths=np.array(
                [np.pad(each.paths, ((0, 0), (0, near - each.paths.shape[1])), mode="edge") for each in tiers]
            ),
            sizes=np.array([_lengthened(np.log(each.sizes), wide) for each in tiers]),
            crossing=np.array([_grown(each.crossing, most, wide) for each in tiers]),
        )


def oversubscription(networks: Tiers | DesignNetworks) -> F:
    """float64[..., t], what the NICs below a unit can send over what its links carry; of one network or of several."""
    sent = np.asarray(networks.ranks * networks.ports * networks.port_bps)[..., None]
    found: F = sent / (networks.units * networks.links * networks.link_bps)
    return found


def _lengthened(sizes: F, wide: int) -> F:
    """The table with places behind the largest size, where nothing changes any more."""
    return np.concatenate([sizes, sizes[-1] + np.arange(1.0, wide - len(sizes) + 1)])


def _grown(crossing: F, tiers: int, wide: int) -> F:
    """The table with room for more tiers, which nothing crosses, and for larger groups, which are like the largest."""
    more = wide - crossing.shape[-1]
    same = (0, 0)
    grown = np.pad(crossing, (same, same, same, (0, more), (0, more)), mode="edge")
    return np.pad(grown, ((0, tiers - len(crossing)), same, same, same, same))


@dataclass(frozen=True)
class Classes:
    """Classes of communicators, c of each of d designs. Times are those of one step at full speed, of one accelerator.

    Attributes:
        patterns: How each class talks.
        paced: bool[c], whether the groups of a class drift, rather than start all at once.
        queues: int64[c]; classes of one queue take turns on an accelerator's links, those of different ones meet there.
        domains: float64[d, c], scale-up domains that a group spans.
        hop: float64[d, c], domains from one of them to the next.
        local: float64[d, c], members of a group in one domain.
        inside_s: float64[d, c], of its bytes on scale-up links.
        outside_s: float64[d, c], of its bytes on NICs.
        ranks: float64[d], accelerators of the job.
        aggregated: float64[d, c], share of the bytes on NICs that aggregated trees (PAT) move instead of the pattern.
        contended: float64[d, c], share of the step in which classes of other queues may run too.
        hidden: float64[d, c], share of its time, at most, in which it can.
        lockstep: bool[d], whether all accelerators do the same at a time: there is one stage.
    """

    patterns: tuple[Pattern, ...]
    paced: NDArray[np.bool_]
    queues: NDArray[np.int64]
    domains: F
    hop: F
    local: F
    inside_s: F
    outside_s: F
    ranks: F
    aggregated: F
    contended: F
    hidden: F
    lockstep: NDArray[np.bool_]


@dataclass(frozen=True)
class Stretch:
    """Slowdown of communications over each with the network to itself.

    Attributes:
        inside: float64[d, c], on scale-up links.
        outside: float64[d, c], on NICs and the network.
        aggregated: float64[d, c], the same of what aggregated trees move.
        demand: float64[d, c, t], share of a tier's busiest link that a class asks for at full speed, by its pattern.
        utilization: float64[d, t], mean over the step of all links of a tier, all classes together.
    """

    inside: F
    outside: F
    aggregated: F
    demand: F
    utilization: F


def contention(
    networks: DesignNetworks,
    classes: Classes,
    step_s: F,
    others: F | None = None,
    demand: tuple[NetworkDemand, NetworkDemand] | None = None,
) -> Stretch:
    """Slowdowns of classes by one another, by collisions of hashed flows and by oversubscription.

    A class runs on all its accelerators at once, for a share of the step; it meets others for their shares. Classes of
    one queue take turns on an accelerator's links; on those between switches, which accelerators share, they meet where
    accelerators are at different stages.

    Args:
        networks: Of the designs.
        classes: Of their jobs.
        step_s: float64[d], over which the bytes of a step are spread.
        others: float64[d, t], utilization of the tiers by other jobs; None: there are none.
        demand: Of the classes on the networks, where it is known.
    """
    plain, trees = (each.paced(classes, step_s) for each in demand or NetworkDemand.both(networks, classes))
    part = classes.aggregated
    busy = np.minimum(1.0, classes.outside_s * _mean(plain.full, trees.full, part) / step_s[:, None])
    taken = busy[:, :, None] * _mean(np.minimum(plain.demand, 1.0), np.minimum(trees.demand, 1.0), part[:, :, None])
    turns = classes.queues[:, None] == classes.queues[None, :]
    met = _met(classes, taken, busy, turns)
    if others is not None:
        met = met + others[:, None, :]
    inside = _inside(classes, turns, step_s)
    spread = _mean(plain.spread, trees.spread, part[:, :, None])
    share = (classes.outside_s / step_s[:, None])[:, :, None] * spread
    utilization = share.sum(axis=1) * oversubscription(networks)[networks.index]
    return Stretch(inside, plain.slower(met), trees.slower(met), plain.demand, utilization)


@dataclass(frozen=True)
class NetworkDemand:
    """Demand of classes on the network when each moves all its bytes by one pattern.

    Attributes:
        spread: float64[d, c, t], share of the bytes that leaves its unit.
        demand: float64[d, c, t], share of a tier's busiest link at full speed.
    """

    spread: F
    demand: F

    @classmethod
    def both(cls, networks: DesignNetworks, classes: Classes) -> tuple[NetworkDemand, NetworkDemand]:
        """Contention by the patterns of the classes, and by aggregated trees; groups start together."""
        patterns = np.array([PATTERNS.index(each) for each in classes.patterns])
        plain, trees = (
            cls(spread, _demand(networks, classes, each, most, full))
            for each in (patterns, np.full_like(patterns, PATTERNS.index("pat")))
            for spread, most, full in [_crossed(networks, classes, each)]
        )
        return plain, trees

    def paced(self, classes: Classes, step_s: F) -> NetworkDemand:
        """The same for groups that drift: the demand of a queue that shares its processor, 1 / (1 - load).

        Groups that start together collide, those that lose come later the next time, and then meet no more than by
        chance.
        """
        demand = self.demand
        load = demand * (classes.outside_s / step_s[:, None])[:, :, None]
        met = np.minimum(1.0 / np.maximum(1.0 - load, 1e-9), demand)
        drifting = classes.paced[None, :, None] & (demand > 1.0)
        return NetworkDemand(self.spread, np.where(drifting, np.maximum(met, 1.0), demand))

    @property
    def full(self) -> F:
        """float64[d, c], how many times longer a class by itself takes."""
        found: F = np.maximum(1.0, self.demand.max(axis=2))
        return found

    def slower(self, met: F) -> F:
        """float64[d, c], the same among others."""
        found: F = slowdown(self.demand * (1.0 + met)).max(axis=2)
        return found


def _met(classes: Classes, taken: F, busy: F, turns: NDArray[np.bool_]) -> F:
    """float64[d, c, t], what others take of a tier while a class runs; those of its queue do so between switches alone.

    Not even there where all accelerators do the same at a time.
    """
    inside = np.minimum(classes.hidden, np.divide(classes.contended, busy, out=np.ones_like(busy), where=busy > 0))
    together = np.minimum(inside[:, :, None], inside[:, None, :])
    others = np.einsum("dkt,dck->dct", taken, together * ~turns)
    met: F = others + np.where(classes.lockstep[:, None, None], 0.0, np.einsum("dkt,ck->dct", taken, turns) - taken)
    met[:, :, 0] = others[:, :, 0]
    return met


def _mean(plain: F, trees: F, part: F) -> F:
    return (1.0 - part) * plain + part * trees


def _inside(classes: Classes, turns: NDArray[np.bool_], step_s: F) -> F:
    """Scale-up links: what others carry there, where a class would have them to itself otherwise."""
    slower = np.maximum(classes.inside_s, classes.outside_s)
    asked = np.divide(classes.inside_s, slower, out=np.zeros_like(slower), where=slower > 0)
    met = np.minimum(classes.inside_s / step_s[:, None], 1.0) @ ~turns
    return slowdown(asked * (1.0 + met))


def _crossed(networks: DesignNetworks, classes: Classes, pattern: NDArray[np.int64]) -> tuple[F, F, F]:
    """float64[d, c, t], shares of the bytes of a class that leave their unit, on average and at most, and how many do.

    The last is the share of units that are as full as the fullest. Between counted sizes by logarithms.
    """
    most = networks.crossing.shape[-1] - 1
    low, rest = zip(*(_between(networks, each) for each in (classes.hop, classes.domains)), strict=True)
    found = np.zeros((*classes.hop.shape, networks.links.shape[1], 3))
    for far in (0, 1):
        for large in (0, 1):
            part = _weight(rest[0], far) * _weight(rest[1], large)
            at = [np.minimum(each + step, most) for each, step in zip(low, (far, large), strict=True)]
            table = networks.crossing[networks.index[:, None], :, :, pattern[None, :], at[0], at[1]]
            found += part[:, :, None, None] * table
    found *= (classes.outside_s > 0)[:, :, None, None]
    return found[..., 0], found[..., 1], found[..., 2]


def _between(networks: DesignNetworks, size: F) -> tuple[NDArray[np.int64], F]:
    """int64[d, c], the last counted size that is not larger, and the share of the logarithm to the next one."""
    sizes, wanted = networks.sizes[networks.index], np.log(np.maximum(size, 1.0))
    last = sizes.shape[1] - 1
    low = np.clip(np.sum(sizes[:, None, :] <= wanted[:, :, None] + 1e-9, axis=2) - 1, 0, max(last - 1, 0))
    begin, end = (np.take_along_axis(sizes, np.minimum(low + step, last), axis=1) for step in (0, 1))
    part = np.divide(wanted - begin, end - begin, out=np.zeros_like(wanted), where=end > begin)
    return low, np.clip(part, 0.0, 1.0)


def _weight(part: F, upper: int) -> F:
    return part if upper else 1.0 - part


def _demand(networks: DesignNetworks, classes: Classes, pattern: NDArray[np.int64], crossed: F, full: F) -> F:
    """float64[d, c, t], share of the busiest link of a tier that a class takes when all its accelerators send.

    The fullest link is one of the links up from, or down to, the units that are as full as the fullest one.

    An accelerator of an exchange sends to all other domains, of aggregated trees to log2(n), half of its bytes to the
    first and a quarter to the second: as unevenly as to 3 (n - 1) / (n + 1) alike (square of the sum over sum of
    squares).
    """
    index = networks.index
    links, units, link_bps = (each[index][:, None, :] for each in (networks.links, networks.units, networks.link_bps))
    ports, port_bps, ranks = (
        each[index][:, None, None] for each in (networks.ports, networks.port_bps, networks.ranks)
    )
    local = np.minimum(classes.local.astype(np.int64), networks.paths.shape[2] - 1)
    paths = networks.paths[index[:, None], pattern[None, :], local][:, :, None]
    others = np.maximum(classes.domains - 1.0, 1.0)
    alike = np.where(pattern == PATTERNS.index("pat"), 3.0 * others / (others + 2.0), 1.0)
    peers = np.where(pattern == PATTERNS.index("exchange"), others, alike)[:, :, None]
    below = ranks * ports / units
    split = np.maximum(paths, 1.0) * peers
    used = units * np.minimum(classes.ranks[:, None, None] / ranks, 1.0)
    even = below * crossed / links
    fullest_link = fullest(below * crossed * split, links, 2.0 * np.maximum(used * full, 1.0)) / split
    hashed = (paths > 0) & (crossed > 0)
    found: F = np.where(hashed, np.maximum(fullest_link, even), even) * port_bps / link_bps
    return found
