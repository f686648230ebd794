from __future__ import annotations

from functools import cache

import pytest

from railyard import catalog, cluster
from railyard.cluster import Cluster, ClusterSpec, FabricSpec, NetworkSpec
from railyard.graph import Communicators


@cache
def _build(ranks: int, server: str, fabric: str, topology: str, overrides: tuple[tuple[str, object], ...]) -> Cluster:
    network = NetworkSpec(topology=cluster.topologies.get(topology)(), fabric=FabricSpec(fabric, dict(overrides)))
    return cluster.build(ClusterSpec(accelerators=ranks, server=server, back_end=network), catalog.load())


@pytest.fixture(scope="session")
def build():
    """A cluster by ranks, server, fabric, topology and overrides of the fabric; each is built once."""

    def of(
        ranks: int, server: str, fabric: str = "ideal", topology: str = "leaf-spine", **overrides: object
    ) -> Cluster:
        return _build(ranks, server, fabric, topology, tuple(sorted(overrides.items())))

    return of


@pytest.fixture(scope="session")
def group():
    """Communicators from lists of ranks."""

    def of(*lists: object, name: str = "dp") -> Communicators:
        return Communicators.of(lists, name)

    return of
