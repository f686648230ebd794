"""A cluster whose back-end has the constants that the scenario's `packet.set` gives: what its files are to say."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from railyard.work.scenario.load import blaming
from railyard.work.scenario.packet import PacketSettings, assign
from railyard.work.scenario.packet.settings import differences

if TYPE_CHECKING:
    from railyard.cluster import Cluster
    from railyard.work.scenario.load import Draft


def as_set(cluster: Cluster, draft: Draft) -> Cluster:
    """The cluster as switches and interfaces are to be set; itself where the scenario sets nothing.

    Raises:
        InputError: A setting is wrong.
    """
    section, network = draft.scenario.packet, cluster.plans["back_end"]
    packets = network.fabric.packets
    if not section.set or packets is None:
        return cluster
    with blaming(draft, "packet"):
        base = PacketSettings(**packets.constants)
        given = assign(base, [f"{key}={value}" for key, value in section.set.items()])
    constants = {**packets.constants, **differences(given, base)}
    fabric = replace(network.fabric, packets=replace(packets, constants=constants))
    plans = {**cluster.plans, "back_end": replace(network, fabric=fabric)}
    return replace(cluster, plans=plans, back_end=replace(cluster.back_end, fabric=fabric))
