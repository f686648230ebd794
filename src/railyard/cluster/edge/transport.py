"""Goodput and transfer times of TCP and QUIC over a path, in closed form.

- Response of CUBIC to random loss: RFC 9438, section 5.1 (C = 0.4, beta = 0.7), its Reno-friendly window: section 4.3.
- Timeouts: Padhye, Firoiu, Towsley, Kurose (PFTK), SIGCOMM 1998, equation 30, with one acknowledgement a packet.
- QUIC has none of these timeouts: a probe cuts no window, only lasting congestion does (RFC 9002, sections 6.2, 7.6).
- Losses to a shallow buffer: CUBIC's saw-tooth of RFC 9438, section 4.2, over the bandwidth-delay product.
- BBR: Cardwell et al., ACM Queue 2016: rate of the bottleneck while fewer packets are lost than its probing gain of
  1.25 makes up for (1 - 1/1.25); 200 ms of four packets every 10 s (PROBE_RTT).
- Start: initial window of 10 (RFC 6928), doubled every round trip (Cardwell, Savage, Anderson, INFOCOM 2000).
"""

from __future__ import annotations

import zlib
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

import railyard._core as _core
from railyard.catalog.types import QUANTILES
from railyard.kit.registry import Registry

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import ArrayLike, NDArray

    Floats = NDArray[np.float64]
    Ids = NDArray[np.int64]
    from collections.abc import Mapping

    from railyard.catalog.types import AccessLink


def _drawn(draw: Callable[..., None], seed: int, stream: str, who: ArrayLike, counter: ArrayLike) -> Floats:
    """A number for each client, from one of the core's distributions."""
    key = _core.rounds_key((seed << 32 | zlib.crc32(stream.encode())) & 0xFFFFFFFFFFFFFFFF)
    clients, counts = np.asarray(who, np.int64), np.asarray(counter, np.int64)
    shape = np.broadcast_shapes(clients.shape, counts.shape)
    out = np.empty(int(np.prod(shape)))
    columns = [
        np.ascontiguousarray(one if one.size in (1, out.size) else np.broadcast_to(one, shape)).reshape(-1)
        for one in (clients, counts)
    ]
    draw(key, *columns, out)
    return out.reshape(shape)


def uniform(seed: int, stream: str, who: ArrayLike, counter: ArrayLike = 0) -> Floats:
    """Numbers strictly between 0 and 1.

    Args:
        seed: Of the run.
        stream: Purpose of the numbers; each stream is independent.
        who: int64, the clients.
        counter: int64, index of the number within the stream; broadcast with `who`.
    """
    return _drawn(_core.rounds_uniform, seed, stream, who, counter)


def normal(seed: int, stream: str, who: ArrayLike, counter: ArrayLike = 0) -> Floats:
    """Standard normal numbers."""
    return _drawn(_core.rounds_normal, seed, stream, who, counter)


def exponential(seed: int, stream: str, who: ArrayLike, counter: ArrayLike = 0) -> Floats:
    """Exponential numbers of mean 1."""
    out: Floats = -np.log(uniform(seed, stream, who, counter))
    return out


def inverse_normal(share: ArrayLike) -> Floats:
    """Inverse of the standard normal distribution, with a relative error of 1.2e-9.

    Acklam's rational approximation (P. J. Acklam, 2003).

    Args:
        share: float64, strictly between 0 and 1.
    """
    given = np.asarray(share, np.float64)
    out = np.empty(given.size)
    _core.rounds_inverse_normal(np.ascontiguousarray(given).reshape(-1), out)
    return out.reshape(given.shape)


HOURS = 24
_HOUR_S = 3600.0
DAY_S = HOURS * _HOUR_S


@dataclass(frozen=True)
class Presence:
    """When clients are idle, charging and on an allowed link.

    Attributes:
        by_hour: float[24], share of available clients by local hour, 0 to 1.
        session_s: Mean time until an available client leaves for other reasons (unplugged, used); inf: never.
    """

    by_hour: tuple[float, ...]
    session_s: float = np.inf

    @staticmethod
    def diurnal(most: float, least: float, peak_hour: float, session_s: float = np.inf) -> Presence:
        """A day with one peak: a raised cosine between two shares."""
        phase = 2.0 * np.pi * (np.arange(HOURS) - peak_hour) / HOURS
        shares = least + (most - least) * (1.0 + np.cos(phase)) / 2.0
        return Presence(tuple(float(share) for share in shares), session_s)

    def share(self, local_s: Floats) -> Floats:
        """Share available at a local time, linear between full hours."""
        hour = np.asarray(local_s, np.float64) / _HOUR_S % HOURS
        known = np.append(self.by_hour, self.by_hour[0])
        out: Floats = np.interp(hour, np.arange(HOURS + 1), known)
        return out

    def there(self, seed: int, who: Ids, now_s: float, offset_s: Floats) -> np.ndarray:
        """bool[clients], who is available.

        Each client has a daily random mark and is available while the share is above it. Its hours form one interval
        around the peak, and at any time each client is available with exactly the probability of that hour.

        Args:
            seed: Of the run.
            who: int64, the clients.
            now_s: Seconds of UTC since midnight of the first day.
            offset_s: float64[clients], offset of their time zones from UTC.
        """
        local = now_s + offset_s
        mark = uniform(seed, "presence", who, np.floor(local / DAY_S).astype(np.int64))
        there: np.ndarray = mark < self.share(local)
        return there

    def leave_s(self, seed: int, who: Ids, counter: int) -> Floats:
        """float64[clients], seconds after which each leaves; inf if no client does."""
        if not np.isfinite(self.session_s):
            return np.full(len(who), np.inf)
        return self.session_s * exponential(seed, "session", who, counter)


