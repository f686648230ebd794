"""What the core counts on links, in all and over time."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from railyard.engine.faults import LINK_FACTOR
from railyard.kit.errors import InputError

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from railyard import _core
    from railyard.cluster.links import LinkTable
    from railyard.engine.contract import Probes
    from railyard.engine.faults import FaultColumns
    from railyard.graph.record import Table

PS_PER_S = 1e12
EVEN = 0.999
"""Of the rate of the fastest member of a bundle: others above it are as fast."""


def chosen(probes: Probes, links: LinkTable) -> NDArray[np.int32]:
    """The physical links that a user wants to see.

    Raises:
        InputError: One does not exist.
    """
    if probes.links is None:
        return np.arange(links.physical, dtype=np.int32)
    link = np.asarray(probes.links, np.int64).ravel()
    bad = link[(link < 0) | (link >= links.physical)]
    if bad.size:
        raise InputError(
            "there is no such link", key="probes.links", found=bad[0], allowed=f"0 to {links.physical - 1}"
        )
    return link.astype(np.int32)


def wanted(probes: Probes, links: LinkTable) -> NDArray[np.int32]:
    """The links that the core has to record: the chosen ones and the bundles that they are part of."""
    if probes.windows:
        return np.arange(len(links.rate_bps), dtype=np.int32)
    if probes.samples == 0:
        return np.empty(0, np.int32)
    link = chosen(probes, links)
    bundle = links.bundle_of[link]
    return np.unique(np.concatenate([link, bundle[bundle >= 0]])).astype(np.int32)


def counters(result: _core.Result, changes: FaultColumns, links: LinkTable) -> Table:
    """What ports count over the run: bytes and, where it was asked for, the time for which a link was full.

    Of a bundle those members are full that are slower than the others, for these have room; all where none is slower.
    """
    table = {"bytes": result.link_bytes}
    full = result.link_full_ps
    if not len(full):
        return table
    least, most = np.ones(len(full)), np.zeros(len(full))
    rows = changes.kind == LINK_FACTOR
    np.minimum.at(least, changes.target[rows], changes.value[rows])
    member = np.flatnonzero(links.bundle_of >= 0)
    bundle = links.bundle_of[member]
    np.minimum.at(least, bundle, least[member])
    np.maximum.at(most, bundle, least[member])
    uneven = least[bundle] < EVEN * most[bundle]
    spread = full.copy()
    spread[member] += np.where(~uneven | (least[member] < EVEN * most[bundle]), full[bundle], 0)
    return {**table, "full_ps": spread}


def series(result: _core.Result, probes: Probes, links: LinkTable) -> dict[str, Table]:
    """Utilization of the chosen links as tables: their own load and their part of their bundle's, over their rate."""
    if probes.samples == 0 and probes.windows == 0:
        return {}
    recorded, link = wanted(probes, links), chosen(probes, links)
    interval = result.probe_interval_ps
    used = -(-int(result.end_ps.max(initial=0)) // interval)
    load = result.probe_bytes.reshape(-1, max(len(recorded), 1))[:used] * (8 * PS_PER_S / interval)
    share = np.divide(load, links.rate_bps[recorded], out=np.zeros_like(load), where=links.rate_bps[recorded] > 0)
    utilization = share[:, np.searchsorted(recorded, link)]
    bundle = links.bundle_of[link]
    member = np.flatnonzero(bundle >= 0)
    utilization[:, member] += share[:, np.searchsorted(recorded, bundle[member])]
    time_ps = np.arange(len(load), dtype=np.int64) * interval
    if probes.windows:
        return {"link_windows": {"time_ps": time_ps, "load": in_bytes(utilization)}}
    return {
        "sampled_links": {"link": link},
        "link_series": {"time_ps": time_ps, "utilization": utilization.astype(np.float32)},
    }


FULL = 255
"""Of a load in a byte: all that a link can carry."""


def in_bytes(utilization: NDArray[np.float64]) -> NDArray[np.uint8]:
    """Shares from 0 to 1 as bytes, rounded."""
    return np.clip(np.rint(utilization * FULL), 0, FULL).astype(np.uint8)
