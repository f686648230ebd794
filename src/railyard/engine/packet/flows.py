"""The flows beneath a step: what was sent between NICs, and what was sampled on the way, as a record of its own."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING

import numpy as np

from railyard.graph import Label, Record

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from railyard.cluster import Cluster
    from railyard.engine.packet.assembly import LoweredTraffic
    from railyard.engine.packet.placing import Placed


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
