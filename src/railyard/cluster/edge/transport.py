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

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from railyard import _core
from railyard.kit.registry import Registry

if TYPE_CHECKING:
    from numpy.typing import ArrayLike

    from railyard.cluster.edge.draws import Floats

INITIAL_WINDOW = 10.0
"""Segments (RFC 6928)."""
_LEAST_TIMEOUT_S = 0.2
"""Of Linux (TCP_RTO_MIN); added to the round trip."""
_QUIC_BYTES = 11.0 + 16.0 + 8.0
"""Of a datagram (RFC 9000): short header with 8 bytes of connection, 2 of number, tag, frame with offset and length."""
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
        bbr: Its rate is what the bottleneck gave; else CUBIC's window, which a lost packet cuts.
        initial_window: Packets of the first round trip.
        least_timeout_s: Added to the round trip where a loss ends in a timeout; inf: none does.
        receive_bytes: That a receiver lets be under way.
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
        """Of the bytes on the link."""
        return self.payload_bytes / self.packet_bytes

    @cached_property
    def protocol(self) -> _core.Protocol:
        """As the core reads it."""
        return _core.Protocol(
            bbr=self.bbr,
            payload_bytes=self.payload_bytes,
            packet_bytes=self.packet_bytes,
            initial_window=self.initial_window,
            least_timeout_s=self.least_timeout_s,
            receive_bytes=self.receive_bytes,
        )


transports: Registry[Transport] = Registry("transport")

for _name in ("cubic", "bbr"):
    _bbr = _name == "bbr"
    transports.add(_name, Transport(_name, f"TCP with {_name.upper()} and TLS 1.3", 1448.0, 1500.0, 2.0, _bbr))
    transports.add(
        f"quic-{_name}",
        Transport(
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
    """The shape that they have together, and each as a column of that many rows, or of one."""
    arrays = [np.asarray(value, np.float64) for value in values]
    shape = np.broadcast_shapes(*(array.shape for array in arrays))
    rows = int(np.prod(shape))
    full = [np.broadcast_to(array, shape) if array.size not in (1, rows) else array for array in arrays]
    return shape, [np.ascontiguousarray(array).reshape(-1) for array in full]


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
    shape, (rate, rtt, lost, depth) = _columns(rate_bps, rtt_s, loss, buffer)
    out = np.empty(int(np.prod(shape)))
    _core.rounds_goodput_bps(transport.protocol, rate, rtt, lost, depth, out)
    return out.reshape(shape)


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
    return carried_s(transport, size_bytes, rate_bps, rtt_s, loss, warm=warm, buffer=buffer)[0]


def carried_s(
    transport: Transport,
    size_bytes: ArrayLike,
    rate_bps: ArrayLike,
    rtt_s: ArrayLike,
    loss: ArrayLike,
    *,
    warm: bool = False,
    buffer: ArrayLike = _DEEP_BUFFER,
) -> tuple[Floats, Floats]:
    """As `transfer_s`, and the seconds of each in which its bits pass at the steady goodput: what sharing stretches."""
    shape, (size, rate, rtt, lost, depth) = _columns(size_bytes, rate_bps, rtt_s, loss, buffer)
    total, bits = np.empty(int(np.prod(shape))), np.empty(int(np.prod(shape)))
    _core.rounds_carried_s(transport.protocol, size, rate, rtt, lost, depth, warm, total, bits)
    return total.reshape(shape), bits.reshape(shape)
