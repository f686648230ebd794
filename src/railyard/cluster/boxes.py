"""Which switches a network is built from: as asked, else the fabric's usual ones that are fast enough."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from railyard.cluster.topology.wiring import Box, Parts
from railyard.kit.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

    from railyard.catalog import Catalog, Switch
    from railyard.cluster.fabric.fabric import Fabric
    from railyard.cluster.spec import NetworkSpec


def parts_of(
    catalog: Catalog, spec: NetworkSpec, fabric: Fabric, link_bps: float, overrides: Mapping[str, Any]
) -> tuple[Parts, dict[str, Switch]]:
    """Switch boxes for a network, and their catalogue entries by name.

    Raises:
        InputError: A switch is unknown, of another family than the fabric runs on, or slower than the NICs.
    """
    leaf, spine = _switches(catalog, spec, fabric, link_bps)
    if overrides:
        from railyard.cluster.override import overridden

        leaf, spine = (overridden(entry, overrides, "switch") for entry in (leaf, spine))
    _check(leaf, fabric, link_bps, "switch")
    _check(spine, fabric, 0.0, "spine_switch")
    switches = {leaf.name: leaf, spine.name: spine}
    if spec.border_switch is None:
        return Parts(link_bps, box(leaf), box(spine)), switches
    border = _border(catalog, spec, fabric)
    return Parts(link_bps, box(leaf), box(spine), box(border)), {**switches, border.name: border}


def _border(catalog: Catalog, spec: NetworkSpec, fabric: Fabric) -> Switch:
    if spec.topology.kind != "multi-site":
        raise InputError(
            f"a border switch stands at the end of long links, which {spec.topology.kind} does not have",
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
    """How much longer a packet takes through each box than through the fabric's usual one in its place, in ps.

    A fabric's hop was measured with its usual switches. What others state differs by what the catalogue has of both;
    a hop that the scenario gives is that of its own switches.

    Args:
        catalog: Where switches are looked up.
        spec: Of the network.
        fabric: With its overrides.
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
    """A catalogue entry as topologies see it."""
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
