"""Switches and cables of a network: the requested ones, otherwise the usual ones that are fast and long enough."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from railyard.cluster.topology.wiring import Box, Parts
from railyard.kit.errors import InputError
from railyard.kit.quantities import ranges

if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

    from numpy.typing import NDArray

    from railyard.catalog import Cable, Catalog, Switch
    from railyard.cluster.fabric.fabric import Fabric
    from railyard.cluster.routes import Routes
    from railyard.cluster.spec import NetworkSpec
    from railyard.cluster.topology.wiring import Tier, Wiring


@dataclass(frozen=True, eq=False)
class Bundles:
    """A folded network.

    Attributes:
        routing: Routes over links and bundles; ids from `links` on are bundles.
        target: int32[links + bundles], the node to which each leads.
        bundle_of: int32[links], bundle of a link counted from 0, or -1 if the link has no parallel.
        sample: int64[bundles], the first member of each.
    """

    routing: Routes
    target: NDArray[np.int32]
    bundle_of: NDArray[np.int32]
    sample: NDArray[np.int64]


def fold(wiring: Wiring) -> Bundles | None:
    """Folds a network by node class; None if the topology says that this would not be exact."""
    if wiring.classes is None:
        return None
    classes = wiring.classes.astype(np.int64)
    near, far = classes[wiring.source], classes[wiring.target]
    _, sample, inverse, size = np.unique(
        near * wiring.nodes + far, return_index=True, return_inverse=True, return_counts=True
    )
    inverse = inverse.ravel()
    several = size > 1
    number = np.where(several, np.cumsum(several) - 1, -1)
    bundle_of = number[inverse].astype(np.int32)
    image = np.where(bundle_of >= 0, wiring.links + bundle_of, np.arange(wiring.links))
    sample = sample[several]
    target = classes[np.concatenate([wiring.target, wiring.target[sample]])].astype(np.int32)
    routing = _folded_routes(wiring, classes, image, len(target))
    return None if routing is None else Bundles(routing, target, bundle_of, sample)


def _folded_routes(wiring: Wiring, classes: NDArray[np.int64], image: NDArray[np.int64], links: int) -> Routes | None:
    """The records of one node per class, each group reduced to the bundles of its links.

    A bundle occurs in a group in proportion to its links there. None if the groups of one record would differ in width,
    which a record cannot store.
    """
    table = wiring.routing
    chosen = classes == np.arange(wiring.nodes)
    keep = np.repeat(chosen, np.diff(table.record_ptr))
    groups = table.groups()[keep]
    width = np.repeat(table.width[keep], groups).astype(np.int64)
    first = np.repeat(table.first[keep], groups) + ranges(0, groups) * width
    choice = table.choices[np.repeat(first, width) + ranges(0, width)]
    folded = np.where(choice >= 0, image[choice], -1)
    number = np.repeat(np.arange(len(width)), width)
    span = links + 1
    keys, size = np.unique(number * span + folded + 1, return_counts=True)
    group_of = keys // span
    first_key = np.searchsorted(group_of, np.arange(len(width)))
    times = size // np.gcd.reduceat(size, first_key)[group_of] if len(size) else size
    new_width = np.bincount(group_of, weights=times, minlength=len(width)).astype(np.int64)
    record = np.repeat(np.arange(len(groups)), groups)
    of_record = np.zeros(len(groups), np.int64)
    of_record[record] = new_width
    if (of_record[record] != new_width).any():
        return None
    begin = np.concatenate([[0], np.cumsum(new_width)])
    per_node = np.where(chosen, np.diff(table.record_ptr), 0)
    return replace(
        table,
        record_ptr=np.concatenate([[0], np.cumsum(per_node)]).astype(np.int64),
        lo=table.lo[keep],
        hi=table.hi[keep],
        first=begin[np.concatenate([[0], np.cumsum(groups)])[:-1]],
        width=of_record.astype(np.int32),
        stride=table.stride[keep],
        choices=np.repeat(keys % span - 1, times).astype(np.int32),
    )


# The latency of long links is that of their fiber, whatever the module: 5.13 ns/m (the figure of PFC headroom
# work; a bare group index of 1.468 would give 4.90, and routes are longer than the straight line).
FIBRE_S_PER_M = 5.13e-9
_COPPER = ("dac", "acc", "aec")
"""Kinds of copper cables: passive, with an equalizer, with retimers."""

_LINKS = (*_COPPER, "aoc", "optic")


@dataclass(frozen=True)
class CableRun:
    """The cables of one tier.

    Attributes:
        delay_ps: Propagation, and what modules add to those of the fabric's measured hops; may be negative.
        lanes: Links that share one cable: 8 lanes of a cell fabric, otherwise 1.
        cable: Copper cable or optical module; None if the catalog has none of this rate and reach.
        fibre: Fiber between two modules; None with copper.
        twin: Module that serves two of these links from one cage; None if there is none.
        upper: Module at the switch's end of a NIC's link where it is another; None: the same at both ends.
        lasers: Laser module that feeds co-packaged ports; None if there is none.
    """

    length_m: float
    delay_ps: int
    lanes: int
    cable: Cable | None
    fibre: Cable | None
    twin: Cable | None
    upper: Cable | None = None
    lasers: Cable | None = None

    @property
    def far(self) -> Cable | None:
        """Cable or module at the upper end."""
        return self.upper or self.cable


def choose(
    catalog: Catalog,
    rate_bps: float,
    tier: Tier,
    length_m: float | None,
    *,
    lanes: int = 1,
    key: str,
    optics: str | None = None,
) -> CableRun:
    """The cheapest cable for a rate and length, with its modules and fiber.

    Args:
        catalog: Catalog of cables.
        rate_bps: Rate of a link of the tier, bit/s.
        tier: The tier; gives the length unless `length_m` does.
        length_m: Requested length, or None.
        lanes: Links of that rate that share one cable.
        key: Key of the length, for messages.
        optics: Kind of optical modules; None: those with a signal processor. A NIC's link has co-packaged optics at the
            switch only.

    Raises:
        InputError: The length is not positive.
    """
    length = tier.length_m if length_m is None else length_m
    if not length > 0:
        raise InputError("a cable has a length", key=key, found=length)
    rate = rate_bps * lanes
    usual = _fitting(catalog, rate, length, tier.fibre)
    asked = usual if optics is None else _fitting(catalog, rate, length, tier.fibre, optics) or usual
    split = tier.kind == "access" and asked is not None and asked.optics == "cpo"
    # What meets a co-packaged port sends the same light: a module of its reach.
    found = _fitting(catalog, rate, asked.reach_m, tier.fibre) if split and asked is not None else asked
    delay_s = length * (FIBRE_S_PER_M if found is None or tier.kind == "long" else found.delay_s_per_m)
    fibre = catalog.cable(found.fibre) if found is not None and found.fibre else None
    twin = catalog.cable(found.twin) if found is not None and found.twin and lanes == 1 and not split else None
    # A fabric's hop latency was measured with the usual modules: others add or save the difference at each end.
    saved_ps = sum(usual.latency_ps - end.latency_ps for end in (found, asked) if usual is not None and end is not None)
    return CableRun(
        length,
        round(delay_s * 1e12) - saved_ps,
        lanes,
        found,
        fibre,
        twin,
        asked if split else None,
        catalog.cable(asked.laser) if asked is not None and asked.laser else None,
    )


def _fitting(catalog: Catalog, rate_bps: float, length_m: float, fibre: str, optics: str = "dsp") -> Cable | None:
    """The cable or module whose link costs least, of those that are fast and long enough."""
    fit = [
        cable
        for cable in _every(catalog)
        if cable.kind in _LINKS and cable.rate_bps >= rate_bps * (1 - 1e-9) and cable.reach_m >= length_m
        if cable.kind != "optic" or cable.optics == optics
        if cable.fibre == fibre or not fibre
    ]
    return min(fit, key=lambda cable: (_link_usd(catalog, cable), cable.name), default=None)


def _every(catalog: Catalog) -> list[Cable]:
    return [catalog.cable(name) for name in catalog.names("cable")]


def _link_usd(catalog: Catalog, cable: Cable) -> float:
    """Typical price of a link: the cable, or two modules and the fiber between them."""
    if cable.kind != "optic":
        return cable.price_usd.typical
    return 2 * cable.price_usd.typical + (catalog.cable(cable.fibre).price_usd.typical if cable.fibre else 0.0)


def copper_reach_m(catalog: Catalog, rate_bps: float) -> float:
    """Longest copper cable (passive or active) of a rate, m; 0 if there is none.

    Args:
        catalog: Catalog of cables.
        rate_bps: Rate that one cable carries, bit/s.
    """
    every = _every(catalog)
    fit = [cable.reach_m for cable in every if cable.kind in _COPPER and cable.rate_bps >= rate_bps * (1 - 1e-9)]
    return max(fit, default=0.0)


def parts_of(
    catalog: Catalog, spec: NetworkSpec, fabric: Fabric, link_bps: float, overrides: Mapping[str, Any]
) -> tuple[Parts, dict[str, Switch]]:
    """Switch boxes of a network, and their catalog entries by name.

    Raises:
        InputError: A switch is unknown, of another family than the fabric runs on, or slower than the NICs.
    """
    leaf, spine = _with_optics(catalog, spec, *_switches(catalog, spec, fabric, link_bps))
    if overrides:
        from railyard.cluster.spec import overridden

        leaf, spine = (overridden(entry, overrides, "switch") for entry in (leaf, spine))
    _check(leaf, fabric, link_bps, "switch")
    _check(spine, fabric, 0.0, "spine_switch")
    switches = {leaf.name: leaf, spine.name: spine}
    if spec.border_switch is None:
        return Parts(link_bps, box(leaf), box(spine)), switches
    border = _border(catalog, spec, fabric)
    return Parts(link_bps, box(leaf), box(spine), box(border)), {**switches, border.name: border}


def _with_optics(catalog: Catalog, spec: NetworkSpec, leaf: Switch, spine: Switch) -> tuple[Switch, Switch]:
    """Both boxes with co-packaged optics, of the same chips, if these are requested or one of them has them.

    Raises:
        InputError: No such box has that chip, or a box without cages is to take modules.
    """
    inside = leaf.co_packaged or spine.co_packaged
    if inside and spec.optics not in (None, "cpo"):
        raise InputError(
            f"{(leaf if leaf.co_packaged else spine).name} has no cages for modules",
            key="optics",
            found=spec.optics,
            allowed="cpo",
        )
    if not inside and spec.optics != "cpo":
        return leaf, spine
    every = [catalog.switch(name) for name in catalog.names("switch")]
    made = {one.chip: one for one in every if one.co_packaged}
    for box, key in ((leaf, "switch"), (spine, "spine_switch")):
        if box.chip not in made:
            raise InputError(
                f"no switch of the chip {box.chip} has co-packaged optics",
                key=key,
                found=box.name,
                allowed=[one.name for one in made.values() if one.family == box.family] or "none of this family",
            )
    return made[leaf.chip], made[spine.chip]


def _border(catalog: Catalog, spec: NetworkSpec, fabric: Fabric) -> Switch:
    if spec.topology.kind != "multi-site":
        raise InputError(
            f"a border switch ends long links, which {spec.topology.kind} does not have",
            key="border_switch",
            found=spec.border_switch,
            hint="use `topology: {kind: multi-site, ...}`",
        )
    border = _named(catalog, str(spec.border_switch), "border_switch")
    _check(border, replace(fabric, sharp=False), 0.0, "border_switch")
    return border


def longer_ps(
    catalog: Catalog, spec: NetworkSpec, fabric: Fabric, link_bps: float, parts: tuple[Parts, Mapping[str, Switch]]
) -> dict[str, int]:
    """Extra latency of each box over the fabric's usual one in its place, in ps.

    A fabric's hop latency was measured with its usual switches. For other switches, the difference of the catalog
    latencies is added. A hop latency in the scenario already belongs to the scenario's switches.

    Args:
        catalog: Catalog of switches.
        spec: The network's spec.
        fabric: The fabric with its overrides.
        link_bps: Rate of a NIC's link.
        parts: Boxes of the network, and their entries with the scenario's overrides.
    """
    boxes, switches = parts
    if "hop_latency_ps" in spec.fabric.overrides:
        return dict.fromkeys(switches, 0)
    leaf, spine = _switches(catalog, replace(spec, switch=None, spine_switch=None), fabric, link_bps)
    places = [(boxes.border, spine), (boxes.spine, spine), (boxes.leaf, leaf)]
    usual = {place.name: entry for place, entry in places if place is not None}
    return {name: entry.latency_ps - usual[name].latency_ps for name, entry in switches.items()}


def box(entry: Switch) -> Box:
    """A catalog entry as topologies see it."""
    return Box(entry.name, entry.capacity_bps, entry.port_rate_bps, entry.max_ports, entry.fabric_bps)


def _switches(catalog: Catalog, spec: NetworkSpec, fabric: Fabric, link_bps: float) -> tuple[Switch, Switch]:
    if spec.switch is None:
        pairs = [(catalog.switch(leaf), catalog.switch(spine)) for leaf, spine in fabric.switches]
        fast = [pair for pair in pairs if pair[0].port_rate_bps >= link_bps * (1 - 1e-9)]
        leaf, spine = (fast or pairs[-1:])[0]
        return leaf, spine if spec.spine_switch is None else _named(catalog, spec.spine_switch, "spine_switch")
    leaf = _named(catalog, spec.switch, "switch")
    if spec.spine_switch is not None:
        return leaf, _named(catalog, spec.spine_switch, "spine_switch")
    partners = {name: partner for name, partner in fabric.switches if catalog.switch(name).name == leaf.name}
    partner = next(iter(partners.values()), leaf.name)
    return leaf, catalog.switch(partner)


def _named(catalog: Catalog, name: str, key: str) -> Switch:
    try:
        return catalog.switch(name)
    except InputError as error:
        raise error.located(key=key) from None


def _check(entry: Switch, fabric: Fabric, link_bps: float, key: str) -> None:
    if entry.family not in fabric.families:
        raise InputError(
            f"the fabric `{fabric.name}` does not run on {entry.name}, whose family is {entry.family}",
            key=key,
            found=entry.name,
            allowed=f"switches of the families {', '.join(fabric.families)}",
        )
    if fabric.sharp and not entry.reduces:
        raise InputError(
            f"{entry.name} cannot reduce in the network",
            key="fabric.sharp",
            found="true",
            hint="choose a switch with SHARP, or write `sharp: false`",
        )
    if entry.port_rate_bps < link_bps * (1 - 1e-9):
        raise InputError(
            f"{entry.name} has ports of {entry.port_rate_bps / 1e9:g} Gb/s, slower than the link",
            key=key,
            found=f"{link_bps / 1e9:g} Gb/s",
            allowed=f"at most {entry.port_rate_bps / 1e9:g} Gb/s",
        )
