"""EQDS and NDP against csg-htsim 841d9e7, closed forms, and themselves on several threads."""

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from railyard.engine.packet import Settings, Traffic, crossbar, fat_tree, run

G400 = 400 * 10**9
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


def fct_us(network, traffic, **given):
    return np.sort(run(network, traffic, Settings(**given)).duration_ps) / 1e6


@pytest.mark.parametrize(
    ("transport", "least", "mean", "greatest"),
    [(EQDS, 1319.31, 1323.66, 1326.16), (NDP, 1298.25, 1316.25, 1331.02)],
    ids=["eqds", "ndp"],
)
def test_incast_of_32(transport, least, mean, greatest):
    found = fct_us(fat_tree(128, rate_bps=G400), Traffic.of(128, np.arange(64, 96), 0, 2_000_000), **transport)
    assert (found[0], found.mean(), found[-1]) == pytest.approx((least, mean, greatest), rel=0.01)


@pytest.mark.parametrize(("transport", "mean"), [(EQDS, 61.38), (NDP, 60.80)], ids=["eqds", "ndp"])
def test_a_permutation_of_128(transport, mean):
    # The mean of 20 seeds of htsim.
    source, target = np.loadtxt(Path(__file__).with_name("permutation_128.txt"), int).T
    traffic = Traffic.of(128, source, target, 2_000_000)
    found = [fct_us(fat_tree(128, rate_bps=G400), traffic, seed=seed, **transport) for seed in range(3)]
    assert np.mean(found) == pytest.approx(mean, rel=0.02)
    assert np.mean([one[0] for one in found]) == pytest.approx(45.4, rel=0.01)


@BOTH
def test_receivers_pull_a_little_slower_than_their_line(transport):
    senders = 8
    traffic = Traffic.of(128, np.arange(64, 64 + senders), 0, 4_000_000)
    last = fct_us(fat_tree(128, rate_bps=G400), traffic, **transport)[-1]
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
    found = fct_us(fat_tree(128, rate_bps=G400), traffic, **transport)
    assert found[-1] / found[0] < 1.05


@BOTH
def test_a_flow_alone_takes_its_bytes_and_a_round_trip(transport):
    size = 400_000  # less than the first window: no pull is needed
    found = run(crossbar(2, rate_bps=G400), Traffic.of(2, 0, 1, size), Settings(**transport))
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
    found = run(fat_tree(16, rate_bps=G400), traffic, Settings(**given_settings))
    payload = transport["mtu_bytes"] - HEADER
    assert found.ended.all()
    assert (found.column("receiver_finish_ps") >= start + size * PS_PER_BYTE + 2 * LINK).all()
    assert (found.duration_ps >= (size + HEADER * -(-size // payload)) * PS_PER_BYTE + 4 * LINK).all()


@BOTH
def test_threads_change_nothing(transport):
    source, target = np.loadtxt(Path(__file__).with_name("permutation_128.txt"), int).T
    traffic = Traffic.of(128, source, target, 500_000)
    network = fat_tree(128, rate_bps=G400)
    assert len({run(network, traffic, Settings(**transport), threads=threads).digest() for threads in (1, 2, 3)}) == 1
