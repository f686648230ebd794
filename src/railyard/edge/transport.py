"""Goodput and transfer times of TCP and QUIC over a path, in closed form.

- Response of CUBIC to random loss: RFC 9438, section 5.1 (C = 0.4, beta = 0.7), its Reno-friendly window: section 4.3.
- Timeouts: Padhye, Firoiu, Towsley, Kurose (PFTK), SIGCOMM 1998, equation 30, with one acknowledgement a packet.
- Losses to a shallow buffer: CUBIC's saw-tooth of RFC 9438, section 4.2, over the bandwidth-delay product.
- BBR: Cardwell et al., ACM Queue 2016: rate of the bottleneck while fewer packets are lost than its probing gain of
  1.25 makes up for (1 - 1/1.25); 200 ms of four packets every 10 s (PROBE_RTT).
- Start: initial window of 10 (RFC 6928), doubled every round trip (Cardwell, Savage, Anderson, INFOCOM 2000).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from railyard.registry import Registry

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import ArrayLike

    from railyard.edge.draws import Floats

INITIAL_WINDOW = 10.0
"""Segments (RFC 6928)."""
_C = 0.4
_BETA = 0.7
_LEAST_TIMEOUT_S = 0.2
"""Of Linux (TCP_RTO_MIN); added to the round trip."""
_FRIENDLY = 3.0 * (1.0 - _BETA) / (1.0 + _BETA)
"""Packets a round trip by which CUBIC's Reno-friendly window grows (RFC 9438, section 4.3)."""
_INTERVALS, _POINTS = 16, 9
"""Loss intervals until a window has forgotten its start, and points of each at which it is looked at."""
_NO_LOSS = 1e-12
"""Less than a packet in a million million is none."""
_STARTUP_GAIN = 2.0 / np.log(2.0)
"""Of BBR's pacing over the rate that it has seen, while it starts."""
_PROBE_RTT_S, _PROBE_EVERY_S = 0.2, 10.0
_BBR_MOST_LOSS = 0.2
_DEEP_BUFFER = 1.0
"""Bandwidth-delay products of buffer at the bottleneck, where nothing is known of it: access links have more."""


@dataclass(frozen=True)
class Transport:
    """A transport protocol with its congestion control.

    Attributes:
        name: As in scenarios.
        summary: One line.
        payload_bytes: Of a full packet.
        packet_bytes: The same with IP header and all between.
        setup_rtts: Round trips before the first byte of a request may leave, encryption agreed.
        packets_per_s: Steady rate that losses and windows allow, given rate of the bottleneck in packets/s, RTT, loss,
            and buffer in bandwidth-delay products.
        ends_start: Whether a lost packet ends the doubling.
    """

    name: str
    summary: str
    payload_bytes: float
    packet_bytes: float
    setup_rtts: float
    packets_per_s: Callable[[Floats, Floats, Floats, Floats], Floats]
    ends_start: bool

    @property
    def payload_share(self) -> float:
        """Of the bytes on the link."""
        return self.payload_bytes / self.packet_bytes


transports: Registry[Transport] = Registry("transport")


def cubic_window(rtt_s: Floats, loss: Floats) -> Floats:
    """Mean window in packets under random loss: the larger of CUBIC's and its Reno-friendly one."""
    with np.errstate(divide="ignore"):
        cubic = (_C * (3.0 + _BETA) / (4.0 * (1.0 - _BETA))) ** 0.25 * (rtt_s / loss) ** 0.75
        friendly = np.sqrt(1.5 / loss)
    out: Floats = np.maximum(cubic, friendly)
    return out


def timeout_s_per_packet(rtt_s: Floats, loss: Floats) -> Floats:
    """Seconds of timeouts a packet, of PFTK; 0 without loss."""
    wait = _LEAST_TIMEOUT_S + rtt_s
    out: Floats = wait * np.minimum(1.0, 3.0 * np.sqrt(3.0 * loss / 8.0)) * loss * (1.0 + 32.0 * loss**2)
    return out


def saw_tooth(buffer: Floats, product: Floats, rtt_s: Floats) -> Floats:
    """Share of the bottleneck's rate that CUBIC's saw-tooth uses, when only a full buffer loses packets.

    The window grows from beta of the most to the most (product + buffer) along a cubic in K seconds; what is below
    the product leaves the link idle for the rest.

    Args:
        buffer: Bandwidth-delay products of buffer.
        product: Bandwidth-delay product in packets.
        rtt_s: ROUND TRIP.
    """
    most = product * (1.0 + buffer)
    climb_s = np.cbrt(most * (1.0 - _BETA) / _C)
    full_s = np.clip(climb_s - np.cbrt(np.maximum(most - product, 0.0) / _C), 0.0, climb_s)
    # Packets that the window lacks until it covers the product: the integral of product - (C (t - K)^3 + most).
    lacking = (product - most) * full_s - _C / 4.0 * ((full_s - climb_s) ** 4 - climb_s**4)
    whole = np.maximum(product * climb_s, 1e-12)
    out: Floats = 1.0 - np.clip(lacking, 0.0, None) / whole
    return np.where(climb_s > rtt_s, out, np.minimum(out, 1.0))


