"""Topology families, one file each, and their registry."""

from __future__ import annotations

from typing import TYPE_CHECKING

from railyard.cluster.topology.bcube import BCube
from railyard.cluster.topology.dragonfly import Dragonfly
from railyard.cluster.topology.dual_plane import DualPlane
from railyard.cluster.topology.fat_tree import FatTree
from railyard.cluster.topology.leaf_spine import LeafSpine
from railyard.cluster.topology.multi_site import MultiSite
from railyard.cluster.topology.optical import Optical
from railyard.cluster.topology.rail_only import RailOnly
from railyard.cluster.topology.rail_optimized import RailOptimized
from railyard.cluster.topology.three_tier import ThreeTier
from railyard.cluster.topology.torus import Torus
from railyard.cluster.topology.wiring import Box, Endpoints, Parts, SwitchGroup, Tier, TopologySpec, Wiring, topologies
from railyard.cluster.topology.zcube import ZCube
from railyard.kit.errors import InputError
from railyard.kit.schema import field as f

if TYPE_CHECKING:
    from collections.abc import Mapping


__all__ = [
    "BCube",
    "Box",
    "Dragonfly",
    "DualPlane",
    "Endpoints",
    "FatTree",
    "LeafSpine",
    "MultiSite",
    "Optical",
    "Parts",
    "RailOnly",
    "RailOptimized",
    "SwitchGroup",
    "ThreeTier",
    "Tier",
    "TopologySpec",
    "Torus",
    "Wiring",
    "ZCube",
    "from_mapping",
    "topologies",
]


def from_mapping(mapping: Mapping[str, object]) -> TopologySpec:
    """A topology spec from a mapping in a file: `{"kind": "leaf-spine", "oversubscription": "3:1"}`.

    Raises:
        InputError: `kind` is missing, or a key or value is invalid.
    """
    kind = mapping.get("kind")
    if not isinstance(kind, str):
        raise InputError("a topology needs its kind", key="kind", found=kind, allowed=topologies.names())
    try:
        spec = topologies.get(kind)
    except InputError as error:
        raise error.located(key="kind") from None
    given = f.values(
        spec, {key: value for key, value in mapping.items() if key != "kind"}, what=f"the topology `{kind}`"
    )
    for name, value in given.items():
        if name == "inner":
            given[name] = _inner(value)
    return spec(**given)


def _inner(value: object) -> TopologySpec:
    if isinstance(value, str):
        return from_mapping({"kind": value})
    if isinstance(value, dict):
        try:
            return from_mapping(value)
        except InputError as error:
            raise error.located(key="inner") from None
    raise InputError("expected a topology", key="inner", found=value, allowed=topologies.names())
