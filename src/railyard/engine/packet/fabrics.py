"""Which parts of the packet engine each of a cluster's fabrics is made of.

The engine room knows fabrics by the name of the cluster's record (`railyard.cluster.fabric`). A scenario can give other
settings (`packet: {fabric: ...}`), such as those of `railyard packet --fabric`.
"""

from __future__ import annotations

from dataclasses import dataclass, field, fields
from math import ceil
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from railyard.engine.packet.infiniband import INFINIBAND_AR
from railyard.engine.packet.placing import base_rtt_ps
from railyard.engine.packet.roce import ROCE, SPECTRUM_X
from railyard.engine.packet.scheduled import SCHEDULED
from railyard.engine.packet.settings import Settings
from railyard.engine.packet.uec import IDEAL, UEC
from railyard.registry import Registry

if TYPE_CHECKING:
    from collections.abc import Mapping

    from railyard.cluster import Cluster

_NOTHING: Mapping[str, Any] = MappingProxyType({})


@dataclass(frozen=True)
class Composition:
    """A fabric as parts of the packet engine.

    Attributes:
        name: As the cluster's fabric.
        settings: Fields of `Settings` that differ from their defaults.
        stands_in: What the parts stand in for that they are not; empty where they are the thing.
        framing: Whether packet and header sizes are those of the cluster's fabric.
    """

    name: str
    settings: Mapping[str, Any] = field(default_factory=lambda: _NOTHING)
    stands_in: tuple[str, ...] = ()
    framing: bool = True


COMPOSITIONS: Registry[Composition] = Registry("composition of packets")


def _add(name: str, *, stands_in: tuple[str, ...] = (), **settings: Any) -> None:
    COMPOSITIONS.add(name, Composition(name, settings, stands_in))


_add("uec", **UEC)
_add("roce", **ROCE)
_add("infiniband", **INFINIBAND_AR)
_add("spectrum-x", **SPECTRUM_X)
_add("scheduled", **SCHEDULED)
_add("ideal", **IDEAL, stands_in=("transport of `uec` at its ends",))


WINDOW_PACKETS = 120
"""Least constant window: half a megabyte in flight. Queues then hold enough of every flow to share a link evenly."""


def _window_packets(cluster: Cluster, packet_bytes: int, header_bytes: int) -> int:
    """A constant window: two bandwidth-delay products of the longest path."""
    out, _ = cluster.back_end.port_links(int(cluster.back_end.port_of_rank[0, 0]))
    line_bps = float(cluster.links.rate_bps[out].sum())
    bits = base_rtt_ps(cluster, packet_bytes, header_bytes) * 1e-12 * line_bps
    return max(WINDOW_PACKETS, ceil(2 * bits / 8 / packet_bytes))


def settings_of(cluster: Cluster, composition: Composition) -> Settings:
    """The engine's settings for a cluster: the composition's, with the framing of the cluster's fabric."""
    known = {entry.name for entry in fields(Settings)}
    own = {key: value for key, value in composition.settings.items() if key in known}
    if composition.framing:
        fabric = cluster.fabric
        if own.get("transport") == "rdma":
            own.setdefault("rdma_qps", fabric.qps)
        own.setdefault("header_bytes", fabric.header_bytes)
        own.setdefault("mtu_bytes", fabric.mtu_bytes + fabric.header_bytes)
    if own.get("congestion_control") == "constant" and "window_packets" not in own:
        own["window_packets"] = _window_packets(cluster, own["mtu_bytes"], own["header_bytes"])
    return Settings(**own)
