"""Messages of one connection: they share paths and what the sender has learnt of them."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from railyard.cluster.fabric.uec import PACKETS as UEC
from railyard.engine.packet import Settings, Traffic, fat_tree, leaf_spine, run
from railyard.engine.packet.settings import split
from railyard.work.scenario.packet import assign, fabric
from railyard.work.traffic.simulate import TrafficRun
from railyard.work.traffic.simulate import run as simulate_run

if TYPE_CHECKING:
    from pathlib import Path

RATE_BPS = 400 * 10**9
PAIRS, MESSAGES, SIZE = 8, 6, 400_000


def messages(connection):
    """Eight hosts send six messages each, one after another, to another leaf."""
    source = np.tile(np.arange(PAIRS), MESSAGES)
    flows = len(source)
    chained = Traffic.of(2 * PAIRS, source, source + PAIRS, SIZE)
    waits = (np.arange(flows) >= PAIRS).astype(np.int64)
    return replace(
        chained,
        start_ps=np.where(waits, -1, 0),
        dep_ptr=np.concatenate([[0], np.cumsum(waits)]),
        dep_idx=np.arange(flows - PAIRS, dtype=np.int32),
        dep_at=np.ones(flows - PAIRS, np.uint8),
        need=waits.astype(np.int32),
        connection=connection,
    )


def slow_spine():
    """One of eight spines takes a quarter of what the others take from the first leaf."""
    network = leaf_spine(2 * PAIRS, leaf_hosts=PAIRS, spines=8, rate_bps=RATE_BPS)
    rate = network.rate_bps.copy()
    rate[np.flatnonzero((network.link_source == 2 * PAIRS) & (network.link_target >= 2 * PAIRS + 2))[0]] //= 4
    return replace(network, rate_bps=rate)


@pytest.mark.parametrize(("balancing", "share"), [("mixed", 0.9), ("reps", 0.97)])
def test_later_messages_avoid_the_slow_link_that_the_first_has_met(balancing, share):
    settings = Settings(**UEC.constants | {"load_balancing": balancing})
    own = run(slow_spine(), messages(None), settings)
    shared = run(slow_spine(), messages(np.tile(np.arange(PAIRS, dtype=np.uint32), MESSAGES)), settings)
    first, later = slice(0, PAIRS), slice(PAIRS, None)
    assert shared.duration_ps[first].mean() == pytest.approx(own.duration_ps[first].mean(), rel=0.1)
    assert shared.duration_ps[later].mean() < share * own.duration_ps[later].mean()


def test_an_entropy_leads_every_message_of_a_connection_over_the_same_links():
    """With one entropy for all packets, six messages load one uplink, six connections several."""
    network, settings = slow_spine(), Settings(load_balancing="ecmp")
    uplinks = (network.link_source == 2 * PAIRS) & (network.link_target >= 2 * PAIRS + 2)
    used = []
    for connection in (np.zeros(MESSAGES, np.uint32), np.arange(MESSAGES, dtype=np.uint32)):
        traffic = replace(Traffic.of(2 * PAIRS, np.zeros(MESSAGES), 9, SIZE), connection=connection)
        used.append(int((run(network, traffic, settings).table("links")["bytes"][uplinks] > SIZE / 2).sum()))
    assert used[0] == 1 < used[1]


def trimmed(sizes, connection):
    """Packets trimmed of messages that two hosts of one leaf each begin at once, to one host of another."""
    source = np.repeat([0, 1], len(sizes))
    traffic = Traffic.of(2 * PAIRS, source, PAIRS, np.tile(sizes, 2))
    settings = Settings(**UEC.constants)
    record = run(slow_spine(), replace(traffic, connection=connection), settings)
    assert record.ended.all()
    return record.meta["packets"]["trimmed"]


def test_messages_of_a_connection_share_one_window():
    """Eight at once lose about what one message of their bytes loses; eight windows lose twice as much."""
    one = trimmed([8 * SIZE], None)
    assert trimmed([SIZE] * 8, np.repeat([0, 1], 8).astype(np.uint32)) == pytest.approx(one, rel=0.25)
    assert trimmed([SIZE] * 8, None) > 1.6 * one


def alone(connection):
    """Eight messages of twelve full packets that one host sends at once to its neighbour."""
    network = leaf_spine(2, leaf_hosts=2, spines=1, rate_bps=RATE_BPS)
    settings = Settings(**UEC.constants)
    size = 12 * (settings.mtu_bytes - settings.header_bytes)
    return run(network, replace(Traffic.of(2, np.zeros(8), 1, size), connection=connection), settings)


def test_messages_of_a_connection_go_out_one_after_another():
    """12 packets of 4,218 bytes take 1.012 us at 400 Gbit/s; eight connections take turns and end together."""
    message_ps = 12 * 4218 * 8 * 10**12 // RATE_BPS
    received = np.sort(alone(np.zeros(8, np.uint32)).column("receiver_finish_ps"))
    assert np.diff(received) == pytest.approx(message_ps, rel=0.01)
    apart = np.sort(alone(None).column("receiver_finish_ps"))
    assert apart[-1] == pytest.approx(received[-1], rel=0.01)
    assert apart[-1] - apart[0] < 1.5 * message_ps


def test_messages_of_a_connection_are_acknowledged_together():
    """One for the first packet, one for each four more (16,384 bytes), one for the last of a message: 1 + 3 + 7 x 3."""
    assert alone(np.zeros(8, np.uint32)).meta["packets"]["acks"] == pytest.approx(25, abs=1)
    assert alone(None).meta["packets"]["acks"] == pytest.approx(8 * 4, abs=1)


@pytest.mark.parametrize("control", ["nscc", "rccc", "nscc+rccc", "constant"])
def test_a_connection_that_was_idle_sends_again(control):
    """Six messages, each begun when the one before has arrived, take six times as long as one, and no timeout."""
    network, settings = leaf_spine(16, leaf_hosts=8, spines=8, rate_bps=RATE_BPS), Settings(**UEC.constants)
    traffic = messages(np.tile(np.arange(PAIRS, dtype=np.uint32), MESSAGES))
    record = run(network, traffic, replace(settings, congestion_control=control))
    assert record.meta["packets"]["timeouts"] == 0
    received = record.column("receiver_finish_ps").reshape(MESSAGES, PAIRS)
    assert received[-1] == pytest.approx(MESSAGES * received[0], rel=0.1)


# Flows over several queue pairs: what is split, and that results are of the flows that were given.

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


# Incasts end when their receiver's link has carried them, whatever their size: no cliff where buffers end.

INCAST_SIZES_RATE_BPS = 400e9


def over_ideal(folder: Path, name: str, senders: list[int], size_bytes: int, *sets: str, seed: int = 0) -> float:
    """The last finish over the time of all bytes on the receiver's link, headers left out."""
    traffic = folder / "incast.csv"
    rows = [f"{source},64,{size_bytes},0" for source in senders]
    traffic.write_text("\n".join(["source,target,size_bytes,start_us", *rows]) + "\n")
    preset = fabric(name)
    found = simulate_run(TrafficRun(traffic, None, preset, assign(preset.settings, ["hosts=128", *sets]), seed=seed))
    assert found.ended.all()
    return found.last_finish_us * 1e-6 * INCAST_SIZES_RATE_BPS / (8 * size_bytes * len(senders))


