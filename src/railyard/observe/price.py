"""What an hour of a cluster costs while a record ran on it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from railyard.cluster.bill import bill_of
from railyard.economics.assumptions import Assumptions
from railyard.economics.hourly import hourly
from railyard.economics.parts import Part, component_of
from railyard.measure.decompose import decompose

if TYPE_CHECKING:
    from railyard.cluster import Cluster
    from railyard.graph import Record


def usd_per_hour(record: Record, cluster: Cluster) -> float:
    """All of the cluster, at typical prices of the catalogue.

    Raises:
        InputError: The record says too little of where its time went.
    """
    parts = [Part(component_of(row.kind), row.name, row.count, row.price_usd, row.power_w) for row in bill_of(cluster)]
    cost = hourly(decompose(record), cluster.accelerator, parts, Assumptions.from_catalog(cluster.catalog))
    return cost.section().usd_per_h.typical