def _cubic(bottleneck: Floats, rtt_s: Floats, loss: Floats, buffer: Floats) -> Floats:
    quiet = bottleneck * saw_tooth(buffer, bottleneck * rtt_s, rtt_s)
    with np.errstate(divide="ignore", invalid="ignore"):
        lossy = 1.0 / (rtt_s / cubic_window(rtt_s, loss) + timeout_s_per_packet(rtt_s, loss))
    out: Floats = np.where(loss > 0, np.minimum(quiet, lossy), quiet)
    return out


def _bbr(bottleneck: Floats, _rtt_s: Floats, loss: Floats, _buffer: Floats) -> Floats:
    probing = 1.0 - _PROBE_RTT_S / _PROBE_EVERY_S
    out: Floats = np.where(loss < _BBR_MOST_LOSS, bottleneck * probing * (1.0 - loss), 0.05 * bottleneck)
    return out


for _name, _law, _ends in (("cubic", _cubic, True), ("bbr", _bbr, False)):
    transports.add(_name, Transport(_name, f"TCP with {_name.upper()} and TLS 1.3", 1448.0, 1500.0, 2.0, _law, _ends))
    transports.add(
        f"quic-{_name}",
        Transport(
            f"quic-{_name}",
            f"QUIC with {_name.upper()}: datagrams of 1,200 bytes as RFC 9000 allows everywhere",
            1200.0 - 27.0 - 4.0,
            1228.0,
            1.0,
            _law,
            _ends,
        ),
    )


def goodput_bps(
    transport: Transport, rate_bps: ArrayLike, rtt_s: ArrayLike, loss: ArrayLike, buffer: ArrayLike = _DEEP_BUFFER
) -> Floats:
    """Bits of payload a second of one connection, once it has started.

    Args:
        transport: The protocol.
        rate_bps: Of the bottleneck, ONE WAY, IP packets.
        rtt_s: ROUND TRIP without load.
        loss: Share of the packets that is lost at random.
        buffer: At the bottleneck, in bandwidth-delay products.
    """
    rate, rtt, lost, depth = np.broadcast_arrays(
        *(np.asarray(value, np.float64) for value in (rate_bps, rtt_s, loss, buffer))
    )
    lost = np.where(lost < _NO_LOSS, 0.0, lost)
    packets = transport.packets_per_s(rate / (8.0 * transport.packet_bytes), rtt, lost, depth)
    out: Floats = packets * 8.0 * transport.payload_bytes
    return out


def transfer_s(
    transport: Transport,
    size_bytes: ArrayLike,
    rate_bps: ArrayLike,
    rtt_s: ArrayLike,
    loss: ArrayLike,
    *,
    warm: bool = False,
    buffer: ArrayLike = _DEEP_BUFFER,
) -> Floats:
    """Seconds from the first packet sent to the last one received; 0 for nothing.

    Args:
        transport: The protocol.
        size_bytes: Payload.
        rate_bps: Of the bottleneck, ONE WAY, IP packets.
        rtt_s: ROUND TRIP without load.
        loss: Share of the packets that is lost at random.
        warm: The connection has carried as much before: its window is open.
        buffer: At the bottleneck, in bandwidth-delay products.
    """
    size, rate, rtt, lost = np.broadcast_arrays(
        *(np.asarray(value, np.float64) for value in (size_bytes, rate_bps, rtt_s, loss))
    )
    lost = np.where(lost < _NO_LOSS, 0.0, lost)
    steady = goodput_bps(transport, rate, rtt, lost, buffer)
    line = rate * transport.payload_share
    packets = size / transport.payload_bytes
    zero = np.zeros_like(packets)
    rounds, carried = (zero, zero) if warm else _start(transport, packets, rate, rtt, lost)
    left = np.maximum(packets - carried, 0.0)
    rest = left * 8.0 * transport.payload_bytes / steady
    if transport.ends_start and not warm and (lost > 0).any():
        window = np.minimum(carried + INITIAL_WINDOW, rate / (8.0 * transport.packet_bytes) * rtt)
        rest = np.where(
            lost > 0,
            np.minimum(rest, _forgetting_s(left, window, rate / (8.0 * transport.packet_bytes), rtt, lost)),
            rest,
        )
    doublings = np.ceil(np.log2(packets / INITIAL_WINDOW + 1.0))
    window = INITIAL_WINDOW * 2.0 ** np.maximum(doublings - 1.0, 0.0)
    last = packets - (window - INITIAL_WINDOW)
    flight = last * 8.0 * transport.payload_bytes / line
    if not transport.ends_start:
        flight = np.maximum(flight, np.where(doublings > 1.0, 4.0 / 1.5, 1.0) * last / window * rtt / _STARTUP_GAIN)
    short = (doublings - 1.0) * rtt + flight
    took = np.where(packets <= carried, short, rounds * rtt + rest)
    out: Floats = np.where(size > 0, took + rtt / 2.0, 0.0)
    return out


