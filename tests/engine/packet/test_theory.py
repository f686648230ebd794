"""The packet engine against theory: queues of known law, fair and max-min shares, bounds that nothing can break."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.engine.hand import Entity, Graph, Links, lowered

from railyard import engine
from railyard.cluster.fabric.roce import PACKETS as ROCE
from railyard.engine.packet import Settings, Traffic, crossbar, fat_tree, leaf_spine, names_of, run

G400 = 400 * 10**9
LINK_PS = 10**6
HOSTS = 12

UEC = Settings()
RCCC = Settings(congestion_control="rccc")
ROCE_ = Settings(**ROCE.constants)


def on_wire(size_bytes, chosen):
    """Bytes of a flow's packets, headers with them."""
    size = np.asarray(size_bytes, np.int64)
    return size + chosen.header_bytes * -(-size // (chosen.mtu_bytes - chosen.header_bytes))


def ps(bytes_, rate_bps=G400):
    return 8e12 * np.asarray(bytes_) / rate_bps


@pytest.mark.parametrize("rho", [0.5, 0.8])
def test_random_arrivals_wait_as_m_d_1(rho):
    """Pollaczek-Khinchine for constant service: rho / (2 (1 - rho)) services."""
    flows, hosts = 30_000, 128
    draws = np.random.default_rng(11)
    payload = UEC.mtu_bytes - UEC.header_bytes
    service = float(ps(UEC.mtu_bytes))
    start = np.cumsum(draws.exponential(service / rho, flows)).astype(np.int64)
    deep = replace(UEC, congestion_control="constant", queue_packets=4000, ecn_low_packets=3900, ecn_high_packets=4000)
    traffic = Traffic.of(hosts, draws.integers(1, hosts, flows), 0, payload, start_ps=start)
    found = run(crossbar(hosts, rate_bps=G400), traffic, deep)
    alone = 2 * service + 2 * float(ps(UEC.header_bytes)) + 4 * LINK_PS
    assert (found.duration_ps.mean() - alone) / service == pytest.approx(rho / (2 * (1 - rho)), rel=0.1)


def rates(network, traffic, chosen, window_ps):
    """Bit/s that every host's link down carried between two times; one flow a host."""
    carried = []
    for end in window_ps:
        found = run(network, traffic, replace(chosen, end_ps=end))
        assert not found.ended.any()
        carried.append(found.table("links")["bytes"][network.link_source < network.hosts])
    return 8e12 * (carried[1] - carried[0]) / (window_ps[1] - window_ps[0])


@pytest.mark.parametrize(
    ("chosen", "least", "full"),
    [(UEC, 0.98, 0.95), (RCCC, 0.99, 0.95), (ROCE_, 0.9, 0.9)],
    ids=["nscc", "rccc", "roce"],
)
def test_shares_are_fair_once_found(chosen, least, full):
    """Jain's index of six flows into one host, two of which begin later than the others."""
    network = crossbar(8, rate_bps=G400)
    start = np.array([0, 0, 0, 0, 200, 400]) * 10**6
    traffic = Traffic.of(8, np.arange(1, 7), 0, 2_000_000_000, start_ps=start)
    share = rates(network, traffic, chosen, (3_000_000_000, 7_000_000_000))[1:7]
    assert share.sum() ** 2 / (6 * (share**2).sum()) >= least
    assert full * G400 <= share.sum() <= G400 * 1.001


def fluid_ps(source, target, size_bytes):
    """When flows end under max-min fairness, by the flow engine on the links of a crossbar."""
    graph, rows = Graph(ranks=HOSTS), []
    for number, (one, other, size) in enumerate(zip(source, target, size_bytes, strict=True)):
        rows.append(Entity({int(one): 1.0, HOSTS + int(other): 1.0}, float(size)))
        graph.transfer(int(one), int(other), number, stream=number % 8)
    line = engine.get("flow").run(*lowered(graph, rows), Links(np.full(2 * HOSTS, float(G400))))
    return np.asarray(line.end_ps)


PATTERNS = {
    "permutation": (np.arange(HOSTS), np.roll(np.arange(HOSTS), 5)),
    "incasts": (np.arange(1, HOSTS), np.repeat([0, 11, 5], [4, 4, 3])),
    "incast of three beside pairs": (np.array([1, 2, 3, 5, 6, 8]), np.array([0, 0, 0, 4, 7, 9])),
    "outcast": (np.array([0, 0, 0, 0]), np.array([1, 2, 3, 4])),
}


@pytest.mark.parametrize("chosen", [UEC, RCCC], ids=["nscc", "rccc"])
@pytest.mark.parametrize("pattern", PATTERNS)
def test_long_flows_get_what_max_min_gives(pattern, chosen):
    """Ends of 60 MB flows on the fabric called ideal, a crossbar, within 2 % of the flow engine's."""
    source, target = PATTERNS[pattern]
    keep = source != target
    source, target = source[keep], target[keep]
    size = np.full(len(source), 60_000_000)
    found = run(crossbar(HOSTS, rate_bps=G400), Traffic.of(HOSTS, source, target, size), chosen)
    fluid = fluid_ps(source, target, on_wire(size, chosen))
    ends = [found.end_ps[target == host].max() for host in np.unique(target)]
    expected = [fluid[target == host].max() for host in np.unique(target)]
    assert ends == pytest.approx(expected, rel=0.02)
    assert found.end_ps.mean() == pytest.approx(fluid.mean(), rel=0.12)


FLOWS = st.lists(
    st.tuples(
        st.integers(0, 15), st.integers(0, 15), st.integers(1, 200_000), st.integers(0, 30_000_000)
    ).filter(lambda flow: flow[0] != flow[1]),
    min_size=1,
    max_size=16,
)  # fmt: skip
KINDS = {
    "uec": UEC,
    "rccc": RCCC,
    "roce": ROCE_,
    "line rate without pauses": replace(
        ROCE_, switching="lossy", rdma_control="line-rate", rdma_rto_ps=50_000_000, rdma_notification="none"
    ),
    "uec over pauses": replace(UEC, switching="pfc", trim=False),
}


@settings(max_examples=80, deadline=None)
@given(flows=FLOWS, kind=st.sampled_from(sorted(KINDS)), seed=st.integers(0, 3), factor=st.sampled_from([1, 2]))
def test_nothing_is_faster_than_its_links(flows, kind, seed, factor):
    """Completion is never below wire time and round trip; no receiver takes more than its link carries."""
    chosen = replace(KINDS[kind], seed=seed)
    source, target, size, start = (np.array(column) for column in zip(*flows, strict=True))
    network = leaf_spine(16, leaf_hosts=4, spines=4 // factor, rate_bps=G400)
    found = run(network, Traffic.of(16, source, target, size, start_ps=start), chosen)
    assert found.ended.all()
    hops = np.where(source // 4 == target // 4, 2, 4)
    wire = on_wire(size, chosen)
    assert (found.duration_ps >= ps(wire) + 2 * hops * LINK_PS).all()
    assert (found.column("receiver_finish_ps") - start >= ps(wire) + hops * LINK_PS).all()
    assert (ps(found.table("links")["bytes"]) <= found.meta["now_ps"]).all()
    for host in np.unique(target):
        mine = target == host
        span = found.column("receiver_finish_ps")[mine].max() - start[mine].min()
        assert span >= ps(wire[mine].sum())


# Against closed forms: bounds, conservation, a queue of known law, fair shares.

MSS, HEADER = 4086, 64
PS_PER_BYTE = 20  # at 400 Gbit/s
LINK = 1_000_000


def physics_on_wire(size_bytes):
    size = np.asarray(size_bytes, np.int64)
    return size + HEADER * -(-size // MSS)


@pytest.mark.parametrize("size", [1, 64, 4086, 4087, 100_000, 2_000_000])
def test_a_flow_alone_takes_serialization_delay_and_one_acknowledgement(size):
    found = run(crossbar(2, rate_bps=G400), Traffic.of(2, 0, 1, size), Settings())
    last = MSS if size % MSS == 0 else size % MSS
    # Everything once over the first link, the last packet over the second, the acknowledgement back over two.
    bound = (
        int(physics_on_wire(size)) * PS_PER_BYTE + (last + HEADER) * PS_PER_BYTE + 2 * HEADER * PS_PER_BYTE + 4 * LINK
    )
    full = 0 if size <= MSS else (MSS - last) * PS_PER_BYTE  # a full packet ahead of the last one on the second link
    assert found.duration_ps[0] >= bound
    assert found.duration_ps[0] <= bound + full
    assert found.meta["packets"]["retransmitted"] == 0


PHYSICS_FLOWS = st.lists(
    st.tuples(st.integers(0, 15), st.integers(0, 15), st.integers(1, 300_000), st.integers(0, 50_000_000)).filter(
        lambda flow: flow[0] != flow[1]
    ),
    min_size=1,
    max_size=24,
)


@settings(max_examples=60, deadline=None)
@given(
    flows=PHYSICS_FLOWS,
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
    assert (found.duration_ps >= physics_on_wire(size) * PS_PER_BYTE + 4 * LINK).all()
    assert (found.column("receiver_finish_ps") > 0).all()
    assert (found.column("receiver_finish_ps") <= found.end_ps).all()
    packets = found.meta["packets"]
    assert packets["new"] == (-(-size // MSS)).sum()
    assert packets["retransmitted"] <= packets["trimmed"] + packets["dropped"] + packets["timeouts"]
    assert (packets["trimmed"] == 0) if not trim else True
    down = found.table("links")["bytes"][network.link_target < 16]
    into = np.bincount(network.link_target[network.link_target < 16], down, 16)
    assert (into >= np.bincount(target, physics_on_wire(size), 16)).all()
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
    rate = physics_on_wire(20_000_000) * 8 / (found.duration_ps * 1e-12)
    jain = rate.sum() ** 2 / (7 * (rate**2).sum())
    assert jain > 0.99
    assert found.end_ps.max() <= 7 * physics_on_wire(20_000_000) * PS_PER_BYTE * 1.02 + 20 * LINK


def test_a_link_is_filled_by_one_long_flow():
    found = run(crossbar(2, rate_bps=G400), Traffic.of(2, 0, 1, 50_000_000), Settings())
    assert found.duration_ps[0] == pytest.approx(physics_on_wire(50_000_000) * PS_PER_BYTE, rel=0.005)


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
