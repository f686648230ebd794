"""Notes on a cluster: what is not priced, and the effect of distance on its links."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from railyard.cluster.bill import bill_of
from railyard.cluster.fabric.encryption import lost
from railyard.cluster.host_path import nic_bps
from railyard.cluster.management import management_of
from railyard.cluster.names import ports_of
from railyard.cluster.topology.rail_optimized import RailOptimized
from railyard.cluster.topology.wiring import taken_bps
from railyard.kit.quantities import about_time, format_rate

if TYPE_CHECKING:
    from collections.abc import Iterator

    from railyard.cluster.machine import Cluster
    from railyard.cluster.plan import NetworkPlan
    from railyard.cluster.scale_up.fabric import JoinedScaleUp


CONFIDENTIAL = (
    "confidential computing: only the way to the NICs is slower here. Kernels: 0.998 of the clear on B300 (measured,"
    " arXiv 2606.23969), taken as 1. NVLink: in the clear in Hopper's Protected PCIe mode; encrypted on Blackwell, at a"
    " price that nobody has published",
    "confidential computing: small copies of a serving engine cost 13 to 27 % of its throughput on B300 (arXiv"
    " 2606.23969), 0.9 to 7.5 % by NVIDIA's own figures, below 7 % on H100 (arXiv 2409.03992); they are not in these"
    " figures",
)
"""Known effects that are not modeled."""

_LONG_S = 86_400.0
"""Keys that last longer are not mentioned."""


def encryption_notes(plan: NetworkPlan) -> Iterator[str]:
    """Notes on the cost of encryption on a network, and on assumptions."""
    encryption = plan.spec.encryption
    if plan.spec.host.gpudirect == "bounce" and plan.name == "back-end":
        yield from CONFIDENTIAL
    if encryption.protocol == "none":
        return
    where = f"{plan.name} network: "
    yield from (where + words for words in lost(plan.spec.fabric.resolve(), encryption))
    unknown = list(_unknown(plan))
    if unknown:
        yield f"{where}no rate of {encryption.protocol} is published for {', '.join(unknown)}: line rate is assumed"
    share = plan.ciphered.min()
    if share < 1:
        yield f"{where}{encryption.protocol} in switches bounds links at {share:.0%} of their rate while all are busy"
    unit = encryption.facts.unit_bytes + plan.fabric.header_bytes
    life = encryption.facts.key_life_s(plan.link_bps, unit)
    if life < _LONG_S:
        yield (
            f"{where}a key of {encryption.protocol} lasts at least {life:.3g} s at {plan.link_bps / 1e9:g} Gb/s;"
            " that changing it costs no time is assumed"
        )


def _unknown(plan: NetworkPlan) -> Iterator[str]:
    encryption = plan.spec.encryption
    if encryption.core_bps is not None:
        return
    if nic_bps(plan.nic, encryption) is None:
        yield plan.nic.name
    if encryption.facts.every_hop:
        yield from (name for name, box in plan.switches.items() if encryption.protocol not in box.encryption_bps)


ROUNDED = 0.005
"""Relative deviation of a built ratio from the requested one that is not mentioned."""

FELT = 0.97
"""Share of a long link's rate below which a credit limit is worth a warning."""


def notes_of(cluster: Cluster) -> Iterator[str]:
    """Sentences for the warnings of a result."""
    yield from (f"no part in the catalogue, not priced: {words}" for words in bill_of(cluster).unpriced)
    made = management_of(cluster)
    yield from () if made is None else made.missing
    if cluster.hardware.joined is not None:
        yield from _joined(cluster, cluster.hardware.joined)
    for plan in cluster.plans.values():
        yield from _undersubscribed(plan)
        yield from _rounded(plan)
        yield from _without_effect(plan)
        yield from _limited(plan)
        yield from encryption_notes(plan)
        if plan.border is not None:
            yield from _slowed(cluster, plan)
            yield from _lossy(plan)
    if cluster.back_end.credits_cross:
        yield _credited(cluster)


def circuits_stay(cluster: Cluster) -> Iterator[str]:
    """A note where circuits are to follow demand, for work other than a training step."""
    circuits = cluster.back_end.wiring.circuits
    if circuits is not None and circuits.dead_ps is not None:
        yield "circuits stay as they are: only exchanges of experts in training change them (`circuits: demand`)"


def _joined(cluster: Cluster, joined: JoinedScaleUp) -> Iterator[str]:
    """Notes on a scale-up fabric in the server's place: keys without effect, what is not priced, what stands idle."""
    name, domain = joined.fabric.name, joined.server.scale_up_domain
    yield from (f"scale-up fabric {name}: {words}" for words in joined.without_effect)
    if joined.replaces and not joined.bought_tbps:
        yield f"not priced: links of {name} between accelerators; a {joined.fabric.kind} has no switches to price"
    if joined.bought_tbps and domain > cluster.ranks:
        yield (
            f"the bill has switches for a whole scale-up domain of {domain:,} accelerators, and the cluster has"
            f" {cluster.ranks:,}"
        )


