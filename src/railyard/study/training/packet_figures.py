"""What a step of the packet engine adds to a variant of the result: flows, tails, queues."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from railyard.measure.packets import Flows, packet_section

if TYPE_CHECKING:
    from railyard.cluster import Cluster
    from railyard.engine.packet.timeline import PacketRun
    from railyard.graph import Timeline

_PS_PER_US = 1e6


def packets_of(timeline: Timeline, cluster: Cluster) -> dict[str, Any]:
    """`{"packet": ...}` of a variant, or nothing where another engine ran."""
    from railyard.engine.packet.timeline import PacketTimeline

    if not isinstance(timeline, PacketTimeline) or timeline.run is None:
        return {}
    run = timeline.run
    flows = Flows(
        source=run.source,
        target=run.target,
        size_bytes=run.size_bytes,
        start_ps=run.start_ps,
        finish_ps=run.finish_ps,
        group=run.group,
        groups=run.groups,
    )
    constants = {**run.constants, "slice": float(timeline.meta["slice"])}  # type: ignore[arg-type]
    section = packet_section(
        flows,
        run.packets,
        constants=constants,
        left_out=list(timeline.meta["left_out"]),  # type: ignore[call-overload]
        probed=_queues(run, cluster),
        name=run.hosts,
    )
    return {"packet": section}


def _queues(run: PacketRun, cluster: Cluster) -> dict[str, Any]:
    """`{"queues": ...}`: depth, load, marks and pauses of the sampled links in time."""
    samples = run.samples
    if not len(run.sampled) or not len(samples.time_ps):
        return {}
    time = samples.time_ps
    span = np.maximum(np.diff(time, prepend=0), 1).astype(np.float64)[:, None]
    carried = np.diff(samples.carried_bytes, axis=0, prepend=0) * 8e12 / span / run.sampled_bps
    paused = np.diff(samples.paused_ps, axis=0, prepend=0) / span
    marks = np.diff(samples.marks, axis=0, prepend=0)
    links = cluster.links
    order = np.argsort(-samples.depth_bytes.sum(axis=0), kind="stable")
    return {
        "queues": {
            "time_us": (time / _PS_PER_US).tolist(),
            "rows": [
                {
                    "link": cluster.link_name(int(run.sampled[at])),
                    "tier": links.tiers[int(links.tier[run.sampled[at]])],
                    "depth_bytes": samples.depth_bytes[:, at].tolist(),
                    "utilization": np.round(carried[:, at], 4).tolist(),
                    "marks": marks[:, at].tolist(),
                    "paused_share": np.round(paused[:, at], 4).tolist(),
                }
                for at in order.tolist()
            ],
        }
    }
