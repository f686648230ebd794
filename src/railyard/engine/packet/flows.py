"""The flows beneath a step: what was sent between NICs, and what was sampled on the way, as a record of its own."""

from __future__ import annotations

from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from railyard.engine.probing import in_bytes
from railyard.graph import Label, Record

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from railyard.cluster import Cluster
    from railyard.engine.packet.assembly import LoweredTraffic
    from railyard.engine.packet.placing import Placed


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


@dataclass(frozen=True)
class HostNames:
    """Names of the hosts of a placed cluster.

    Attributes:
        ranks: Of the cluster.
        storage: First host of a storage network of its own, 0 where there is none.
        scale_up: First host on scale-up, -1 where scale-up is not made of packets.
    """

    ranks: int
    storage: int
    scale_up: int

    def __call__(self, host: int) -> str:
        """`h12` for a back-end port, `gpu 3` and `switch 0` on scale-up, `s5` on storage."""
        if 0 <= self.scale_up <= host:
            number = host - self.scale_up
            return f"gpu {number}" if number < self.ranks else f"switch {number - self.ranks}"
        return f"s{host - self.storage}" if 0 < self.storage <= host else f"h{host}"


def flows_of(
    lowered: LoweredTraffic,
    found: Record,
    placed: Placed,
    cluster: Cluster,
    sampled: NDArray[np.int64],
    *,
    background: dict[str, NDArray[np.int64]],
) -> Record:
    """The flows of a run, without the work between them. Times are those of the slice that was simulated.

    Args:
        lowered: What was sent.
        found: What came of it.
        placed: Where.
        cluster: The cluster.
        sampled: int64[links], sampled links, in the packet network's numbers.
        background: How long flows of background traffic take without the step, see `background.alone`.

    Returns:
        `meta` has `packets` by kind, `constants` with their units in the name, and the fields of `HostNames`.
    """
    rows = np.flatnonzero(lowered.label_of >= 0)
    traffic = lowered.traffic
    hosts = asdict(HostNames(cluster.ranks, placed.storage, placed.scale_up))
    tables = {name: table for name, table in found.tables.items() if name == "queue_series"}
    if tables:
        rate_bps = placed.network.rate_bps[sampled].astype(np.float64)
        tables["sampled_links"] = {"link": placed.link[sampled].astype(np.int32), "rate_bps": rate_bps}
    if background:
        tables["background"] = background
    return Record(
        rows="flows",
        who=np.asarray(traffic.source[rows], np.int32),
        what=lowered.label_of[rows],
        start_ps=found.start_ps[rows],
        end_ps=found.end_ps[rows],
        size_bytes=traffic.size_bytes[rows],
        labels=[Label("", name) for name in lowered.labels],
        optional={"target": traffic.target[rows]},
        tables=tables,
        meta={"engine": "packet", **{key: found.meta[key] for key in ("packets", "constants")}, "hosts": hosts},
    )
