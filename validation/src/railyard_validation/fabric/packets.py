"""Packet runs that several figures share."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from railyard.cluster.fabric.roce import PACKETS as ROCE
from railyard.engine.packet import PacketNetwork, Settings, Traffic, leaf_spine, run
from railyard.graph import CollectiveKind, Communicators, Kind, Label, Stream, TaskGraph

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from railyard.graph import Record

RATE_BPS = 400 * 10**9
ROCE_SETTINGS = Settings(**ROCE.constants)
PAUSES_ALONE = replace(ROCE_SETTINGS, rdma_control="line-rate", rdma_notification="none")
SCHEDULED = Settings(
    transport="rdma", switching="scheduled", load_balancing="ecmp", trim=False, mtu_bytes=4178, header_bytes=82,
    rdma_control="line-rate", rdma_control_bytes=86,
)  # fmt: skip

ELEPHANT_BYTES = 40_000_000
"""Long enough (0.8 ms alone) that start and end are two percent."""

_PS = 10**12


def wire_ps(size_bytes: int, settings: Settings, rate_bps: int = RATE_BPS) -> float:
    """Time of a flow's packets on one link, headers with them."""
    header_bytes: int = settings.header_bytes
    packets: int = -(-size_bytes // (settings.mtu_bytes - header_bytes))
    return 8 * _PS * (size_bytes + packets * header_bytes) / rate_bps


def permutation(hosts: int, size_bytes: int, seed: int) -> Traffic:
    """Every host sends to another one and receives from another one."""
    order = np.random.default_rng(seed + 1).permutation(hosts)
    return Traffic.of(hosts, order, np.roll(order, 1), size_bytes)


def leaf_to_leaf(
    qps: int, settings: Settings, *, uplinks: int = 32, up_rate_bps: int | None = None
) -> tuple[PacketNetwork, Traffic, Record]:
    """The 32 hosts of a leaf send an elephant each to those of another leaf, split over queue pairs of their own."""
    network = leaf_spine(64, leaf_hosts=32, spines=uplinks, rate_bps=RATE_BPS, up_rate_bps=up_rate_bps)
    source = np.repeat(np.arange(32), qps)
    traffic = Traffic.of(64, source, source + 32, ELEPHANT_BYTES // qps)
    return network, traffic, run(network, traffic, settings)


def slowest_share(found: Record, settings: Settings) -> float:
    """Rate of the slowest of 32 elephants over that of one alone."""
    return wire_ps(ELEPHANT_BYTES, settings) / float(found.end_ps.max())


def microseconds(found: Record) -> NDArray[np.float64]:
    """Completion times in ascending order, us."""
    return np.sort(found.duration_ps / 1e6)


def all_reduces(ranks: int, members: Sequence[NDArray[np.int64]], size_bytes: int) -> TaskGraph:
    """An all-reduce of each group of ranks, all at once."""
    return TaskGraph.of(
        ranks,
        kind=Kind.COLLECTIVE,
        rank=np.arange(len(members)),
        size_bytes=size_bytes,
        collective=CollectiveKind.ALL_REDUCE,
        stream=Stream.GRADIENT,
        labels=[Label("gradient", "all-reduce", "dp")],
        communicators=Communicators.of(members, "dp"),
    )
