"""Failures of links by part: the rates, blast radius and repairs that the catalogue has of cables, modules and lasers.

Each tier of the back-end has ends: the lower one at a NIC or switch, the upper one at a switch. A part breaks, a
connector is dirty, or the link flaps. Where a NIC has no second link, its node is out until the repair, and a flap
kills the job if it is longer than the NIC's retries. Elsewhere the fabric routes around it and jobs only stall.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from statistics import NormalDist
from typing import TYPE_CHECKING

import numpy as np

from railyard.cluster.hall.racks import purchased
from railyard.kit.errors import InputError
from railyard.work.operate.failures.fault import HOURS, QUICK, Effect, FailureMode
from railyard.work.operate.rules import sigma

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

    from railyard.catalog import Cable
    from railyard.catalog.types import Range
    from railyard.cluster import Cluster
    from railyard.cluster.boxes import CableRun
    from railyard.cluster.fault.recovery import Recovery
    from railyard.work.operate.section import LinksSection
    from railyard.work.operate.tree import NodeTree

PER_1000_DAYS = 1e-9 * 24 * 1000
"""Failures in a thousand days of a part of 1 FIT."""

DRIFT_S = 24 * HOURS
"""From the first corrupted packets until the link fails: an assumption, no fleet publishes it."""
WATCHED_S = 1 * HOURS
"""Until a watcher of bit-error counters drains such a link: an assumption."""
CORRUPTED = 0.99
"""Speed of a job with such a link, without link-level retry: at a loss of 1e-4 go-back-N with 500 packets in flight
keeps 95 % of the rate, and a fifth of a step waits for the network; both are assumptions."""
SPARED = 0.58
"""Share of a module's failures that one lane has (laser, driver, amplifier, photodiode): a vendor's table of FIT."""
CLEANING_S = 0.5 * HOURS
"""Work of a technician who cleans and reseats a connector, the walk in: an assumption."""
QUANTILES = 2000
"""Points at which the length of flaps is integrated."""


@dataclass(frozen=True)
class _Ends:
    """One kind of part of a tier.

    Attributes:
        tier: Names of the tier and of the part.
        count: Link ends that such parts serve.
        groups: Nodes that lose a NIC link when a part fails; empty: it is between switches.
        cut: Whether those NICs have no other link.
    """

    tier: str
    part: Cable
    count: int
    groups: tuple[tuple[int, ...], ...]
    cut: bool


def flap_outcome(median_s: float, p90_s: float, retries: Recovery) -> tuple[float, float]:
    """Share of flaps that kill a job, and the mean stall of the others in s.

    Args:
        median_s: Median of their log-normal length.
        p90_s: 90th percentile of it.
        retries: Retries of the NICs.
    """
    points = [NormalDist().inv_cdf((number + 0.5) / QUANTILES) for number in range(QUANTILES)]
    stalls = [retries.stall_s(median_s * math.exp(sigma(median_s, p90_s) * point)) for point in points]
    survived = [stall for stall in stalls if stall is not None]
    return 1 - len(survived) / QUANTILES, sum(survived) / max(len(survived), 1)


def link_modes(
    cluster: Cluster, tree: NodeTree, retries: Recovery, mitigations: LinksSection
) -> tuple[FailureMode, ...]:
    """Failure modes of all links of the back-end.

    Raises:
        InputError: The catalogue has no part for a tier, or no failure rate of it.
    """
    wage = cluster.catalog.price("technician").range
    found: list[FailureMode] = []
    for ends in _ends(cluster):
        part = ends.part
        if part.failures is None:
            raise InputError(f"the catalogue has no failure rate of {part.name}, of the {ends.tier} links", key="links")
        made = _Modes(ends, tree, retries, mitigations, wage)
        found += [*made.broken(), *made.dirty(), *made.flapping(), *made.swapped(cluster)]
    return tuple(mode for mode in found if mode.per_1000_node_days > 0)


def _ends(cluster: Cluster) -> Iterator[_Ends]:
    plan = purchased(cluster)["back_end"]
    wiring = plan.wiring
    for index, (tier, run) in enumerate(zip(wiring.tiers, plan.runs, strict=True)):
        links = np.flatnonzero((wiring.tier == index) & (wiring.source < wiring.target))
        if tier.kind == "access":
            links = links[np.isin(wiring.source[links], wiring.port_of)]
        if not len(links):
            continue
        yield from _of_tier(cluster, links, tier.name, run, access=tier.kind == "access")


def _of_tier(cluster: Cluster, links: NDArray[np.int64], name: str, run: CableRun, *, access: bool) -> Iterator[_Ends]:
    """The parts at both ends of a tier. Links of a switch share its parts in the order of their ports."""
    if run.cable is None or run.far is None:
        raise InputError(f"the catalogue has no part for the {name} links", key="links")
    count = {run.cable: len(links)}
    count[run.far] = count.get(run.far, 0) + len(links)
    if run.lasers is not None:
        count[run.lasers] = len(links) if run.upper is not None else 2 * len(links)
    for part, ends in count.items():
        groups, cut = _groups(cluster, links, part.failed_ports) if access else ((), False)
        yield _Ends(f"{name} {part.name}", part, ends, groups, cut)


def _groups(cluster: Cluster, links: NDArray[np.int64], each: int) -> tuple[tuple[tuple[int, ...], ...], bool]:
    """Nodes of every `each` NIC links of a switch, and whether their NICs have no other link."""
    wiring = cluster.plans["back_end"].wiring
    server = np.full(wiring.ports, -1, np.int64)
    server[wiring.port_of] = np.arange(len(wiring.port_of))[:, None]
    port, switch = wiring.source[links], wiring.target[links]
    order = np.lexsort((links, switch))
    port, switch = port[order], switch[order]
    first = np.searchsorted(switch, switch)
    number = switch.astype(np.int64) * len(links) + (np.arange(len(switch)) - first) // each
    several = np.bincount(port, minlength=wiring.ports)
    cuts = np.split(np.arange(len(port)), np.flatnonzero(np.diff(number)) + 1)
    groups = tuple(tuple(np.unique(server[port[some]]).tolist()) for some in cuts)
    return groups, bool((several[port] == 1).all())


@dataclass(frozen=True)
class _Modes:
    """Failure modes of one kind of part of a tier."""

    ends: _Ends
    tree: NodeTree
    retries: Recovery
    mitigations: LinksSection
    wage: Range

    def broken(self) -> Iterator[FailureMode]:
        """A part breaks and is replaced; with spare lanes, most parts run on until then."""
        part = self.ends.part
        assert part.failures is not None
        fit, priced = part.failures.typical, part.price_usd + self._labour(part.hands_s)
        spared = SPARED if self.mitigations.spare_lanes and part.kind in ("optic", "laser") else 0.0
        base = replace(
            self._mode("breaks", fit * (1 - spared), (part.repair_s.typical, part.repair_s.high)),
            work_s=part.hands_s,
            repair_usd=priced,
        )
        yield from self._announced(base)
        if spared:
            worn = replace(base, name=f"{self.ends.tier} on its spare lane", effect=Effect.STALL, stall_s=0.0)
            yield replace(worn, per_1000_node_days=base.per_1000_node_days * spared / (1 - spared))

    def dirty(self) -> Iterator[FailureMode]:
        """A connector is dirty or loose, and is cleaned."""
        base = self._mode("is dirty", self.ends.part.dirt.typical, QUICK, single=True)
        yield from self._announced(replace(base, work_s=CLEANING_S, repair_usd=self._labour(CLEANING_S)))

    def flapping(self) -> Iterator[FailureMode]:
        """A link goes down for moments: it kills a job, or stalls it."""
        part = self.ends.part
        base = self._mode("flaps", part.flaps.typical, (0.0, 0.0), single=True)
        if not self.ends.cut:
            yield base
            return
        killed, stall_s = flap_outcome(part.flap_s.typical, part.flap_s.high, self.retries)
        rate = base.per_1000_node_days
        yield replace(base, per_1000_node_days=rate * (1 - killed), effect=Effect.STALL, stall_s=stall_s)
        yield replace(base, name=f"{base.name} for long", per_1000_node_days=rate * killed, effect=Effect.CRASH)

    def swapped(self, cluster: Cluster) -> Iterator[FailureMode]:
        """A soldered part: the whole switch is replaced, and the nodes below it are drained for that time."""
        part = self.ends.part
        if part.repaired_ports or not self.ends.cut:
            return
        wiring = cluster.plans["back_end"].wiring
        links = np.flatnonzero((wiring.source < wiring.ports) & np.isin(wiring.source, wiring.port_of))
        groups, _ = _groups(cluster, links, len(links))
        mode = self._mode("has its switch replaced", 0.0, (part.hands_s, part.hands_s))
        rate = mode_rate(part, self.ends.count) / len(groups)
        yield replace(mode, per_1000_node_days=rate, groups=groups, effect=Effect.SLOW, detect_s=0.0, slow=1.0)

    def _announced(self, mode: FailureMode) -> Iterator[FailureMode]:
        """The mode, and its part that rising bit errors announce; that part is drained if bit errors are watched."""
        drift = self.ends.part.drift if self.ends.cut else 0.0
        yield replace(mode, per_1000_node_days=mode.per_1000_node_days * (1 - drift))
        if drift:
            watched = self.mitigations.drain
            yield replace(
                mode,
                name=f"{mode.name} after bit errors",
                per_1000_node_days=mode.per_1000_node_days * drift,
                effect=Effect.SLOW if watched else Effect.DRIFT,
                detect_s=WATCHED_S if watched else DRIFT_S,
                slow=1.0 if self.mitigations.llr else CORRUPTED,
            )

    def _mode(self, what: str, fit: float, repair: tuple[float, float], *, single: bool = False) -> FailureMode:
        """A mode by its rate in FIT; `single`: of one end, whatever ports the part has."""
        ends, each = self.ends, 1 if single else self.ends.part.failed_ports
        rate = fit * PER_1000_DAYS * ends.count / each
        name, source = f"{ends.tier} {what}", f"catalogue: {ends.part.name}"
        if not ends.groups:
            leaf = "leaf" if "leaf" in self.tree.levels else ""
            units = len(self.tree.members[self.tree.level(leaf)]) if leaf else self.tree.nodes
            return FailureMode(name, rate / units, Effect.STALL, 0.0, *repair, leaf, source=source)
        groups = ends.groups if each > 1 else ()
        units = len(groups) or self.tree.nodes
        effect = Effect.OUT if ends.cut else Effect.STALL
        return FailureMode(
            name, rate / units, effect, self.retries.abort_s, *repair, rerouted=ends.cut, source=source, groups=groups
        )

    def _labour(self, seconds: float) -> Range:
        return self.wage.scaled(seconds / HOURS)


def mode_rate(part: Cable, ends: int) -> float:
    """Failures of the parts behind so many link ends in a thousand days."""
    return 0.0 if part.failures is None else part.failures.typical * PER_1000_DAYS * ends / part.failed_ports
