"""Non-minimal routes of adaptively routed networks: part of every flow goes by way of other groups (Valiant)."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from railyard.cluster import hashing, paths
from railyard.cluster.links import CsrWeighted

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from railyard.cluster.topology.wiring import Detour, Wiring


def spread(wiring: Wiring, detour: Detour, src: NDArray[np.int32], dst: NDArray[np.int32]) -> CsrWeighted:
    """An even split over minimal routes, with the detours' share by way of some other groups.

    Which groups is decided by a hash of the pair of groups, so that all pairs together use all groups alike.
    Source: L. Valiant, "A scheme for fast parallel communication", SIAM J. Comput. 11(2), 1982.

    Args:
        wiring: The network.
        detour: Share and number of detours.
        src: int32[flows], sending ports.
        dst: int32[flows], receiving ports.
    """
    direct = paths.spread(wiring.routing, wiring.target, src, dst)
    far = np.flatnonzero(src // detour.group_ports != dst // detour.group_ports)
    flow = np.repeat(far, detour.intermediates)
    middle = _middle_ports(wiring, detour, src[far], dst[far])
    there = paths.spread(wiring.routing, wiring.target, src[flow], middle)
    routers = wiring.target[_first_links(wiring, middle)]
    onward = paths.spread(wiring.routing, wiring.target, routers, dst[flow])
    arrives = wiring.target[there.link] == middle[there.rows()]
    part = detour.share / detour.intermediates
    keep = np.ones(len(src))
    keep[far] -= detour.share
    rows = [direct.rows(), flow[there.rows()][~arrives], flow[onward.rows()]]
    links = [direct.link, there.link[~arrives], onward.link]
    shares = [direct.share * keep[direct.rows()], there.share[~arrives] * part, onward.share * part]
    return CsrWeighted.gathered(len(src), np.concatenate(rows), np.concatenate(links), np.concatenate(shares))


def _middle_ports(wiring: Wiring, detour: Detour, src: NDArray[np.int32], dst: NDArray[np.int32]) -> NDArray[np.int32]:
    """A used port in each intermediate group, flow-major."""
    one, other = src // detour.group_ports, dst // detour.group_ports
    pair = one.astype(np.uint64) * np.uint64(detour.groups) + other.astype(np.uint64)
    begin = hashing.pick(hashing.mix(pair), np.full(len(pair), detour.groups - 2, np.int32))
    slot = (begin[:, None] + np.arange(detour.intermediates)) % (detour.groups - 2)
    group = slot + (slot >= np.minimum(one, other)[:, None])
    group += group >= np.maximum(one, other)[:, None]
    filled = np.minimum(detour.group_ports, len(wiring.used) - group * detour.group_ports)
    lane = hashing.mix(src.astype(np.uint64))[:, None] ^ group.astype(np.uint64)
    within = hashing.pick(hashing.mix(lane), filled.astype(np.int32))
    middle: NDArray[np.int32] = (group * detour.group_ports + within).ravel().astype(np.int32)
    return middle


def _first_links(wiring: Wiring, port: NDArray[np.int32]) -> NDArray[np.int32]:
    table = wiring.routing
    return table.choices[table.first[table.record_ptr[port]]]
