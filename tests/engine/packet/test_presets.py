"""What must hold of every fabric by name, whoever registers it."""

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from railyard.engine.packet import Settings, Traffic, crossbar, fat_tree
from railyard.engine.packet import run as packet_run
from railyard.work.scenario.packet import fabric, names
from railyard.work.traffic.simulate import TrafficRun, run

NAMED = ("roce", "infiniband", "infiniband-static", "spectrum-x", "uec", "scheduled", "ideal")
SIZE = 200_000


@pytest.fixture(scope="module")
def matrix(tmp_path_factory):
    path = tmp_path_factory.mktemp("traffic") / "shift.cm"
    rows = "".join(f"{host}->{(host + 7) % 16} id {host + 1} start 0 size {SIZE}\n" for host in range(16))
    path.write_text(f"Nodes 16\nConnections 16\n{rows}")
    return path


def test_the_fabrics_of_the_design_have_names() -> None:
    assert set(NAMED) <= set(names())


@pytest.mark.parametrize("name", names())
def test_every_fabric_delivers_and_keeps_the_bound(matrix, name) -> None:
    preset = fabric(name)
    assert preset.summary
    assert preset.sources
    found = run(TrafficRun(matrix, None, preset, preset.settings, seed=3))
    assert found.ended.all()
    payload_ps = 8e12 * SIZE / preset.settings.link_rate_bps
    assert (found.fct_ps > payload_ps).all()
    again = run(TrafficRun(matrix, None, preset, preset.settings, seed=3, threads=2))
    assert again.record.digest() == found.record.digest()


def test_nothing_is_faster_than_the_ideal(matrix) -> None:
    """At the last finish: a single flow may be lucky elsewhere."""
    ended = {name: run(TrafficRun(matrix, None, fabric(name), fabric(name).settings)) for name in NAMED}
    latency = {name: fabric(name).settings.link_latency_ps for name in NAMED}
    best = ended["ideal"].last_finish_us
    alike = [name for name in NAMED if latency[name] == latency["ideal"]]
    assert len(alike) > 3
    assert all(ended[name].last_finish_us >= best for name in alike)


# Against uet-htsim 40ccb05: what it prints for runs whose outcome hardly depends on its random numbers.

G100, G400 = 100 * 10**9, 400 * 10**9


def fct_us(network, traffic, **settings):
    return np.sort(packet_run(network, traffic, Settings(**settings)).duration_ps) / 1e6


@pytest.mark.parametrize(("control", "expected"), [("nscc", 176.2), ("rccc", 177.368)])
def test_one_flow_of_2_mb_across_pods(control, expected):
    network = fat_tree(16, rate_bps=G100)
    found = fct_us(network, Traffic.of(16, 0, 13, 2_000_000), congestion_control=control)
    assert found[0] == pytest.approx(expected, rel=1e-3)


@pytest.mark.parametrize(("size", "expected"), [(40_860, 17.0107), (408_600, 46.8907)])
def test_short_flows(size, expected):
    found = fct_us(fat_tree(2, rate_bps=G100), Traffic.of(2, 0, 1, size))
    assert found[0] == pytest.approx(expected, rel=1e-3)


@pytest.mark.parametrize(("control", "expected_us"), [("nscc", 5276), ("rccc", 5283)])
def test_incast_of_128(control, expected_us):
    network = fat_tree(1024, rate_bps=G400)
    found = fct_us(network, Traffic.of(1024, np.arange(512, 640), 0, 2_000_000), congestion_control=control)
    assert found[-1] == pytest.approx(expected_us, rel=0.02)


def test_incast_of_32():
    network = fat_tree(128, rate_bps=G400)
    traffic = Traffic.of(128, np.arange(64, 96), 0, 2_000_000)
    nscc = [fct_us(network, traffic, seed=seed) for seed in range(4)]
    assert np.mean([found.mean() for found in nscc]) == pytest.approx(1130, rel=0.03)
    assert nscc[0][-1] == pytest.approx(1339.6, rel=0.02)
    rccc = fct_us(network, traffic, congestion_control="rccc")
    assert (rccc[0], rccc.mean(), rccc[-1]) == pytest.approx((1300.6, 1314.0, 1320.1), rel=0.01)