_SHARES = (0.05, 0.25, 0.5, 0.75, 0.95)
SCORES = inverse_normal(_SHARES)
"""Normal scores of the catalog's quantiles."""
_PS = 1e-12


def at_score(table: Mapping[str, float], score: Floats) -> Floats:
    """The value of a distribution at a normal score: log-linear between quantiles, extrapolated beyond the outer two.

    Args:
        table: Values by quantile, each more than zero.
        score: float64, such as 0 for the median, 1.645 for the 95th percentile.
    """
    known = np.log([table[name] for name in QUANTILES])
    piece = np.clip(np.searchsorted(SCORES, score) - 1, 0, len(SCORES) - 2)
    slope = (np.diff(known) / np.diff(SCORES))[piece]
    out: Floats = np.exp(known[piece] + slope * (score - SCORES[piece]))
    return out


def block_of(correlation_ps: float | Floats, start: Floats, at_s: float | Floats) -> Ids:
    """Number of the time block during which a client's link keeps its state.

    Args:
        correlation_ps: Correlation time of its kind of link; a block is twice as long.
        start: The client's own share of a block that is over at time zero.
        at_s: When, seconds.
    """
    out: Ids = np.floor(at_s / (2.0 * correlation_ps * _PS) + start).astype(np.int64)
    return out


def score_of(link: AccessLink, seed: int, who: Ids, at_s: float | Floats) -> Floats:
    """Normal score of each client's link at a time: its quality relative to all links of its kind.

    A client's score is the sum of a constant part (`steady` of the variance) and a varying one. The latter is constant
    for a block of twice the correlation time, with a random start per client, so that its autocorrelation falls
    linearly to zero after two correlation times and its integral is the correlation time. At any time, scores over all
    clients are exactly standard normal.

    Args:
        link: Its `steady` share and correlation time.
        seed: Of the run.
        who: int64, the clients.
        at_s: When, seconds.
    """
    block = block_of(link.correlation_ps, uniform(seed, "link block", who), at_s)
    stays = normal(seed, "link", who)
    passes = normal(seed, "link now", who, block)
    out: Floats = np.sqrt(link.steady) * stays + np.sqrt(1.0 - link.steady) * passes
    return out


@dataclass(frozen=True, eq=False)
class ClientPaths:
    """Paths between clients and a server; float64[clients] each.

    Attributes:
        down_bps: To the client, ONE WAY.
        up_bps: From the client, ONE WAY.
        rtt_s: ROUND TRIP without load.
        loss: Random packet loss.
    """

    down_bps: Floats
    up_bps: Floats
    rtt_s: Floats
    loss: Floats

    def take(self, rows: NDArray[np.intp] | slice) -> ClientPaths:
        """Paths of some clients."""
        return ClientPaths(self.down_bps[rows], self.up_bps[rows], self.rtt_s[rows], self.loss[rows])


def paths(link: AccessLink, seed: int, who: Ids, at_s: float | Floats, far_s: Floats) -> ClientPaths:
    """Paths of clients that have one kind of link.

    A good link is good in both directions; its round trip is drawn separately, since queues and rates need not agree.

    Args:
        link: The kind of link.
        seed: Of the run.
        who: int64, the clients.
        at_s: When, seconds.
        far_s: float64[clients], ROUND TRIP from the end of the access link to the server.
    """
    score = score_of(link, seed, who, at_s)
    near = at_score(link.rtt_ps, normal(seed, "link rtt", who)) * _PS
    return ClientPaths(
        at_score(link.down_bps, score), at_score(link.up_bps, score), near + far_s, np.full(len(who), link.loss)
    )


INITIAL_WINDOW = 10.0
"""Segments (RFC 6928)."""
_LEAST_TIMEOUT_S = 0.2
"""Linux's TCP_RTO_MIN; added to the round trip."""
_QUIC_BYTES = 11.0 + 16.0 + 8.0
"""Datagram overhead (RFC 9000): short header with 8-byte connection ID, 2-byte number, tag, frame with offset and
length.
"""
_DEEP_BUFFER = 1.0
"""Assumed buffer at the bottleneck in bandwidth-delay products; access links have more."""


