"""What a packet run has beside a timeline: its flows through NICs and what was sampled on the way."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING

import numpy as np

from railyard.graph import Timeline

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from railyard.cluster import Cluster
    from railyard.engine.packet.assembly import LoweredTraffic
    from railyard.engine.packet.placing import Placed
    from railyard.engine.packet.running import PacketResult, Samples


@dataclass(frozen=True, eq=False)
class PacketRun:
    """The flows of a run, one row each, and what was sampled. Times are those of the slice that was simulated.

    Attributes:
        source: int32[flows], sending host.
        target: int32[flows], receiving host.
        size_bytes: int64[flows].
        start_ps: int64[flows].
        finish_ps: int64[flows], when the sender had the last acknowledgement.
        group: int32[flows], index into `groups`.
        groups: Names such as "dp all-reduce".
        packets: Counts of packets by kind.
        constants: Derived constants of transport and switches, unit in the name.
        samples: Queues in time.
        sampled: int64[links], the cluster's ids of the sampled links.
        sampled_bps: float64[links], their rates.
        hosts: Names of the hosts, by number.
    """

    source: NDArray[np.int32]
    target: NDArray[np.int32]
    size_bytes: NDArray[np.int64]
    start_ps: NDArray[np.int64]
    finish_ps: NDArray[np.int64]
    group: NDArray[np.int32]
    groups: tuple[str, ...]
    packets: dict[str, int]
    constants: dict[str, int]
    samples: Samples
    sampled: NDArray[np.int64]
    sampled_bps: NDArray[np.float64]
    hosts: HostNames


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


@dataclass(frozen=True)
class PacketTimeline(Timeline):
    """A timeline that a packet run gave.

    Attributes:
        run: Its flows; None for a timeline that was read from a file.
    """

    run: PacketRun | None = field(default=None, repr=False)


def run_of(
    lowered: LoweredTraffic, result: PacketResult, placed: Placed, cluster: Cluster, sampled: NDArray[np.int64]
) -> PacketRun:
    """The flows of a run.

    Args:
        lowered: What was sent.
        result: What came of it.
        placed: Where.
        cluster: The cluster.
        sampled: int64[links], sampled links, in the packet network's numbers.
    """
    rows = np.flatnonzero(lowered.label_of >= 0)
    traffic = lowered.traffic
    return PacketRun(
        source=traffic.source[rows],
        target=traffic.target[rows],
        size_bytes=traffic.size_bytes[rows],
        start_ps=result.start_ps[rows],
        finish_ps=result.finish_ps[rows],
        group=lowered.label_of[rows],
        groups=lowered.labels,
        packets={key: int(value) for key, value in asdict(result.packets).items()},
        constants={key: int(value) for key, value in result.constants.items()},
        samples=result.samples,
        sampled=placed.link[sampled],
        sampled_bps=placed.network.rate_bps[sampled].astype(np.float64),
        hosts=HostNames(cluster.ranks, placed.storage, placed.scale_up),
    )
