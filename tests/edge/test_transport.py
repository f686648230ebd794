"""Closed forms of transports at points computed by hand, and what must hold for any path."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from railyard.cluster.edge.transport import carried_s, goodput_bps, transfer_s, transports

CUBIC, BBR, QUIC = (transports.get(name) for name in ("cubic", "bbr", "quic-cubic"))


def test_goodput_without_loss():
    assert float(goodput_bps(CUBIC, 20e6, 0.1, 0.0)) == pytest.approx(20e6 * 1448 / 1500)
    assert float(goodput_bps(BBR, 20e6, 0.1, 0.01)) == pytest.approx(20e6 * 1448 / 1500 * 0.98 * 0.99)
    assert float(goodput_bps(QUIC, 20e6, 0.1, 0.0)) == pytest.approx(20e6 * 1165 / 1228)


def test_bits_are_those_that_pass_at_the_goodput():
    total, bits = carried_s(CUBIC, 1448 * 10_000, 20e6, 0.1, 0.0)
    assert float(bits) == pytest.approx(10_000 * 1448 * 8 / 19.306667e6, rel=1e-6)
    assert float(total) == pytest.approx(0.5 + 9_690 * 1448 * 8 / 19.306667e6 + 0.05, rel=1e-6)
    # One window takes its bits and half a round trip; all of a transfer that ends sooner than its bits would is bits.
    total, bits = carried_s(CUBIC, [1448 * 10, 0], 20e6, 0.1, 0.0)
    assert bits == pytest.approx([10 * 1448 * 8 / 19.306667e6, 0.0], rel=1e-6)
    assert total.shape == bits.shape == (2,)


def test_quic_has_no_timeouts():
    # RFC 9002, section 6.2: a probe does not cut the window, so that only the mean window counts; 12.247 packets.
    assert float(goodput_bps(QUIC, 50e6, 0.01, 0.01)) == pytest.approx(150**0.5 / 0.01 * 1165 * 8, rel=1e-6)


def test_columns_are_broadcast():
    found = transfer_s(CUBIC, np.array([[1e6], [2e6]]), [1e6, 2e6, 3e6], 0.1, 0.0)
    assert found.shape == (2, 3)
    assert found[1, 2] == float(transfer_s(CUBIC, 2e6, 3e6, 0.1, 0.0))
    assert transfer_s(CUBIC, np.zeros(0), 1e6, 0.1, 0.0).shape == (0,)


def test_goodput_under_loss():
    # p 0.001, RTT 0.05: CUBIC 19.8 packets, Reno 38.73; timeouts 0.25 * 0.05809 * 0.00100003.
    packets = 1.0 / (0.05 / 38.7298 + 0.25 * 0.0580948 * 0.001000032)
    assert float(goodput_bps(CUBIC, 50e6, 0.05, 0.001)) == pytest.approx(packets * 1448 * 8, rel=1e-4)


@pytest.mark.parametrize(
    ("size", "seconds"),
    [
        (0, 0.0),
        (1448 * 10, 10 * 1448 * 8 / 19.306667e6 + 0.05),  # one window: its bits and half a round trip
        (1448 * 70, 2 * 0.1 + 40 * 1448 * 8 / 19.306667e6 + 0.05),  # 10, 20, 40 packets
    ],
)
def test_short_transfers(size, seconds):
    assert float(transfer_s(CUBIC, size, 20e6, 0.1, 0.0)) == pytest.approx(seconds, rel=1e-6)


def test_long_transfers():
    # The window reaches 161 packets after 5 doublings with 310 packets sent; the rest goes at the line's rate.
    size = 1448 * 10_000
    expected = 0.5 + 9_690 * 1448 * 8 / 19.306667e6 + 0.05
    assert float(transfer_s(CUBIC, size, 20e6, 0.1, 0.0)) == pytest.approx(expected, rel=1e-6)
    assert float(transfer_s(CUBIC, size, 20e6, 0.1, 0.0, warm=True)) == pytest.approx(
        10_000 * 1448 * 8 / 19.306667e6 + 0.05, rel=1e-6
    )


def test_a_window_forgets_its_start():
    # 2 losses in 2,000 packets: the window is 161 at the first, so that they go at the line's rate or little below it,
    # where the mean of 38.7 packets would take 5.2 s; measured in namespaces such transfers take 40 to 60 % of that.
    size = 1448 * 2310
    mean_s = 2000 * 1448 * 8 / float(goodput_bps(CUBIC, 20e6, 0.1, 0.001))
    took = float(transfer_s(CUBIC, size, 20e6, 0.1, 0.001))
    assert 0.55 + 1.2 <= took <= 0.55 + 0.5 * mean_s
    # After many losses the start no longer shows.
    long_s = (
        float(transfer_s(CUBIC, 1448 * 1e6, 20e6, 0.1, 0.001))
        / (1e6 * 1448 * 8)
        * float(goodput_bps(CUBIC, 20e6, 0.1, 0.001))
    )
    assert long_s == pytest.approx(1.0, abs=0.02)


paths = st.tuples(st.floats(1e5, 1e10), st.floats(1e-4, 1.0), st.floats(0.0, 0.1), st.integers(1, 10**9))


@settings(deadline=None)
@given(paths, st.sampled_from(sorted(transports)))
def test_nothing_is_faster_than_light_and_line(path, name):
    rate, rtt, loss, size = path
    transport = transports.get(name)
    took = float(transfer_s(transport, size, rate, rtt, loss))
    assert took >= rtt / 2.0 + size * 8.0 / rate * 0.999
    assert float(goodput_bps(transport, rate, rtt, loss)) <= rate


@settings(deadline=None)
@given(paths, st.sampled_from(sorted(transports)))
def test_more_bytes_take_no_less(path, name):
    rate, rtt, loss, size = path
    transport = transports.get(name)
    assert float(transfer_s(transport, 2 * size, rate, rtt, 0.0)) >= float(transfer_s(transport, size, rate, rtt, 0.0))
    assert (
        float(goodput_bps(transport, rate, rtt, loss)) <= float(goodput_bps(transport, 2 * rate, rtt, loss)) * 1.000001
    )