@pytest.mark.parametrize("size_bytes", [2_000_000, 2_500_000, 4_000_000])
@pytest.mark.parametrize("name", ["spectrum-x", "infiniband", "uec", "scheduled"])
def test_eight_senders_fill_the_link(tmp_path: Path, name: str, size_bytes: int) -> None:
    assert 1 < over_ideal(tmp_path, name, list(range(8)), size_bytes, "tiers=2") < 1.15


@pytest.mark.parametrize(
    ("senders", "size_bytes", "tiers", "seed"),
    [
        ([7, 101], 13_100_000, 2, 5),
        ([7, 101], 5_900_000, 2, 8),
        ([0, 17, 66, 70, 90], 7_700_000, 3, 2),
        (list(range(3, 60, 5)), 3_300_000, 3, 1),
        (list(range(1, 49, 2)), 1_700_000, 2, 4),
    ],
)
def test_spectrum_x_has_no_cliff(tmp_path: Path, senders: list[int], size_bytes: int, tiers: int, seed: int) -> None:
    assert 1 < over_ideal(tmp_path, "spectrum-x", senders, size_bytes, f"tiers={tiers}", seed=seed) < 1.15


@pytest.mark.parametrize(
    "constant",
    [
        "spectrum_threshold=13us",
        "spectrum_threshold=25us",
        "spectrum_responsiveness=0.3",
        "spectrum_first_cut=0.25",
        "spectrum_first_cut=1",
        "spectrum_notified_kept=0.97",
        "spectrum_most_delay=150us",
        "spectrum_hyper_interval=200us",
    ],
)
def test_no_unpublished_constant_brings_it_back(tmp_path: Path, constant: str) -> None:
    assert over_ideal(tmp_path, "spectrum-x", list(range(8)), 4_000_000, "tiers=2", constant) < 1.2