@pytest.mark.parametrize(
    ("settings", "mean", "highest"),
    [
        ({}, 59.08, 64.69),
        ({"congestion_control": "rccc"}, 59.02, 64.93),
        ({"load_balancing": "adaptive"}, 55.32, 57.86),
        ({"load_balancing": "bitmap"}, 59.78, 65.13),
        ({"load_balancing": "spray"}, 60.73, 69.47),
        ({"load_balancing": "reps"}, 61.06, 68.2),
    ],
)
def test_a_permutation_of_128(settings, mean, highest):
    network = fat_tree(128, rate_bps=G400)
    source, target = np.loadtxt(Path(__file__).with_name("permutation_128.txt"), int).T
    traffic = Traffic.of(128, source, target, 2_000_000)
    found = [fct_us(network, traffic, seed=seed, **settings) for seed in range(4)]
    assert np.mean(found) == pytest.approx(mean, rel=0.03 if "reps" in settings.values() else 0.02)
    assert np.mean([times[-1] for times in found]) == pytest.approx(highest, rel=0.05)


def test_all_to_all_of_16_is_bound_by_its_receivers():
    hosts = np.random.default_rng(0).permutation(128)[:16]
    pairs = [(a, b) for a in hosts for b in hosts if a != b]
    source, target = np.array(pairs).T
    found = fct_us(fat_tree(128, rate_bps=G400), Traffic.of(128, source, target, 1_000_000))
    assert (found.mean(), found[-1]) == pytest.approx((317.07, 318.45), rel=0.01)


def test_constants_are_derived_as_there():
    found = packet_run(fat_tree(128, rate_bps=G400), Traffic.of(128, 0, 127, 1), Settings())
    assert found.meta["constants"]["base_rtt_ps"] == 12_505_680
    assert found.meta["constants"]["queue_bytes"] == 151 * 4150
    assert found.meta["constants"]["ecn_low_bytes"] == 31 * 4150
    assert found.meta["constants"]["ecn_high_bytes"] == 121 * 4150
    assert found.meta["constants"]["window_bytes"] == 937_926
    assert found.meta["constants"]["min_rto_ps"] == pytest.approx(90.198e6, rel=1e-6)


# EQDS and NDP against csg-htsim 841d9e7, closed forms, and themselves on several threads.

PULLED_G400 = 400 * 10**9
PS_PER_BYTE = 20
LINK = 1_000_000
HEADER = 64
EQDS = {
    "transport": "eqds",
    "load_balancing": "skip",
    "mtu_bytes": 4150,
    "queue_packets": 145,
    "window_packets": 145,
    "sack_bytes": 16385,
}
NDP = {
    "transport": "ndp",
    "load_balancing": "spray",
    "mtu_bytes": 4214,
    "queue_packets": 142,
    "window_packets": 145,
}
BOTH = pytest.mark.parametrize("transport", [EQDS, NDP], ids=["eqds", "ndp"])


def pulled_fct_us(network, traffic, **given):
    return np.sort(packet_run(network, traffic, Settings(**given)).duration_ps) / 1e6


@pytest.mark.parametrize(
    ("transport", "least", "mean", "greatest"),
    [(EQDS, 1319.31, 1323.66, 1326.16), (NDP, 1298.25, 1316.25, 1331.02)],
    ids=["eqds", "ndp"],
)
def test_pulled_incast_of_32(transport, least, mean, greatest):
    found = pulled_fct_us(
        fat_tree(128, rate_bps=PULLED_G400), Traffic.of(128, np.arange(64, 96), 0, 2_000_000), **transport
    )
    assert (found[0], found.mean(), found[-1]) == pytest.approx((least, mean, greatest), rel=0.01)