def _undersubscribed(plan: NetworkPlan) -> Iterator[str]:
    """A note if there is more uplink than downlink capacity, which usually means that 3:1 was written as 1:3."""
    ratio = getattr(plan.spec.topology, "oversubscription", 1.0)
    if ratio < 1:
        yield (
            f"oversubscription 1:{1 / ratio:.3g} of the {plan.name} network buys {1 / ratio:.3g} times the uplinks that"
            f" its NICs can fill; down to up, three to one is written 3:1"
        )


def _rounded(plan: NetworkPlan) -> Iterator[str]:
    """A note if a ratio is not possible with whole ports, or because of a scheduled leaf's speed-up."""
    built, topology = plan.wiring.oversubscription(), plan.spec.topology
    topology = getattr(topology, "inner", topology)
    for key, tier in (("oversubscription", "leaf-spine"), ("spine_oversubscription", "spine-core")):
        asked, found = getattr(topology, key, None), built.get(tier)
        if asked is not None and found is not None and abs(found / asked - 1) > ROUNDED:
            yield (
                f"{key} {asked:.4g}:1 of the {plan.name} network is built as {found:.3g}:1: ports are whole, and leafs"
                f" and spines are filled evenly"
            )


def _without_effect(plan: NetworkPlan) -> Iterator[str]:
    """A note on each key of a topology that is given and changes nothing."""
    for words in getattr(plan.spec.topology, "without_effect", ()):
        yield f"topology of the {plan.name} network: {words}"


def _limited(plan: NetworkPlan) -> Iterator[str]:
    port_bps = taken_bps(plan.link_bps)
    if port_bps > plan.link_bps * (1 + 1e-6) and not plan.fabric.model_of:
        yield (
            f"no port runs at {format_rate(plan.link_bps)}: links of the {plan.name} network are limited to it on ports"
            f" of {format_rate(port_bps)}, which are what is bought"
        )


def empty_leafs(cluster: Cluster) -> Iterator[str]:
    """A note on rail leafs that could share a switch; none if they are more than half full."""
    topology, plan = cluster.spec.back_end.topology, cluster.plans["back_end"]
    leafs = [row for row in ports_of(plan) if row.role == "leaf"]
    if not isinstance(topology, RailOptimized) or topology.rails_per_leaf > 1 or plan.nics < 2 or not leafs:
        return
    count, ports, used = (sum(getattr(row, name) for row in leafs) for name in ("count", "ports", "used"))
    if 2 * used <= ports and count > 1:
        yield (
            f"{count} leafs use {used} of {ports} ports; rails may share a leaf"
            " (`topology: {kind: rail-optimized, rails_per_leaf: 2}`), which needs fewer switches"
        )


def _slowed(cluster: Cluster, plan: NetworkPlan) -> Iterator[str]:
    tiers = cluster.links.tiers
    name = plan.wiring.tiers[plan.long_tier].name
    tier = tiers.index(name if plan.name == "back-end" else f"{plan.name} {name}")
    links = np.flatnonzero(cluster.links.tier[: cluster.links.physical] == tier)
    left, line = float(cluster.links.reach_bps[links].min()), float(cluster.links.line_bps[links].max())
    if left < FELT * line:
        yield (
            f"{plan.fabric.name} over {plan.runs[plan.long_tier].length_m / 1e3:g} km: credits leave"
            f" {left / 1e9:.3g} of {line / 1e9:g} Gb/s a link; boxes for long distances (`border_switch`) hold more"
        )


def _lossy(plan: NetworkPlan) -> Iterator[str]:
    needed, had = plan.headroom_needed_bytes, plan.headroom_had_bytes
    if needed > had and plan.border is not None:
        keeps = plan.crowded_share
        cost = "" if keeps == 1 else f" and keep about {keeps:.0%} of their rate"
        yield (
            f"{plan.fabric.name} over {plan.runs[plan.long_tier].length_m / 1e3:g} km: a link needs"
            f" {needed / 1e6:.3g} MB of headroom, {plan.border.name} leaves it {had / 1e6:.3g} MB: incasts of other"
            f" sites lose packets{cost}; what that costs collectives, use the engine `packet`"
        )


def _credited(cluster: Cluster) -> str:
    """A note on the assumption about credits over distance and their cost per message."""
    fabric, plan = cluster.fabric, cluster.plans["back_end"]
    wait = about_time(2 * cluster.back_end.long_latency_ps)
    waits = f"waits {wait} longer before it leaves" if fabric.credits == "egress" else f"does not wait {wait} for one"
    return (
        f"{fabric.name} over {plan.runs[plan.long_tier].length_m / 1e3:g} km: no vendor says in public whether a credit"
        f" crosses end to end, from the egress leaf, or ends at the border of a site; `fabric.credits:"
        f" {fabric.credits}` is assumed, so a message to another site {waits}"
    )
