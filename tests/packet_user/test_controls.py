"""HPCC and Swift in the engine: shares, queues and bounds."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from railyard.engine import packet

if TYPE_CHECKING:
    from railyard.graph import Record

RATE_BPS = 400 * 10**9
MTU, HEADER = 4160, 64
WIRE = MTU / (MTU - HEADER)


def go(traffic: packet.Traffic, control: str, **changed: Any) -> Record:
    base: dict[str, Any] = {
        "transport": "rdma",
        "load_balancing": "ecmp",
        "trim": False,
        "mtu_bytes": MTU,
        "queue_packets": 20_000,
        "rdma_control": control,
    }
    network = packet.crossbar(traffic.hosts, rate_bps=RATE_BPS)
    return packet.run(network, traffic, packet.Settings(**{**base, **changed}))


def seconds(size_bytes: float) -> float:
    return size_bytes * WIRE * 8 / RATE_BPS


@pytest.mark.parametrize(("control", "utilization"), [("hpcc", 0.95), ("swift", 1.0)])
@pytest.mark.parametrize("flows", [2, 5])
def test_flows_that_begin_together_share_alike(control: str, utilization: float, flows: int) -> None:
    size = 20_000_000
    found = go(packet.Traffic.of(flows + 1, np.arange(1, flows + 1), 0, size), control)
    times = found.duration_ps * 1e-12
    expected = flows * seconds(size) / utilization
    assert times.max() == pytest.approx(expected, rel=0.05)
    assert times.min() > 0.85 * times.max()
    assert found.meta["packets"]["dropped"] == 0


@pytest.mark.parametrize(("control", "changed"), [("hpcc", {"hpcc_increase_share": 0.01}), ("swift", {})])
def test_a_flow_that_comes_later_gets_its_half(control: str, changed: dict[str, Any]) -> None:
    """The first has the link for itself, then both have half of it: what is left over is small against the whole."""
    size, later_s = 80_000_000, 200e-6
    traffic = packet.Traffic.of(3, [1, 2], 0, size, start_ps=[0, int(later_s * 1e12)])
    times = go(traffic, control, **changed).end_ps * 1e-12
    whole = 2 * seconds(size)
    first = later_s + 2 * (seconds(size) - later_s)
    assert times[0] == pytest.approx(first, rel=0.12)
    assert times[1] == pytest.approx(whole, rel=0.12)


def test_hpcc_keeps_the_queue_short_where_line_rate_fills_it() -> None:
    traffic = packet.Traffic.of(9, np.arange(1, 9), 0, 4_000_000)
    marks = {
        control: go(traffic, control, ecn_low_packets=150, ecn_high_packets=151).meta["packets"]["marked"]
        for control in ("hpcc", "line-rate")
    }
    assert marks["hpcc"] < 0.25 * marks["line-rate"]


def test_swift_holds_the_delay_at_its_target() -> None:
    """Two windows on one link settle where the round trip is the target: base and hops, as windows are large."""
    target_ps, hop_ps = 12_000_000, 1_000_000
    traffic = packet.Traffic.of(3, [1, 2], 0, 40_000_000)
    found = go(
        traffic,
        "swift",
        swift_base_target_ps=target_ps,
        swift_hop_target_ps=hop_ps,
        swift_scaling_range_ps=0,
        sample_ps=1_000_000,
        sample_links=(2 * 3 - 3,),
    )
    depth = found.table("queue_series")["depth_bytes"]
    settled = depth[len(depth) // 3 : 2 * len(depth) // 3]
    queueing_ps = settled.mean() * 8 / RATE_BPS * 1e12
    base_ps = 4_000_000 + 8 * (2 * MTU + 2 * 64) / RATE_BPS * 1e12
    assert base_ps + queueing_ps == pytest.approx(target_ps + 2 * hop_ps, rel=0.1)


@pytest.mark.parametrize("control", ["hpcc", "swift"])
def test_nothing_is_faster_than_light_and_line(control: str) -> None:
    size = 1_000_000
    found = go(packet.Traffic.of(2, 1, 0, size), control)
    assert found.duration_ps[0] * 1e-12 >= seconds(size) + 4e-6