def _forgetting_s(packets: Floats, window: Floats, bottleneck: Floats, rtt_s: Floats, loss: Floats) -> Floats:
    """Seconds of CUBIC from the loss that ended the doubling on: it starts far above its mean, and forgets that slowly.

    A packet is lost every 1/p; between two losses the window is the larger of CUBIC's and its Reno-friendly one, and
    the rate no more than the bottleneck's. What is left after some losses goes at the mean.

    Args:
        packets: To be sent.
        window: In packets, at the first loss.
        bottleneck: Packets/s.
        rtt_s: ROUND TRIP.
        loss: Share of the packets; without any the result is that of the mean.
    """
    flat = [np.ravel(column).astype(np.float64) for column in (packets, window, bottleneck, rtt_s, loss)]
    left, most, line, rtt, lost = flat
    left, most = left.copy(), np.maximum(most, 1.0)
    now, took = _BETA * most, np.zeros_like(left)
    for _ in range(_INTERVALS):
        some = np.flatnonzero((left > 0) & (lost > 0))
        if not len(some):
            break
        batch = np.minimum(left[some], 1.0 / lost[some])
        spent, ended = _interval(batch, most[some], now[some], line[some], rtt[some])
        took[some] += spent + batch * timeout_s_per_packet(rtt[some], lost[some])
        most[some] = np.where(ended < most[some], ended * (1.0 + _BETA) / 2.0, ended)
        now[some] = np.maximum(_BETA * ended, 1.0)
        left[some] -= batch
    steady = rtt / cubic_window(rtt, np.maximum(lost, 1e-12)) + timeout_s_per_packet(rtt, lost)
    out: Floats = (took + left * np.maximum(steady, 1.0 / line)).reshape(np.shape(packets))
    return out


def _interval(batch: Floats, most: Floats, now: Floats, line: Floats, rtt_s: Floats) -> tuple[Floats, Floats]:
    """Seconds from one loss to the next, and the window then: looked at in some points, linear between."""
    longest = np.maximum(batch * rtt_s / now, batch / line)
    at = longest[:, None] * np.linspace(0.0, 1.0, _POINTS)
    cubic = _C * (at - np.cbrt((most - now) / _C)[:, None]) ** 3 + most[:, None]
    windows = np.maximum(np.maximum(cubic, now[:, None] + _FRIENDLY * at / rtt_s[:, None]), now[:, None])
    rates = np.minimum(windows / rtt_s[:, None], line[:, None])
    sent = np.zeros_like(rates)
    sent[:, 1:] = np.cumsum((rates[:, 1:] + rates[:, :-1]) / 2.0, axis=1) * (longest / (_POINTS - 1))[:, None]
    rows = np.arange(len(batch))
    after = np.clip((sent < batch[:, None]).sum(axis=1), 1, _POINTS - 1)
    low, high = sent[rows, after - 1], sent[rows, after]
    part = np.clip((batch - low) / np.maximum(high - low, 1e-12), 0.0, 1.0)
    return (after - 1 + part) / (_POINTS - 1) * longest, windows[rows, after]


def _start(
    transport: Transport, packets: Floats, rate_bps: Floats, rtt_s: Floats, loss: Floats
) -> tuple[Floats, Floats]:
    """Rounds of doubling, and the packets that they carry: up to what the bottleneck holds, or to the first loss."""
    window = np.maximum(rate_bps * rtt_s / (8.0 * transport.packet_bytes), INITIAL_WINDOW)
    if transport.ends_start:
        with np.errstate(divide="ignore", invalid="ignore"):
            before = np.where(loss > 0, (1.0 - (1.0 - loss) ** packets) / loss, np.inf)
        window = np.minimum(window, np.maximum(before / 2.0, INITIAL_WINDOW))
    rounds = np.maximum(np.ceil(np.log2(window / INITIAL_WINDOW)), 0.0)
    return rounds, INITIAL_WINDOW * (2.0**rounds - 1.0)
