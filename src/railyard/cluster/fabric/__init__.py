"""Fabrics: named compositions of mechanisms with their constants, one short file each, and the registry of them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from railyard.cluster import record
from railyard.cluster.fabric.fabric import Fabric, FabricSpec, fabrics
from railyard.cluster.fabric.ideal import IDEAL
from railyard.cluster.fabric.infiniband import INFINIBAND
from railyard.cluster.fabric.roce import ROCE
from railyard.cluster.fabric.scheduled import SCHEDULED
from railyard.cluster.fabric.spectrum_x import SPECTRUM_X
from railyard.cluster.fabric.uec import UEC
from railyard.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = [
    "IDEAL",
    "INFINIBAND",
    "ROCE",
    "SCHEDULED",
    "SPECTRUM_X",
    "UEC",
    "Fabric",
    "FabricSpec",
    "fabrics",
    "from_mapping",
]


def from_mapping(mapping: Mapping[str, object]) -> FabricSpec:
    """A fabric's record from what a file says: `{"name": "roce", "qps": 4}`.

    Raises:
        InputError: There is no `name`, or a key or value is wrong.
    """
    name = mapping.get("name")
    if not isinstance(name, str):
        raise InputError("a fabric needs its name", key="name", found=name, allowed=fabrics.names())
    try:
        fabrics.get(name)
    except InputError as error:
        raise error.located(key="name") from None
    rest = {key: value for key, value in mapping.items() if key != "name"}
    return FabricSpec(name, record.values(Fabric, rest, what=f"the fabric `{name}`"))
