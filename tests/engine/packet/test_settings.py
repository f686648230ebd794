"""The packet engine's settings and round trips of a cluster, by hand."""

from __future__ import annotations

import numpy as np
import pytest
from tests.agreement import yard

from railyard.cluster.fabric import fabrics
from railyard.cluster.topology import LeafSpine
from railyard.engine.packet import TUNABLE, Period, Retuning, Settings, Traffic, crossbar, leaf_spine, run
from railyard.engine.packet.fabrics import settings_of
from railyard.engine.packet.placing import base_rtt_ps, typical_path_ps
from railyard.kit.errors import InputError


def cluster(fabric: str, **overrides: object):
    return yard.machine(64, fabric, LeafSpine(ports_per_leaf=16), overrides=overrides)


def test_the_round_trip_is_the_longest_path_twice_and_a_packet_on_every_link() -> None:
    """64 ports under 4 leaves of RoCE: cables of 14.28 ns (3 m) and 150 ns (30 m), 0.9 us a hop, 400 Gb/s.

    There: 14.28 + (900 + 150) + (900 + 150) + (900 + 14.28) = 3,028.56 ns over 4 links, NICs left out. Packet and
    acknowledgement on each: 8 x 4 x (4,096 + 64) bits / 400 Gb/s = 332.8 ns. 2 x 3,028.56 + 332.8 = 6,389.92 ns.
    """
    assert base_rtt_ps(cluster("roce"), 4096, 64) == 6_389_920


def test_the_round_trip_of_an_ideal_fabric_is_that_of_a_typical_path() -> None:
    """Hops of 0.35 us: 14.28 + 364.28 = 378.56 ns below a leaf, 14.28 + 2 x 500 + 364.28 = 1,378.56 ns half-way round.

    Their mean is 878.56 ns; a packet and its acknowledgement cross two links: 8 x 2 x 4,160 bits / 400 Gb/s = 166.4 ns.
    """
    ideal = cluster("ideal")
    assert typical_path_ps(ideal, ideal.back_end) == 878_560
    assert base_rtt_ps(ideal, 4096, 64) == 1_923_520


def test_queue_pairs_of_the_fabric_are_the_transports() -> None:
    made = cluster("roce", qps=7)
    settings = settings_of(made, made.fabric)
    assert settings.rdma_qps == 7
    assert (settings.header_bytes, settings.mtu_bytes) == (82, 4096 + 82)


def test_queue_pairs_are_of_no_meaning_to_other_transports() -> None:
    made = cluster("uec", qps=7)
    assert settings_of(made, made.fabric).rdma_qps == 1


@pytest.mark.parametrize(("hop_latency_ps", "packets"), [(350_000, 512), (9_350_000, 921)])
def test_a_constant_window_is_two_products_of_bandwidth_and_delay(hop_latency_ps: int, packets: int) -> None:
    """At least 512 packets. Hops of 9.35 us: 9,378.56 and 28,378.56 ns, mean 18,878.56.

    2 x 18,878.56 + 8 x 2 x (4,122 + 26) bits / 400 Gb/s = 37,923.04 ns of 50 bytes: 1,896,152 bytes, twice that is
    920.02 packets of 4,122 bytes.
    """
    ideal = cluster("ideal", hop_latency_ps=hop_latency_ps)
    assert settings_of(ideal, ideal.fabric).window_packets == packets


def test_another_load_balancing_of_the_record_is_that_of_its_packets() -> None:
    """InfiniBand that routes by destination places in order; RoCE whose switches route adaptively does not."""
    static, adaptive = cluster("infiniband", load_balancing="ecmp"), cluster("roce", load_balancing="adaptive")
    settings = settings_of(static, static.fabric)
    assert (settings.load_balancing, settings.rdma_out_of_order) == ("ecmp", False)
    settings = settings_of(adaptive, adaptive.fabric)
    assert (settings.load_balancing, settings.rdma_out_of_order) == ("adaptive", True)


# Settings that change during a run: counted periods, the same run where nothing changes, refusals.

US = 1_000_000
ROCE = fabrics.get("roce").packets.constants
NETWORK = leaf_spine(8, leaf_hosts=4, spines=2, rate_bps=int(400e9))
INCAST = Traffic.of(8, np.arange(1, 8), np.zeros(7), np.full(7, 1_500_000))


