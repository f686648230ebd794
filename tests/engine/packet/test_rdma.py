"""The RDMA transport: what is sent again, who gets how much, and what can never be."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from railyard.engine.packet import (
    PacketNetwork,
    Settings,
    Traffic,
    crossbar,
    fat_tree,
    leaf_spine,
    run,
)

if TYPE_CHECKING:
    from railyard.graph import Record

RATE_BPS = 400 * 10**9
LATENCY_PS = 10**6
MTU, HEADER = 4160, 64
MSS = MTU - HEADER
ROOMY = 100_000


def go(network: PacketNetwork, traffic: Traffic, **changed: object) -> Record:
    """A run without loss, unless the queue is made short."""
    base: dict[str, object] = {
        "transport": "rdma",
        "load_balancing": "ecmp",
        "trim": False,
        "mtu_bytes": MTU,
        "header_bytes": HEADER,
        "queue_packets": ROOMY,
    }
    return run(network, traffic, Settings(**{**base, **changed}))  # type: ignore[arg-type]


def ps(bits: float, rate_bps: float = RATE_BPS) -> float:
    return bits * 1e12 / rate_bps


def test_one_flow_takes_its_wire_time_and_the_round_trip() -> None:
    packets = 100
    found = go(crossbar(2, rate_bps=RATE_BPS), Traffic.of(2, 0, 1, packets * MSS))
    expected = ps(8 * (packets + 1) * MTU) + 2 * ps(8 * 64) + 4 * LATENCY_PS
    assert found.duration_ps[0] == pytest.approx(expected, abs=packets + 10)
    assert found.meta["packets"]["new"] == packets
    assert found.meta["packets"]["acks"] == packets


def test_going_back_sends_exactly_from_the_gap_on() -> None:
    """Two flows at line rate into one port that holds few packets: whatever a receiver throws away comes again, in
    order, from the gap on; nothing else does."""
    found = go(crossbar(3, rate_bps=RATE_BPS), Traffic.of(3, [1, 2], 0, 60 * MSS), queue_packets=40)
    packets = found.meta["packets"]
    assert packets["dropped"] > 0
    assert packets["new"] == 120
    assert packets["timeouts"] + packets["nacks"] > 0
    # What was lost or came behind a loss is sent once more; the receivers see no packet twice.
    assert packets["retransmitted"] >= packets["dropped"]
    assert packets["duplicates"] == 0
    assert found.ended.all()


def test_one_lost_packet_costs_a_round_trip_of_packets() -> None:
    """A short queue loses what a second burst brings; every report costs at most a round trip of packets."""
    traffic = Traffic.of(3, [1, 2], 0, [200 * MSS, 4 * MSS], start_ps=[0, 5_000_000])
    calm = go(crossbar(3, rate_bps=RATE_BPS), traffic)
    found = go(crossbar(3, rate_bps=RATE_BPS), traffic, queue_packets=4, rdma_rto_ps=10**9)
    assert calm.meta["packets"]["retransmitted"] == 0
    assert found.meta["packets"]["nacks"] >= 1
    # From the gap to the report's arrival a sender at line rate has sent at most a round trip of packets.
    round_trip = (4 * LATENCY_PS + 6 * ps(8 * MTU)) / ps(8 * MTU)
    packets = found.meta["packets"]
    assert packets["retransmitted"] <= (packets["nacks"] + packets["timeouts"]) * (round_trip + 4)


@pytest.mark.parametrize("balance", ["spray", "adaptive", "ecmp"])
def test_out_of_order_never_sends_again_without_loss(balance: str) -> None:
    order = np.random.default_rng(3).permutation(128)
    traffic = Traffic.of(128, order, np.roll(order, 1), 300_000)
    found = go(fat_tree(128, rate_bps=RATE_BPS), traffic, rdma_out_of_order=True, load_balancing=balance)
    assert found.meta["packets"]["dropped"] == 0
    assert [found.meta["packets"][kind] for kind in ("retransmitted", "duplicates", "timeouts")] == [0] * 3
    assert found.ended.all()


def test_spraying_under_going_back_sends_again_though_nothing_is_lost() -> None:
    """Why sprayed fabrics place packets out of order."""
    order = np.random.default_rng(3).permutation(128)
    traffic = Traffic.of(128, order, np.roll(order, 1), 100_000)
    found = go(fat_tree(128, rate_bps=RATE_BPS), traffic, load_balancing="spray")
    assert found.meta["packets"]["dropped"] == 0
    assert found.meta["packets"]["retransmitted"] > 0


def test_trimmed_packets_are_sent_again_alone() -> None:
    traffic = Traffic.of(8, np.arange(1, 8), 0, 100 * MSS)
    found = go(crossbar(8, rate_bps=RATE_BPS), traffic, rdma_out_of_order=True, trim=True, queue_packets=20)
    assert found.meta["packets"]["trimmed"] > 0
    assert found.meta["packets"]["retransmitted"] == found.meta["packets"]["trimmed"] == found.meta["packets"]["nacks"]
    assert found.meta["packets"]["duplicates"] == 0


@pytest.mark.parametrize("control", ["line-rate", "dcqcn", "spectrum"])
def test_two_flows_share_a_port_fairly(control: str) -> None:
    traffic = Traffic.of(3, [1, 2], 0, 20_000_000)
    found = go(
        crossbar(3, rate_bps=RATE_BPS),
        traffic,
        rdma_control=control,
        rdma_notification="packet",
        dcqcn_additive_bps=1e9,
        dcqcn_hyper_bps=5e9,
    )
    share = found.duration_ps / found.duration_ps.max()
    assert share.min() > 0.9
    floor = ps(8 * 40_000_000 * MTU / MSS)
    assert floor < found.duration_ps.max() < (1.01 if control == "line-rate" else 1.3) * floor


def test_flows_of_one_host_take_turns() -> None:
    traffic = Traffic.of(4, 0, [1, 2, 3], 100 * MSS)
    found = go(crossbar(4, rate_bps=RATE_BPS), traffic)
    assert np.ptp(found.duration_ps) <= 4 * ps(8 * MTU)


def test_a_rate_spaces_packets() -> None:
    """A quarter of the line rate from the beginning: four times the wire time."""
    packets = 200
    found = go(
        crossbar(2, rate_bps=RATE_BPS),
        Traffic.of(2, 0, 1, packets * MSS),
        rdma_control="dcqcn",
        dcqcn_initial_rate=0.25,
    )
    expected = 4 * ps(8 * (packets - 1) * MTU) + 2 * ps(8 * MTU) + 2 * ps(8 * 64) + 4 * LATENCY_PS
    assert found.duration_ps[0] == pytest.approx(expected, rel=1e-6)


def test_a_window_of_one_round_trip_fills_the_link_and_half_of_it_half() -> None:
    network = crossbar(2, rate_bps=RATE_BPS, latency_ps=5 * LATENCY_PS)
    traffic = Traffic.of(2, 0, 1, 2000 * MSS)
    free = go(network, traffic).duration_ps[0]
    whole = go(network, traffic, rdma_window_rtts=1.05).duration_ps[0]
    half = go(network, traffic, rdma_window_rtts=0.5).duration_ps[0]
    assert whole == pytest.approx(free, rel=0.01)
    latency = 20 * LATENCY_PS
    assert half - latency == pytest.approx(2 * (free - latency), rel=0.05)


def test_notifications_keep_their_distance() -> None:
    traffic = Traffic.of(8, np.arange(1, 8), 0, 2_000_000)
    found = go(crossbar(8, rate_bps=RATE_BPS), traffic, rdma_notification="packet", rdma_cnp_interval_ps=50 * 10**6)
    most = 7 * (found.duration_ps.max() / (50 * 10**6) + 1)
    assert 0 < found.meta["packets"]["cnps"] <= most
    silent = go(crossbar(8, rate_bps=RATE_BPS), traffic)
    assert silent.meta["packets"]["cnps"] == 0
    assert silent.meta["packets"]["marked"] > 0


def test_fewer_acknowledgements_change_nothing_else() -> None:
    traffic = Traffic.of(2, 0, 1, 101 * MSS)
    every = go(crossbar(2, rate_bps=RATE_BPS), traffic)
    fourth = go(crossbar(2, rate_bps=RATE_BPS), traffic, rdma_ack_packets=4)
    assert fourth.meta["packets"]["acks"] == 26
    assert fourth.duration_ps[0] == every.duration_ps[0]


@given(
    seed=st.integers(0, 2**32),
    flows=st.integers(1, 24),
    size=st.integers(1, 60 * MSS),
    queue=st.integers(4, 60),
    control=st.sampled_from(["line-rate", "dcqcn", "spectrum"]),
    trim=st.booleans(),
    out_of_order=st.booleans(),
    balance=st.sampled_from(["ecmp", "spray", "adaptive"]),
    acks=st.integers(1, 9),
)
@settings(max_examples=60, deadline=None)
def test_every_byte_arrives_once_and_none_too_early(
    *,
    seed: int,
    flows: int,
    size: int,
    queue: int,
    control: str,
    trim: bool,
    out_of_order: bool,
    balance: str,
    acks: int,
) -> None:
    random = np.random.default_rng(seed)
    hosts = 16
    source = random.integers(0, hosts, flows)
    target = (source + random.integers(1, hosts, flows)) % hosts
    sizes = random.integers(1, size + 1, flows)
    network = leaf_spine(hosts, leaf_hosts=4, spines=2, rate_bps=RATE_BPS)
    sprays = balance != "ecmp"
    found = go(
        network,
        Traffic.of(hosts, source, target, sizes),
        seed=seed % 1000,
        queue_packets=queue,
        rdma_control=control,
        rdma_notification="packet",
        rdma_out_of_order=out_of_order or sprays,
        load_balancing=balance,
        trim=trim and (out_of_order or sprays),
        rdma_ack_packets=acks,
        rdma_rto_ps=100 * 10**6,
    )
    assert found.ended.all()
    assert (found.column("receiver_finish_ps") >= 0).all()
    assert (found.column("receiver_finish_ps") < found.end_ps).all()
    packets = -(-sizes // MSS)
    assert found.meta["packets"]["new"] == packets.sum()
    links = np.where(source // 4 == target // 4, 2, 4)
    floor = ps(1) * 8 * (sizes + packets * HEADER) + links * 2 * LATENCY_PS
    assert (found.duration_ps >= floor).all()
    lost = found.meta["packets"]["dropped"] + found.meta["packets"]["trimmed"]
    if lost == 0 and found.meta["packets"]["timeouts"] == 0:
        assert found.meta["packets"]["retransmitted"] == found.meta["packets"]["duplicates"] == 0


def test_the_seed_decides_everything() -> None:
    order = np.random.default_rng(3).permutation(128)
    traffic = Traffic.of(128, order, np.roll(order, 1), 300_000)
    network = fat_tree(128, rate_bps=RATE_BPS)
    changed = {"rdma_control": "dcqcn", "rdma_notification": "packet"}
    first, again, other = (go(network, traffic, seed=seed, **changed).digest() for seed in (5, 5, 6))
    assert first == again != other


@pytest.mark.parametrize("control", ["line-rate", "dcqcn", "spectrum"])
@pytest.mark.parametrize("out_of_order", [False, True])
def test_threads_change_nothing(control: str, out_of_order: bool) -> None:
    order = np.random.default_rng(3).permutation(128)
    traffic = Traffic.of(128, order, np.roll(order, 1), 300_000)
    network = fat_tree(128, rate_bps=RATE_BPS)
    chosen = Settings(
        transport="rdma",
        load_balancing="spray" if out_of_order else "ecmp",
        trim=False,
        queue_packets=20,
        rdma_control=control,  # type: ignore[arg-type]
        rdma_notification="packet",
        rdma_out_of_order=out_of_order,
        rdma_rto_ps=100 * 10**6,
        end_ps=2 * 10**9,
    )
    one, three = (run(network, traffic, chosen, threads=threads) for threads in (1, 3))
    assert one.meta["packets"]["dropped"] > 0
    assert one.digest() == three.digest()
