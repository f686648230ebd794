"""Links with credits: nothing lost, bounds, what an incast does to others, deadlocks, the fabrics by name."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from railyard.cluster.fabric import fabrics
from railyard.cluster.routes import Routes
from railyard.engine.packet import LinkFault, PacketNetwork, Settings, Traffic, fat_tree, leaf_spine, run
from railyard.engine.packet.faults import down
from railyard.kit.errors import InputError, SimulationError
from railyard.work.scenario.packet import PacketSettings, assign, fabric

STATIC = fabrics.get("infiniband-static").packets.constants
ADAPTIVE = fabrics.get("infiniband").packets.constants

G400 = 400 * 10**9
LINK = 450_000
PAYLOAD, HEADER, ACK = 4096, 26, 30
PS_PER_BYTE = 20


def ndr(hosts, leaf_hosts=4, spines=4):
    return leaf_spine(hosts, leaf_hosts=leaf_hosts, spines=spines, rate_bps=G400, latency_ps=LINK)


def on_wire(size_bytes):
    size = np.asarray(size_bytes, np.int64)
    return size + HEADER * -(-size // PAYLOAD)


@pytest.mark.parametrize("size", [1, 4096, 100_000, 2_000_000])
def test_a_flow_alone_is_cut_through(size):
    found = run(ndr(8), Traffic.of(8, 0, 7, size), Settings(**STATIC))
    # All of it once over the first link; its last packet's head, 20 bytes, three times; the answer likewise.
    heads = 2 * 3 * 20 * PS_PER_BYTE
    assert found.duration_ps[0] == int(on_wire(size)) * PS_PER_BYTE + ACK * PS_PER_BYTE + 8 * LINK + heads
    assert found.meta["packets"]["retransmitted"] == found.meta["packets"]["timeouts"] == 0


FLOWS = st.lists(
    st.tuples(st.integers(0, 15), st.integers(0, 15), st.integers(1, 300_000), st.integers(0, 50_000_000)).filter(
        lambda flow: flow[0] != flow[1]
    ),
    min_size=1,
    max_size=24,
)


CHOSEN = st.fixed_dictionaries(
    {
        "transport": st.sampled_from(["rdma", "uec"]),
        "load_balancing": st.sampled_from(["ecmp", "adaptive", "spray"]),
        "link_credit_buffer_bytes": st.integers(4160, 200_000),
        "link_credit_update_bytes": st.integers(0, 100_000),
        "link_credit_lanes": st.integers(1, 8),
        "link_credit_fifo": st.booleans(),
        "link_credit_cut_through": st.booleans(),
    }
)


@settings(max_examples=40, deadline=None)
@given(flows=FLOWS, changed=CHOSEN)
def test_every_byte_arrives_and_no_bound_is_broken(flows, changed):
    source, target, size, start = (np.array(column) for column in zip(*flows, strict=True))
    traffic = Traffic.of(16, source, target, size, start_ps=start, klass=np.arange(len(flows)) % 8)
    chosen = {**STATIC, "congestion_control": "constant", "rdma_out_of_order": True, **changed}
    found = run(ndr(16), traffic, Settings(**chosen))
    assert found.ended.all()
    leaves = (source // 4 == target // 4) * 2
    assert (found.duration_ps >= on_wire(size) * PS_PER_BYTE + (8 - 2 * leaves) * LINK).all()
    assert found.meta["packets"]["dropped"] == found.meta["packets"]["lost"] == found.meta["packets"]["trimmed"] == 0
    if chosen["transport"] == "rdma":
        assert found.meta["packets"]["retransmitted"] == 0
        assert found.meta["packets"]["new"] == (-(-size // PAYLOAD)).sum()
    again = run(ndr(16), traffic, Settings(**chosen), threads=2)
    assert again.digest() == found.digest()


def test_a_buffer_bounds_the_rate_by_the_round_trip_of_its_credit():
    network = leaf_spine(2, leaf_hosts=2, spines=1, rate_bps=G400, latency_ps=2_000_000)
    for packets in (4, 12, 32):
        chosen = {**STATIC, "link_credit_buffer_bytes": packets * 65 * 64, "link_credit_update_bytes": 0}
        found = run(network, Traffic.of(2, 0, 1, 8_192_000), Settings(**chosen))
        # The head goes over, the packet leaves, 8 bytes come back.
        loop = 2 * 2_000_000 + (20 + 4122 + 8) * PS_PER_BYTE
        bound = packets * 4122 / loop
        assert on_wire(8_192_000) / (found.duration_ps[0] - 8_000_000) == pytest.approx(bound, rel=0.02)


@pytest.mark.parametrize(("reach_us", "share"), [(0, None), (100, 1 / 2), (200, 1.0), (400, 1.0)])
def test_boxes_for_long_links_hold_what_their_round_trip_carries(reach_us, share):
    """Links of 100 us, 400 Gb/s: 128 KiB less 16 KiB a round trip of 200 us, or what so much of it carries."""
    far = leaf_spine(2, leaf_hosts=1, spines=1, rate_bps=G400, latency_ps=100_000_000)
    options = {**STATIC, "link_credit_reach_ps": reach_us * 10**6, "rdma_rto_ps": 10**11}
    size = 200_000_000
    took_s = run(far, Traffic.of(2, 0, 1, size), Settings(**options)).column("receiver_finish_ps")[0] * 1e-12
    expected = 8 * 112 * 1024 / 200e-6 if share is None else share * G400
    assert 8 * on_wire(size) / (took_s - 400e-6) == pytest.approx(expected, rel=0.02)


def incast(settings, size=1_000_000):
    """Hosts of leaves 0 and 1 send to host 24; meanwhile host 3 sends to host 30, which nobody else wants."""
    network = ndr(32, leaf_hosts=8, spines=8)
    many = np.setdiff1d(np.arange(16), [3])
    source, target = np.append(many, 3), np.append(np.full(15, 24), 30)
    alone = run(network, Traffic.of(32, 3, 30, size), settings).duration_ps[0]
    return run(network, Traffic.of(32, source, target, size), settings).duration_ps[-1] / alone


def test_the_tree_of_an_incast_stops_an_innocent_flow_on_its_way():
    # Host 3's packets to 30 go by spine 30 % 8 = 6, those to 24 by spine 0: the tree is not on their way.
    assert incast(Settings(**STATIC)) < 1.05
    # Adaptive routing spreads the tree over every spine, and with it its full buffers.
    assert incast(Settings(**ADAPTIVE)) > 3
    # In a lane of its own nothing is in its way.
    network = ndr(32, leaf_hosts=8, spines=8)
    many = np.setdiff1d(np.arange(16), [3])
    source, target = np.append(many, 3), np.append(np.full(15, 24), 30)
    lanes = Settings(**ADAPTIVE, link_credit_lanes=2)
    traffic = Traffic.of(32, source, target, 1_000_000, klass=np.append(np.zeros(15), 1))
    assert (
        run(network, traffic, lanes).duration_ps[-1]
        < 1.5 * run(network, Traffic.of(32, 3, 30, 1_000_000), lanes).duration_ps[0]
    )


def test_two_flows_of_one_way_are_cured_by_adaptive_routing():
    network = ndr(32, leaf_hosts=8, spines=8)
    # Hosts 16 and 24 have the same number modulo 8: one spine, one link up from leaf 0.
    traffic = Traffic.of(32, [0, 1], [16, 24], 2_000_000)
    static = run(network, traffic, Settings(**STATIC)).duration_ps
    adaptive = run(network, traffic, Settings(**ADAPTIVE)).duration_ps
    assert static.max() > 1.9 * adaptive.max()
    assert adaptive.max() < 1.02 * (int(on_wire(2_000_000)) * PS_PER_BYTE + 8 * LINK)


def test_a_shift_has_ways_of_its_own_under_routing_by_destination():
    network = fat_tree(128, rate_bps=G400, latency_ps=LINK)
    host = np.arange(128)
    found = run(network, Traffic.of(128, host, (host + 16) % 128, 1_000_000), Settings(**STATIC))
    assert found.duration_ps.max() < 1.02 * (int(on_wire(1_000_000)) * PS_PER_BYTE + 12 * LINK)


def test_inputs_that_are_fifos_hold_back_what_could_go():
    network = ndr(32, leaf_hosts=8, spines=8)
    rng = np.random.default_rng(3)
    order = rng.permutation(32)
    traffic = Traffic.of(32, np.tile(order, 2), np.concatenate([np.roll(order, 1), np.roll(order, 5)]), 1_000_000)
    queues = run(network, traffic, Settings(**STATIC))
    fifos = run(network, traffic, Settings(**STATIC, link_credit_fifo=True))
    assert fifos.duration_ps.mean() > 1.03 * queues.duration_ps.mean()


def ring(size):
    """Switches in a ring, a host each, all ways in one direction."""
    host = np.arange(size)
    switch, following = size + host, size + (host + 1) % size
    source = np.concatenate([host, switch, switch, following])
    target = np.concatenate([switch, host, following, switch])
    links = len(source)
    ways = [[at] for at in host]  # hosts: up
    choices, lo, hi, first, width, stride, ptr = [], [], [], [], [], [], [0]
    for at in range(2 * size):
        if at < size:
            rows = [(0, size, ways[at])]
        else:
            me = at - size
            rows = [(to, to + 1, [size + me] if to == me else [2 * size + me]) for to in range(size)]
        for low, high, links_of in rows:
            lo.append(low), hi.append(high), first.append(len(choices)), width.append(1), stride.append(size)
            choices += links_of
        ptr.append(len(lo))
    as32 = lambda values: np.array(values, np.int32)  # noqa: E731
    routes = Routes(
        np.array(ptr, np.int64), as32(lo), as32(hi), np.array(first, np.int64), as32(width), as32(stride), as32(choices)
    )
    return PacketNetwork(size, 2 * size, as32(source), as32(target), np.full(links, G400), np.full(links, LINK), routes)


@pytest.mark.parametrize("threads", [1, 2])
def test_a_deadlock_is_named(threads):
    traffic = Traffic.of(4, np.arange(4), (np.arange(4) + 3) % 4, 2_000_000)
    chosen = Settings(**STATIC, link_credit_buffer_bytes=8 * 4160)
    with pytest.raises(SimulationError, match=r"credit deadlock.*node 4 to node 5.*node 7 to node 4"):
        run(ring(4), traffic, chosen, threads=threads)
    # Three hosts cannot fill the ring.
    assert run(ring(4), Traffic.of(4, [0, 1], [3, 0], 2_000_000), chosen).ended.all()


def test_a_link_that_dies_costs_what_was_on_it_and_the_detection():
    network = ndr(16)
    up = int(np.flatnonzero((network.link_source == 16) & (network.link_target == 20 + 13 % 4))[0])
    traffic = Traffic.of(16, 0, 13, 4_000_000)
    chosen = {**STATIC, "rdma_rto_ps": 200_000_000, "reroute_ps": 20_000_000}
    calm = run(network, traffic, Settings(**chosen)).duration_ps[0]
    faults = tuple(down([up], 30_000_000))
    found = run(network, traffic, Settings(**chosen, faults=faults))
    assert found.ended.all()
    assert found.meta["packets"]["lost"] > 0
    assert calm < found.duration_ps[0] < calm + 500_000_000


def test_bit_errors_give_credits_back():
    network = ndr(8)
    errors = tuple(LinkFault(0, link, "errors", 3e-8) for link in range(network.links))
    found = run(
        network,
        Traffic.of(8, [0, 1, 2], [7, 6, 5], 1_000_000),
        Settings(**{**ADAPTIVE, "rdma_rto_ps": 100_000_000}, faults=errors),
    )
    assert found.ended.all()
    assert found.meta["packets"]["lost"] > 0
    retried = run(
        network,
        Traffic.of(8, [0, 1, 2], [7, 6, 5], 1_000_000),
        Settings(**ADAPTIVE, faults=errors, link_retry=True),
    )
    assert retried.meta["packets"]["lost"] == 0
    assert retried.meta["packets"]["link_retries"] > 0
    assert retried.meta["packets"]["retransmitted"] == 0


def test_fabrics_by_name_and_their_keys():
    assert fabric("infiniband-static").settings.load_balancing == "ecmp"
    assert fabric("infiniband").settings.load_balancing == "adaptive"
    said = assign(
        fabric("infiniband").settings,
        ["link_credit_buffer=64 KiB", "link_credit_lanes=2", "link_credit_low_weight=192,64", "link_credit_fifo=true"],
    )
    assert isinstance(said, PacketSettings)
    assert (said.link_credit_buffer_bytes, said.link_credit_lanes) == (65_536, 2)
    assert said.link_credit_low_weight == (192, 64)
    for wrong in ("link_credit_lanes=9", "link_credit_low_weight=1,300", "link_credit_high_limit=256"):
        with pytest.raises(InputError):
            assign(said, [wrong])
    with pytest.raises(InputError, match="full packet"):
        run(ndr(8), Traffic.of(8, 0, 1, 1), Settings(**STATIC, link_credit_buffer_bytes=4000))