def went(decide, period_ps=20 * US, **changed):
    return run(NETWORK, INCAST, Settings(**{**ROCE, **changed}), retuning=Retuning(period_ps, decide))


def test_periods_add_up_and_a_run_that_nobody_changes_is_the_same():
    seen: list[Period] = []
    record = went(lambda period: seen.append(period) or {})
    assert record.meta["digest"] == run(NETWORK, INCAST, Settings(**ROCE)).meta["digest"]
    assert [period.end_ps for period in seen] == [20 * US * (at + 1) for at in range(len(seen))]
    assert sum(period.delivered_bytes for period in seen) <= 7 * 1_500_000
    # 400 Gb/s into one host: at most 1 MB in 20 us, and nearly so while all send.
    assert 0.8e6 < seen[3].delivered_bytes < 1.0e6
    assert sum(period.pauses for period in seen) <= record.meta["packets"]["pauses"]


def test_thresholds_that_fall_mark_more_from_then_on():
    plain = run(NETWORK, INCAST, Settings(**ROCE))
    low = {"marking_low_bytes": 5_000, "marking_high_bytes": 20_000, "marking_most": 1.0}
    changed = went(lambda period: low if period.end_ps == 40 * US else {}, 2 * US)
    first = went(lambda period: low if period.end_ps == 2 * US else {}, 2 * US)
    counts = [record.meta["packets"]["marked"] for record in (plain, changed, first)]
    assert counts[0] < counts[1]
    assert counts[0] < counts[2]
    assert changed.meta["digest"] != first.meta["digest"]


def test_rates_that_rise_sooner_end_sooner():
    fast = {"dcqcn_additive_bps": 20e9, "dcqcn_increase_interval_ps": 5 * US}
    permuted = Traffic.of(8, np.arange(8), (np.arange(8) + 4) % 8, np.full(8, 8_000_000))
    ends = [
        run(
            NETWORK, permuted, Settings(**ROCE, seed=3), retuning=Retuning(50 * US, lambda _, one=one: one)
        ).end_ps.max()
        for one in ({}, fast)
    ]
    assert ends[1] < 0.95 * ends[0]


def test_what_may_not_change_is_refused():
    assert "marking_low_bytes" in TUNABLE
    with pytest.raises(InputError, match="cannot change during a run"):
        went(lambda _: {"mtu_bytes": 1500})
    with pytest.raises(InputError, match="out of range"):
        went(lambda _: {"marking_most": 1.5})
    with pytest.raises(InputError, match="switches with PFC"):
        run(NETWORK, INCAST, Settings(), retuning=Retuning(US, lambda _: {}))


# Samples of queues and flows against what must hold of them.

G400 = 400 * 10**9


def test_an_incast_fills_one_queue_and_no_other():
    network = crossbar(8, rate_bps=G400)
    traffic = Traffic.of(8, np.arange(1, 8), 0, 1_000_000)
    settings = Settings(sample_ps=US, sample_links=tuple(range(network.links)), sample_flows=(0, 3))
    found = run(network, traffic, settings)
    seen = {**found.table("flow_series"), **found.table("queue_series")}
    assert (np.diff(seen["time_ps"]) == US).all()
    assert seen["time_ps"][0] == 0
    busy = np.flatnonzero(network.link_target == 0)[0]
    switch = network.link_source >= 8
    others = switch & (np.arange(network.links) != busy)
    assert seen["depth_bytes"][:, busy].max() > 10 * 4150
    assert seen["depth_bytes"][:, others].max() <= 4150
    assert (np.diff(seen["carried_bytes"], axis=0) >= 0).all()
    # A link carries no more in a sampling time than its rate allows, but for the packet that has just begun.
    assert np.diff(seen["carried_bytes"], axis=0).max() <= G400 / 8 * 1e-6 + 4150
    assert seen["marks"][-1, busy] > 0
    assert (seen["window_bytes"][2:] > 0).all()
    assert seen["window_bytes"][-1].max() < seen["window_bytes"][1].max()  # the incast has cut the windows


def test_sampling_changes_nothing():
    network = crossbar(8, rate_bps=G400)
    traffic = Traffic.of(8, np.arange(1, 8), 0, 1_000_000)
    plain = run(network, traffic, Settings())
    seen = run(network, traffic, Settings(sample_ps=US, sample_links=tuple(range(network.links))))
    assert plain.digest() == seen.digest()