@dataclass(frozen=True)
class WideAreaTransport:
    """A transport protocol with its congestion control.

    Attributes:
        name: Name in scenarios.
        summary: One line.
        payload_bytes: Payload of a full packet.
        packet_bytes: The same with the IP header and everything between.
        setup_rtts: Round trips before the first byte of a request, including encryption.
        bbr: Whether its rate follows the bottleneck's delivery rate; otherwise CUBIC's window, cut by losses.
        initial_window: Packets in the first round trip.
        least_timeout_s: Added to the round trip if a loss ends in a timeout; inf: there are no timeouts.
        receive_bytes: Receive window.
    """

    name: str
    summary: str
    payload_bytes: float
    packet_bytes: float
    setup_rtts: float
    bbr: bool
    initial_window: float = INITIAL_WINDOW
    least_timeout_s: float = _LEAST_TIMEOUT_S
    receive_bytes: float = np.inf

    @property
    def payload_share(self) -> float:
        """Payload share of the bytes on the link."""
        return self.payload_bytes / self.packet_bytes

    @cached_property
    def protocol(self) -> _core.Protocol:
        """The record that the core reads."""
        return _core.Protocol(
            bbr=self.bbr,
            payload_bytes=self.payload_bytes,
            packet_bytes=self.packet_bytes,
            initial_window=self.initial_window,
            least_timeout_s=self.least_timeout_s,
            receive_bytes=self.receive_bytes,
        )


transports: Registry[WideAreaTransport] = Registry("transport")

for _name in ("cubic", "bbr"):
    _bbr = _name == "bbr"
    transports.add(_name, WideAreaTransport(_name, f"TCP with {_name.upper()} and TLS 1.3", 1448.0, 1500.0, 2.0, _bbr))
    transports.add(
        f"quic-{_name}",
        WideAreaTransport(
            f"quic-{_name}",
            f"QUIC with {_name.upper()}: datagrams of 1,200 bytes as RFC 9000 allows everywhere",
            1200.0 - _QUIC_BYTES,
            1228.0,
            1.0,
            _bbr,
            least_timeout_s=np.inf,
        ),
    )


def _columns(*values: ArrayLike) -> tuple[tuple[int, ...], list[Floats]]:
    """Their broadcast shape, and each as a column of that many rows, or of one."""
    arrays = [np.asarray(value, np.float64) for value in values]
    shape = np.broadcast_shapes(*(array.shape for array in arrays))
    rows = int(np.prod(shape))
    full = [np.broadcast_to(array, shape) if array.size not in (1, rows) else array for array in arrays]
    return shape, [np.ascontiguousarray(array).reshape(-1) for array in full]


def goodput_bps(transport: WideAreaTransport, rate_bps: ArrayLike, rtt_s: ArrayLike, loss: ArrayLike) -> Floats:
    """Payload bits per second of one connection in steady state, behind a deep buffer.

    Args:
        transport: The protocol.
        rate_bps: Rate of the bottleneck, ONE WAY, IP packets.
        rtt_s: ROUND TRIP without load.
        loss: Random packet loss.
    """
    shape, (rate, rtt, lost, depth) = _columns(rate_bps, rtt_s, loss, _DEEP_BUFFER)
    out = np.empty(int(np.prod(shape)))
    _core.rounds_goodput_bps(transport.protocol, rate, rtt, lost, depth, out)
    return out.reshape(shape)


def transfer_s(
    transport: WideAreaTransport,
    size_bytes: ArrayLike,
    rate_bps: ArrayLike,
    rtt_s: ArrayLike,
    loss: ArrayLike,
    *,
    warm: bool = False,
    buffer: ArrayLike = _DEEP_BUFFER,
) -> Floats:
    """Seconds from the first packet sent to the last one received; 0 for an empty transfer.

    Args:
        transport: The protocol.
        size_bytes: Payload.
        rate_bps: Rate of the bottleneck, ONE WAY, IP packets.
        rtt_s: ROUND TRIP without load.
        loss: Random packet loss.
        warm: Whether the connection has carried as much before, so that its window is open.
        buffer: Buffer at the bottleneck, in bandwidth-delay products.
    """
    return carried_s(transport, size_bytes, rate_bps, rtt_s, loss, warm=warm, buffer=buffer)[0]


def carried_s(
    transport: WideAreaTransport,
    size_bytes: ArrayLike,
    rate_bps: ArrayLike,
    rtt_s: ArrayLike,
    loss: ArrayLike,
    *,
    warm: bool = False,
    buffer: ArrayLike = _DEEP_BUFFER,
) -> tuple[Floats, Floats]:
    """The same as `transfer_s`, and the seconds of each at the steady goodput, which sharing stretches."""
    shape, (size, rate, rtt, lost, depth) = _columns(size_bytes, rate_bps, rtt_s, loss, buffer)
    total, bits = np.empty(int(np.prod(shape))), np.empty(int(np.prod(shape)))
    _core.rounds_carried_s(transport.protocol, size, rate, rtt, lost, depth, warm, total, bits)
    return total.reshape(shape), bits.reshape(shape)
