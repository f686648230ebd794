"""Tenants of a cluster as traffic classes: what their ports send, and the queues that these classes get."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Iterator

    from railyard.cluster import Cluster
    from railyard.engine.packet.assembly import LoweredTraffic

WEIGHT = 16
"""Of each class in round robin: all alike. With strict priority the highest would starve the others."""

LANES = 8


def classed(lowered: LoweredTraffic, cluster: Cluster) -> LoweredTraffic:
    """The traffic with the classes of the tenants that send it; storage and what has a class already keeps it."""
    plan = cluster.plans["back_end"]
    if plan.tenancy is None or not plan.tenancy.classes:
        return lowered
    traffic = lowered.traffic
    given = np.full(traffic.hosts, -1, np.int16)
    given[: plan.wiring.ports] = plan.tenancy.classes_of(plan.wiring.port_of, plan.wiring.nodes)[: plan.wiring.ports]
    found = given[traffic.source]
    klass = np.where((traffic.klass == 0) & (found >= 0), found, traffic.klass).astype(np.uint8)
    return replace(lowered, traffic=replace(traffic, klass=klass))


def queues(cluster: Cluster, switching: str) -> dict[str, Any]:
    """Settings that give every class of a tenant a queue, or a virtual lane, with an equal share of each link."""
    tenancy = cluster.plans["back_end"].tenancy
    if tenancy is None or not tenancy.classes:
        return {}
    if switching == "pfc":
        used = {0, *tenancy.classes}
        return {"pfc_weights": [WEIGHT if number in used else 0 for number in range(LANES)]}
    return {"link_credit_lanes": LANES} if switching == "credit" else {}


def unclassed(cluster: Cluster, switching: str) -> Iterator[str]:
    """A sentence where tenants have classes and the fabric has no queues by class."""
    tenancy = cluster.plans["back_end"].tenancy
    if tenancy is not None and tenancy.classes and not queues(cluster, switching):
        yield f"classes of tenants: `{switching}` switching has one queue for all"
