"""The packet engine's settings and round trips of a cluster, by hand."""

from __future__ import annotations

import pytest
from tests.agreement import yard

from railyard.cluster.topology import LeafSpine
from railyard.engine.packet.fabrics import settings_of
from railyard.engine.packet.placing import base_rtt_ps, typical_path_ps


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
