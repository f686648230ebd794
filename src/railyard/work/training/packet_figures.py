"""What a step of the packet engine adds to a variant of the result: flows, tails, queues."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypedDict

import numpy as np

from railyard.cluster.names import link_name
from railyard.measure.packets import Probed, packet_section
from railyard.measure.result.packet import PacketFigures, QueueRow, QueueSeries

if TYPE_CHECKING:
    from railyard.cluster import Cluster
    from railyard.graph import Record

_PS_PER_US = 1e6


class PacketNumbers(TypedDict, total=False):
    """What a variant says of packets: nothing where another engine ran."""

    packet: PacketFigures


def packets_of(timeline: Record, cluster: Cluster) -> PacketNumbers:
    """The packets of a variant, or nothing where another engine ran."""
    from railyard.engine.packet.flows import HostNames

    if "flows" not in timeline.parts:
        return {}
    flows = timeline.parts["flows"]
    section = packet_section(
        flows,
        flows.meta["packets"],
        constants={**flows.meta["constants"], "slice": float(timeline.meta["slice"])},
        left_out=timeline.meta["left_out"],
        probed=_queues(flows, cluster),
        name=HostNames(**flows.meta["hosts"]),
    )
    return {"packet": section}


def _queues(flows: Record, cluster: Cluster) -> Probed:
    """Depth, load, marks and pauses of the sampled links in time."""
    if "queue_series" not in flows.tables:
        return {}
    series, sampled = flows.table("queue_series"), flows.table("sampled_links")
    time, link, depth = series["time_ps"], sampled["link"], series["depth_bytes"]
    if not len(link):
        return {}
    span = np.maximum(np.diff(time, prepend=0), 1).astype(np.float64)[:, None]
    carried = np.diff(series["carried_bytes"], axis=0, prepend=0) * 8e12 / span / sampled["rate_bps"]
    paused = np.diff(series["paused_ps"], axis=0, prepend=0) / span
    marks = np.diff(series["marks"], axis=0, prepend=0)
    links = cluster.links
    order = np.argsort(-depth.sum(axis=0), kind="stable")
    rows = tuple(
        QueueRow(
            link=link_name(cluster, int(link[at])),
            tier=links.tiers[int(links.tier[link[at]])],
            depth_bytes=tuple(depth[:, at].tolist()),
            utilization=tuple(np.round(carried[:, at], 4).tolist()),
            marks=tuple(marks[:, at].tolist()),
            paused_share=tuple(np.round(paused[:, at], 4).tolist()),
        )
        for at in order.tolist()
    )
    return {"queues": QueueSeries(time_us=tuple((time / _PS_PER_US).tolist()), rows=rows)}