@pytest.mark.parametrize(("transport", "mean"), [(EQDS, 61.38), (NDP, 60.80)], ids=["eqds", "ndp"])
def test_pulled_a_permutation_of_128(transport, mean):
    # The mean of 20 seeds of htsim.
    source, target = np.loadtxt(Path(__file__).with_name("permutation_128.txt"), int).T
    traffic = Traffic.of(128, source, target, 2_000_000)
    found = [pulled_fct_us(fat_tree(128, rate_bps=PULLED_G400), traffic, seed=seed, **transport) for seed in range(3)]
    assert np.mean(found) == pytest.approx(mean, rel=0.02)
    assert np.mean([one[0] for one in found]) == pytest.approx(45.4, rel=0.01)


@BOTH
def test_receivers_pull_a_little_slower_than_their_line(transport):
    senders = 8
    traffic = Traffic.of(128, np.arange(64, 64 + senders), 0, 4_000_000)
    last = pulled_fct_us(fat_tree(128, rate_bps=PULLED_G400), traffic, **transport)[-1]
    payload = transport["mtu_bytes"] - HEADER
    line = senders * 4_000_000 * transport["mtu_bytes"] / payload * PS_PER_BYTE / 1e6
    # Of the line EQDS grants 4,096 bytes in the time of 0.99 x 4,198; NDP a packet in the time of a packet / 0.99.
    share = 4096 / (0.99 * 4198) if transport is EQDS else 0.99
    # The first window comes at the rate of the line; then a round trip at most of nothing.
    assert line < last < line / share + 13
    assert last > (line - 2 * 145 * transport["mtu_bytes"] * PS_PER_BYTE / 1e6) / share


@BOTH
def test_senders_share_a_receiver_fairly(transport):
    traffic = Traffic.of(128, np.arange(64, 80), 0, 4_000_000)
    found = pulled_fct_us(fat_tree(128, rate_bps=PULLED_G400), traffic, **transport)
    assert found[-1] / found[0] < 1.05


@BOTH
def test_a_flow_alone_takes_its_bytes_and_a_round_trip(transport):
    size = 400_000  # less than the first window: no pull is needed
    found = packet_run(crossbar(2, rate_bps=PULLED_G400), Traffic.of(2, 0, 1, size), Settings(**transport))
    payload = transport["mtu_bytes"] - HEADER
    packets = -(-size // payload)
    last = size - (packets - 1) * payload + HEADER
    bound = (size + packets * HEADER + last + 2 * HEADER) * PS_PER_BYTE + 4 * LINK
    # On the second link a full packet goes ahead of the last one.
    assert bound <= found.duration_ps[0] <= bound + (transport["mtu_bytes"] - last) * PS_PER_BYTE
    assert found.meta["packets"]["retransmitted"] == 0


FLOWS = st.lists(
    st.tuples(st.integers(0, 15), st.integers(0, 15), st.integers(1, 300_000), st.integers(0, 50_000_000)).filter(
        lambda flow: flow[0] != flow[1]
    ),
    min_size=1,
    max_size=24,
)


@BOTH
@settings(max_examples=25, deadline=None)
@given(flows=FLOWS, queue=st.sampled_from([3, 20]), window=st.sampled_from([1, 15, 145]), trim=st.booleans())
def test_every_flow_ends_and_none_before_its_bytes_can_have_come(transport, flows, queue, window, trim):
    source, target, size, start = (np.array(column) for column in zip(*flows, strict=True))
    traffic = Traffic.of(16, source, target, size, start_ps=start)
    given_settings = {**transport, "queue_packets": queue, "window_packets": window, "trim": trim}
    found = packet_run(fat_tree(16, rate_bps=PULLED_G400), traffic, Settings(**given_settings))
    payload = transport["mtu_bytes"] - HEADER
    assert found.ended.all()
    assert (found.column("receiver_finish_ps") >= start + size * PS_PER_BYTE + 2 * LINK).all()
    assert (found.duration_ps >= (size + HEADER * -(-size // payload)) * PS_PER_BYTE + 4 * LINK).all()


@BOTH
def test_threads_change_nothing(transport):
    source, target = np.loadtxt(Path(__file__).with_name("permutation_128.txt"), int).T
    traffic = Traffic.of(128, source, target, 500_000)
    network = fat_tree(128, rate_bps=PULLED_G400)
    assert (
        len({packet_run(network, traffic, Settings(**transport), threads=threads).digest() for threads in (1, 2, 3)})
        == 1
    )
