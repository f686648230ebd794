"""Against closed forms: bounds, conservation, a queue of known law, fair shares."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from railyard.engine.packet import (
    Settings,
    Traffic,
    crossbar,
    fat_tree,
    leaf_spine,
    names_of,
    run,
)

G400 = 400 * 10**9
MSS, HEADER = 4086, 64
PS_PER_BYTE = 20  # at 400 Gbit/s
LINK = 1_000_000


def on_wire(size_bytes):
    size = np.asarray(size_bytes, np.int64)
    return size + HEADER * -(-size // MSS)


@pytest.mark.parametrize("size", [1, 64, 4086, 4087, 100_000, 2_000_000])
def test_a_flow_alone_takes_serialization_delay_and_one_acknowledgement(size):
    found = run(crossbar(2, rate_bps=G400), Traffic.of(2, 0, 1, size), Settings())
    last = MSS if size % MSS == 0 else size % MSS
    # Everything once over the first link, the last packet over the second, the acknowledgement back over two.
    bound = int(on_wire(size)) * PS_PER_BYTE + (last + HEADER) * PS_PER_BYTE + 2 * HEADER * PS_PER_BYTE + 4 * LINK
    full = 0 if size <= MSS else (MSS - last) * PS_PER_BYTE  # a full packet ahead of the last one on the second link
    assert found.duration_ps[0] >= bound
    assert found.duration_ps[0] <= bound + full
    assert found.meta["packets"]["retransmitted"] == 0


FLOWS = st.lists(
    st.tuples(st.integers(0, 15), st.integers(0, 15), st.integers(1, 300_000), st.integers(0, 50_000_000)).filter(
        lambda flow: flow[0] != flow[1]
    ),
    min_size=1,
    max_size=24,
)


@settings(max_examples=60, deadline=None)
@given(
    flows=FLOWS,
    congestion_control=st.sampled_from(names_of("congestion_control", transport="uec")),
    load_balancing=st.sampled_from(names_of("load_balancing")),
    queue=st.sampled_from([4, 20, None]),
    trim=st.booleans(),
)
def test_every_byte_arrives_and_no_bound_is_broken(flows, congestion_control, load_balancing, queue, trim):
    if load_balancing == "reps":
        trim = True
    source, target, size, start = (np.array(column) for column in zip(*flows, strict=True))
    network = leaf_spine(16, leaf_hosts=4, spines=4, rate_bps=G400)
    thresholds = (
        {} if queue is None else {"queue_packets": queue, "ecn_low_packets": queue // 4, "ecn_high_packets": queue // 2}
    )
    found = run(
        network,
        Traffic.of(16, source, target, size, start_ps=start),
        Settings(congestion_control=congestion_control, load_balancing=load_balancing, trim=trim, **thresholds),
    )
    assert found.ended.all()
    assert (found.start_ps == start).all()
    assert (found.duration_ps >= on_wire(size) * PS_PER_BYTE + 4 * LINK).all()
    assert (found.column("receiver_finish_ps") > 0).all()
    assert (found.column("receiver_finish_ps") <= found.end_ps).all()
    packets = found.meta["packets"]
    assert packets["new"] == (-(-size // MSS)).sum()
    assert packets["retransmitted"] <= packets["trimmed"] + packets["dropped"] + packets["timeouts"]
    assert (packets["trimmed"] == 0) if not trim else True
    down = found.table("links")["bytes"][network.link_target < 16]
    into = np.bincount(network.link_target[network.link_target < 16], down, 16)
    assert (into >= np.bincount(target, on_wire(size), 16)).all()
    # No link ever carries more than its rate.
    assert (found.table("links")["bytes"] * PS_PER_BYTE <= found.meta["now_ps"]).all()


def test_a_queue_fed_at_random_waits_as_m_d_1():
    rho, flows, hosts = 0.7, 40_000, 96
    rng = np.random.default_rng(7)
    service = (MSS + HEADER) * PS_PER_BYTE
    start = np.cumsum(rng.exponential(service / rho, flows)).astype(np.int64)
    traffic = Traffic.of(hosts, rng.integers(1, hosts, flows), 0, MSS, start_ps=start)
    deep = Settings(congestion_control="constant", queue_packets=2000, ecn_low_packets=1900, ecn_high_packets=2000)
    found = run(crossbar(hosts, rate_bps=G400), traffic, deep)
    alone = 2 * service + 2 * HEADER * PS_PER_BYTE + 4 * LINK
    wait = found.duration_ps.mean() - alone
    expected = rho / (2 * (1 - rho)) * service
    # Two small queues more: a sender with two packets at once, acknowledgements behind each other.
    assert wait == pytest.approx(expected, rel=0.06)


@pytest.mark.parametrize("control", ["nscc", "rccc"])
def test_flows_that_share_a_link_get_equal_shares(control):
    hosts = 8
    network = crossbar(hosts, rate_bps=G400)
    found = run(network, Traffic.of(hosts, np.arange(1, 8), 0, 20_000_000), Settings(congestion_control=control))
    rate = on_wire(20_000_000) * 8 / (found.duration_ps * 1e-12)
    jain = rate.sum() ** 2 / (7 * (rate**2).sum())
    assert jain > 0.99
    assert found.end_ps.max() <= 7 * on_wire(20_000_000) * PS_PER_BYTE * 1.02 + 20 * LINK


def test_a_link_is_filled_by_one_long_flow():
    found = run(crossbar(2, rate_bps=G400), Traffic.of(2, 0, 1, 50_000_000), Settings())
    assert found.duration_ps[0] == pytest.approx(on_wire(50_000_000) * PS_PER_BYTE, rel=0.005)


def test_spreading_over_paths_beats_one_path_and_switches_beat_hosts():
    network = fat_tree(128, rate_bps=G400)
    order = np.random.default_rng(3).permutation(128)
    traffic = Traffic.of(128, order, np.roll(order, 1), 2_000_000)
    mean = {
        name: run(network, traffic, Settings(load_balancing=name)).duration_ps.mean()
        for name in ("adaptive", "mixed", "spray", "ecmp")
    }
    assert mean["adaptive"] < mean["mixed"] < mean["spray"] < mean["ecmp"]
    assert mean["ecmp"] > 1.5 * mean["mixed"]


def test_a_failed_link_slows_what_is_spread_over_it():
    network = leaf_spine(32, leaf_hosts=8, spines=8, rate_bps=G400)
    traffic = Traffic.of(32, np.arange(32), (np.arange(32) + 8) % 32, 2_000_000)
    spine = 32 + 4
    links = tuple(int(link) for link in np.flatnonzero((network.link_source == spine) | (network.link_target == spine)))
    well = run(network, traffic, Settings(load_balancing="spray"))
    ill = run(network, traffic, Settings(load_balancing="spray", failed_links=links))
    avoided = run(network, traffic, Settings(load_balancing="mixed", failed_links=links))
    assert ill.duration_ps.max() > 1.15 * well.duration_ps.max()
    assert avoided.duration_ps.max() < ill.duration_ps.max()
