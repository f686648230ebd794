"""From what a cluster is asked to be to what it is."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from railyard.cluster.assemble import assemble
from railyard.cluster.hardware import Hardware
from railyard.cluster.management import check as check_management
from railyard.cluster.memory_pool import plan_pool
from railyard.cluster.placement import place
from railyard.cluster.plan import plan_networks
from railyard.cluster.spec import PACKED
from railyard.kit.errors import InputError

if TYPE_CHECKING:
    from railyard.catalog import Catalog
    from railyard.cluster.machine import Cluster
    from railyard.cluster.spec import ClusterSpec, Placement


def build(spec: ClusterSpec, catalog: Catalog, placement: Placement = PACKED) -> Cluster:
    """Builds a cluster.

    Args:
        spec: What is asked for.
        catalog: Where names are looked up.
        placement: In which order the servers are numbered.

    Raises:
        InputError: A name is unknown or the cluster cannot be built; keys are relative to the cluster
            (`back_end.topology.oversubscription`).
    """
    hardware = Hardware.of(spec, catalog)
    storage = None
    if spec.storage is not None:
        try:
            storage = catalog.storage(spec.storage.name)
        except InputError as error:
            raise error.located(key="storage.name") from None
    if spec.management is not None:
        check_management(spec.management, catalog)
    pool = plan_pool(spec, catalog, hardware.servers)
    plans = plan_networks(spec, catalog, hardware, (storage, pool))
    cluster = assemble(spec, catalog, hardware, plans, (storage, pool))
    return replace(cluster.arranged(place(cluster, placement)), placement=placement)
