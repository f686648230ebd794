"""Flows over several queue pairs: what is split, and that results are of the flows that were given."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from railyard.engine.packet import Settings, Traffic, fat_tree, leaf_spine, run
from railyard.engine.packet.settings import split

RATE_BPS = 400 * 10**9
MSS = 4096
BASE = Settings(transport="rdma", load_balancing="ecmp", trim=False, queue_packets=100_000, mtu_bytes=4160)


@given(sizes=st.lists(st.integers(1, 40 * MSS), min_size=1, max_size=8), pairs=st.integers(1, 16))
@settings(max_examples=60, deadline=None)
def test_parts_hold_every_byte_and_no_packet_more(sizes: list[int], pairs: int) -> None:
    traffic = Traffic.of(8, np.arange(len(sizes)) % 7, 7, sizes)
    made = split(traffic, pairs, MSS)
    parts = made.traffic.size_bytes[made.rows : made.rows + len(made.flow_of)]
    assert (parts > 0).all()
    packets = -(-np.array(sizes) // MSS)
    assert (
        np.bincount(made.flow_of, minlength=len(sizes))
        == np.where(packets > 1, np.minimum(packets, pairs), 0) * (pairs > 1)
    ).all()
    for flow, size in enumerate(sizes):
        own = parts[made.flow_of == flow]
        if len(own):
            assert own.sum() == size
            assert (-(-own // MSS)).sum() == packets[flow]
            assert np.ptp(-(-own // MSS)) <= 1


def test_a_flow_over_many_paths_is_faster_than_over_one() -> None:
    """Uplinks that hashing leaves empty are found by more queue pairs (the law of balls in bins)."""
    leaf_hosts = 32
    source = np.arange(leaf_hosts)
    traffic = Traffic.of(64, source, source + leaf_hosts, 4_000_000)
    network = leaf_spine(64, leaf_hosts=leaf_hosts, spines=32, rate_bps=RATE_BPS)
    slowest = [
        np.mean([run(network, traffic, _with(pairs, seed)).duration_ps.max() for seed in range(5)])
        for pairs in (1, 4, 16)
    ]
    alone = run(network, Traffic.of(64, 0, 32, 4_000_000), BASE).duration_ps[0]
    shares = alone / np.array(slowest)
    assert shares[0] < shares[1] < shares[2]
    assert shares[0] == pytest.approx(0.28, abs=0.06)
    assert shares[2] == pytest.approx(0.64, abs=0.06)


def _with(pairs: int, seed: int = 0) -> Settings:
    return Settings(
        transport="rdma",
        load_balancing="ecmp",
        trim=False,
        queue_packets=100_000,
        mtu_bytes=4160,
        rdma_qps=pairs,
        seed=seed,
    )


def test_results_are_of_the_flows_given() -> None:
    network = fat_tree(16, rate_bps=RATE_BPS)
    traffic = Traffic.of(16, [0, 1, 2, 3], [4, 5, 6, 7], [100 * MSS, 1, 33 * MSS, 5])
    found = run(network, traffic, _with(8))
    assert len(found.duration_ps) == len(found.start_ps) == 4
    assert found.ended.all()
    assert (found.start_ps == 0).all()
    assert (found.column("receiver_finish_ps") < found.end_ps).all()
    assert found.meta["packets"]["new"] == 100 + 1 + 33 + 1


@pytest.mark.parametrize("at", [0, 1])
def test_what_waits_for_a_split_flow_waits_for_all_of_it(at: int) -> None:
    network = fat_tree(16, rate_bps=RATE_BPS)
    chain = Traffic.of(16, [0, 4, 8], [4, 8, 12], 50 * MSS).after([1, 2], [0, 1], at=at, delay_ps=[0, 7_000_000, 0])
    found = run(network, chain, _with(4))
    ends = found.column("receiver_finish_ps") if at else found.end_ps
    assert found.start_ps[1] == ends[0] + 7_000_000
    assert found.start_ps[2] == ends[1]


def test_some_of_several_are_enough() -> None:
    network = fat_tree(16, rate_bps=RATE_BPS)
    traffic = Traffic.of(16, [0, 1, 2], [4, 5, 6], [10 * MSS, 500 * MSS, 10 * MSS]).after(
        [2, 2], [0, 1], need=[0, 0, 1]
    )
    found = run(network, traffic, _with(4))
    assert found.start_ps[2] == found.end_ps[0] < found.end_ps[1]


def test_what_a_run_cut_short_did_not_finish_is_unfinished() -> None:
    network = fat_tree(16, rate_bps=RATE_BPS)
    traffic = Traffic.of(16, [0, 1], [4, 5], [400 * MSS, 10 * MSS], start_ps=[0, 90_000_000])
    cut = Settings(
        transport="rdma", load_balancing="ecmp", trim=False, queue_packets=1000, rdma_qps=4, end_ps=20_000_000
    )
    found = run(network, traffic, cut)
    assert found.start_ps.tolist() == [0, -1]
    assert found.end_ps.tolist() == [-1, -1]
