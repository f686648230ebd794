"""Figures of a run for people: flow completion times, their tails by group, counts of packets."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from railyard.cluster import Cluster
    from railyard.engine.packet.lowering import LoweredTraffic
    from railyard.engine.packet.placing import Placed
    from railyard.engine.packet.running import PacketResult

_PS_PER_US = 1e6
POINTS = 200
"""Points of a distribution at most."""
MOST_GROUPS = 24


def figures(
    lowered: LoweredTraffic, result: PacketResult, placed: Placed, cluster: Cluster, left_out: list[str]
) -> dict[str, Any]:
    """What `result.json` has of a packet run."""
    flows = np.flatnonzero((lowered.label_of >= 0) & (result.finish_ps >= 0))
    fct = result.fct_ps[flows]
    groups = [("all", flows)]
    groups += [(label, flows[lowered.label_of[flows] == number]) for number, label in enumerate(lowered.labels)]
    return {
        "fct_us": _summary(fct, ("min", "mean", "p50", "p99", "p999", "max")),
        "fct_cdf": cdf(fct),
        "tails": [
            _tail(label, rows, result, lowered, placed, cluster)
            for label, rows in sorted(groups, key=lambda item: -len(item[1]))[:MOST_GROUPS]
            if len(rows)
        ],
        "packets": {**asdict(result.packets), "pauses": 0, "cnps": 0},
        "constants": {key: int(value) for key, value in result.constants.items()},
        "left_out": left_out,
    }


def cdf(fct_ps: NDArray[np.int64]) -> list[list[float]]:
    """At most `POINTS` points [us, share of flows that took no longer]; the last are the slowest flows."""
    if not len(fct_ps):
        return []
    ordered = np.sort(fct_ps)
    count = len(ordered)
    ranks = np.linspace(0, 1, POINTS // 2)
    tail = 1 - np.logspace(0, -np.log10(max(count, 10)), POINTS // 2)
    share = np.unique(np.concatenate([ranks, tail]))
    index = np.unique(np.clip(np.ceil(share * count).astype(np.int64) - 1, 0, count - 1))
    return [[float(ordered[at]) / _PS_PER_US, (int(at) + 1) / count] for at in index]


def _summary(fct_ps: NDArray[np.int64], names: tuple[str, ...]) -> dict[str, float | None]:
    if not len(fct_ps):
        return dict.fromkeys(names)
    ordered = np.sort(fct_ps)
    known = {"min": ordered[0], "mean": ordered.mean(), "max": ordered[-1]}
    known |= {key: _ranked(ordered, share) for key, share in (("p50", 0.5), ("p99", 0.99), ("p999", 0.999))}
    return {name: float(known[name]) / _PS_PER_US for name in names}


def _ranked(ordered: NDArray[np.int64], share: float) -> int:
    """The nearest-rank percentile of sorted values."""
    return int(ordered[max(0, int(np.ceil(share * len(ordered))) - 1)])


def _tail(
    label: str,
    rows: NDArray[np.int64],
    result: PacketResult,
    lowered: LoweredTraffic,
    placed: Placed,
    cluster: Cluster,
) -> dict[str, Any]:
    fct = result.fct_ps[rows]
    slowest = int(rows[np.argmax(fct)])
    ends = [
        host_name(placed, cluster, int(end[slowest])) for end in (lowered.traffic.source, lowered.traffic.target)
    ]
    found = _summary(fct, ("mean", "p50", "p99", "p999", "max"))
    return {
        "group": label,
        "flows": len(rows),
        **{f"{name}_us": value for name, value in found.items()},
        "slowest": "->".join(ends),
    }


def host_name(placed: Placed, cluster: Cluster, host: int) -> str:
    """A host for people: `h12` for a back-end port, `gpu 3` on scale-up, `s5` on storage."""
    if placed.scale_up >= 0 and host >= placed.scale_up:
        number = host - placed.scale_up
        return f"gpu {number}" if number < cluster.ranks else f"switch {number - cluster.ranks}"
    if placed.storage and host >= placed.storage:
        return f"s{host - placed.storage}"
    return f"h{host}"
