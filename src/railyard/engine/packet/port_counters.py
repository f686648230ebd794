"""What ports of the packet network count over a run, from samples of their queues: how long each was full.

A port is full while a queue stands before it and nobody holds it back. One that its neighbour has paused, or that has
no credits, waits for somebody further down and carries less than it can: that time does not count.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from railyard.engine.probing import in_bytes

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from railyard.engine.packet.placing import Placed
    from railyard.graph import Record

STANDS = 5
"""Full packets in a queue from which it stands: fewer come together by chance."""

SAMPLES = 1000
"""Of a run whose ports count: a port that is full for a thousandth of it is seen about once."""

MOST = 2_000_000
"""Samples of all links together; long lists of links are sampled less often."""


def samples_of(links: int) -> int:
    """How often to sample so many links."""
    return max(1, min(SAMPLES, MOST // max(links, 1)))


def full_ps(
    found: Record, placed: Placed, sampled: NDArray[np.int64], links: int, packet_bytes: int
) -> NDArray[np.int64]:
    """int64[links of the cluster], how long each was full, in the time of the run.

    Args:
        found: Of the flows, with `queue_series`.
        placed: Which link of the cluster is which of the network.
        sampled: int64[], sampled links, in the network's numbers.
        links: Of the cluster, bundles included.
        packet_bytes: A full packet.
    """
    series = found.table("queue_series")
    span = np.diff(series["time_ps"], prepend=0)[:, None]
    held = np.minimum(np.diff(series["paused_ps"], axis=0, prepend=0) / np.maximum(span, 1), 1.0)
    stands = series["depth_bytes"] > STANDS * packet_bytes
    counted = np.zeros(links, np.int64)
    counted[placed.link[sampled]] = (stands * (1 - held) * span).sum(axis=0).astype(np.int64)
    return counted


def load_windows(
    found: Record, placed: Placed, sampled: NDArray[np.int64], links: int, *, most: int, factor: float
) -> dict[str, NDArray[Any]]:
    """The load of every link in windows of time, as `link_windows` has it; of links that were not sampled none.

    Args:
        found: Of the flows, with `queue_series`.
        placed: Which link of the cluster is which of the network.
        sampled: int64[], sampled links, in the network's numbers.
        links: Physical ones of the cluster.
        most: Windows at most.
        factor: By which times of the run are longer than those of the series.
    """
    series, rate_bps = found.table("queue_series"), found.table("sampled_links")["rate_bps"]
    ends = np.arange(len(series["time_ps"]))[:: -max(-(-len(series["time_ps"]) // most), 1)][::-1]
    time_ps = np.concatenate([[0], series["time_ps"][ends]])
    carried = np.diff(series["carried_bytes"][ends], axis=0, prepend=0)
    share = carried * 8e12 / np.maximum(np.diff(time_ps), 1)[:, None] / rate_bps
    load = np.zeros((len(ends), links), np.uint8)
    known = placed.link[sampled] < links
    load[:, placed.link[sampled[known]]] = in_bytes(share[:, known])
    return {"time_ps": np.rint(time_ps[:-1] * factor).astype(np.int64), "load": load}


def thinned(found: Record, sampled: NDArray[np.int64], kept: NDArray[np.int64], samples: int) -> Record:
    """The run with samples of fewer links, about so many times.

    Args:
        found: Of the flows, with `queue_series`.
        sampled: int64[], sampled links, ascending.
        kept: int64[], those that stay.
        samples: About how often.
    """
    if not len(kept):
        return replace(found, tables={name: table for name, table in found.tables.items() if name != "queue_series"})
    series = found.table("queue_series")
    step = max(len(series["time_ps"]) // max(samples, 1), 1)
    columns = np.searchsorted(sampled, kept)
    thin = {name: values[::step][:, columns] for name, values in series.items() if values.ndim > 1}
    return replace(found, tables={**found.tables, "queue_series": {"time_ps": series["time_ps"][::step], **thin}})
