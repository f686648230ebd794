"""What ports of the packet network count over a run, from samples of their queues: how long each was full.

A port is full while a queue stands before it and nobody holds it back. One that its neighbour has paused, or that has
no credits, waits for somebody further down and carries less than it can: that time does not count.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

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
