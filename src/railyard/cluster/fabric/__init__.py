"""Fabrics: named compositions of mechanisms with their constants, one file each, for flows and packets alike."""

from __future__ import annotations

from typing import TYPE_CHECKING

from railyard.cluster.fabric.fabric import CREDITS, Fabric, FabricSpec, Packets, bought, fabrics
from railyard.kit.errors import InputError
from railyard.kit.schema import field as f

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = ["CREDITS", "Fabric", "FabricSpec", "Packets", "bought", "fabrics", "from_mapping"]


def from_mapping(mapping: Mapping[str, object]) -> FabricSpec:
    """A fabric spec from a mapping in a file: `{"name": "roce", "qps": 4}`.

    Raises:
        InputError: `name` is missing, or a key or value is invalid.
    """
    name = mapping.get("name")
    if not isinstance(name, str):
        raise InputError("a fabric needs its name", key="name", found=name, allowed=fabrics.names())
    try:
        fabrics.get(name)
    except InputError as error:
        raise error.located(key="name") from None
    rest = {key: value for key, value in mapping.items() if key != "name"}
    return FabricSpec(name, f.values(Fabric, rest, what=f"the fabric `{name}`"))
