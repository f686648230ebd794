"""Draws of the switches' hashes: which flows collide is chance, and a seed stands for one outcome of it."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from railyard.cluster import Cluster
    from railyard.cluster.network import Network

_HASHED = frozenset({"ecmp", "flowlet"})


def hashes(cluster: Cluster) -> bool:
    """Whether a network that carries the job chooses paths between switches by hashes."""
    return any(_hashed(network) for network in (cluster.back_end, cluster.storage) if network is not None)


def _hashed(network: Network) -> bool:
    several = any(tier.kind != "access" for tier in network.tiers)
    return several and network.fabric.load_balancing in _HASHED


def redrawn(cluster: Cluster, shift: int) -> Cluster:
    """The cluster with every network's hash seed moved on by `shift`; the same cluster where nothing is hashed."""
    if shift == 0 or not hashes(cluster):
        return cluster
    copies = {id(network): replace(network, seed=network.seed + shift) for network in cluster.networks}
    return cluster.with_networks(copies)
