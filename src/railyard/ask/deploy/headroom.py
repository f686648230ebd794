"""What a port's buffer must hold after it sends a pause, as SONiC reckons it for its switches.

    xoff = packet + occupancy (frame + round trip on the cable + interfaces + response of the far end + tile)

The far end may take the pause quanta of IEEE 802.3, annex 31B.3.7, until it stops. Small packets fill cells badly: a
packet of 64 bytes takes one.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from railyard.catalog import Switch

FRAME = 9216
"""Bytes of the largest frame, one of which has begun when a pause is to be sent."""

EIGHT = 8
"""Lanes of a port that has two halves in a switch."""

SMALLEST = 64
"""Bytes of the smallest packet."""

QUANTUM_BITS = 512

QUANTA = {800: 905, 400: 905, 200: 453, 100: 394, 50: 147, 40: 118, 25: 80, 10: 67, 1: 2}
"""Quanta that a station may take to answer a pause, by Gb/s (IEEE 802.3, annex 31B.3.7, as sonic-swss lists them in
buffer_headroom_mellanox.lua; it takes 800 Gb/s as 400)."""

RESPONSE_S = 905 * QUANTUM_BITS / 400e9
"""The same as a time, for rates that neither names: 1.16 us at 400 Gb/s, as 453 quanta are at 200 Gb/s: from there on
the quanta grow with the rate, since what they allow is time. An estimate for 1.6 Tb/s, whose annex we have not seen.
What SONiC falls back to, 3.8 KiB (asic_table.j2: peer_response_time), is 19 ns there: no station stops so fast."""

INTERFACES_KIB = 0.8
"""Both interfaces of a cable (asic_table.j2: mac_phy_delay)."""

LIGHT_M_PER_S = 198_000_000
"""In fibre, as SONiC counts it."""

GRAIN = 1024
"""Sizes are rounded up to it."""


@dataclass(frozen=True)
class Asic:
    """What depends on the switch.

    Attributes:
        cell_bytes: Of its buffer.
        xon_kib: Until a port is let go (asic_table.j2: pipeline_latency).
        tile_ns: Of data that may be on the way inside it.
        extra_bytes: For its bookkeeping.
    """

    cell_bytes: int
    xon_kib: int = 19
    tile_ns: int = 0
    extra_bytes: int = 0


ASICS = {
    "spectrum-2": Asic(144),
    "spectrum-3": Asic(144),
    "spectrum-4": Asic(192, tile_ns=120),
    "spectrum-5": Asic(192, tile_ns=120),
    "spectrum-6": Asic(192, extra_bytes=18 * 1024),
}
"""Switches whose figures are public (sonic-buildimage, asic_table.j2; sonic-swss, buffer_headroom_mellanox.lua)."""

USUAL_CHIP = "Spectrum-4"

USUAL = ASICS[USUAL_CHIP.lower()]
"""Of switches whose figures are not public: the one that needs most at 800 Gb/s, and a KiB less than most at 400."""

PACKET = 4096 + 82
"""Bytes of a full lossless packet: RoCE's payload and headers."""


@dataclass(frozen=True)
class Headroom:
    """Bytes: of what may still come (`xoff`), until a port is let go (`xon`), and of both (`size`)."""

    xon: int
    xoff: int
    size: int


def asic_of(switch: Switch) -> tuple[Asic, str]:
    """A switch's ASIC by its chip, and the chip whose figures these are: another's where its own are not public."""
    own = ASICS.get(switch.chip.lower())
    return (USUAL, USUAL_CHIP) if own is None else (own, switch.chip)


def headroom(
    rate_bps: float, length_m: float, *, asic: Asic = USUAL, lanes: int = 8, frame_bytes: int = FRAME
) -> Headroom:
    """Of a port, when all that may come are packets of the smallest size, as SONiC assumes.

    Args:
        rate_bps: Of its cable.
        length_m: Of its cable.
        asic: The switch.
        lanes: Of the port; one with eight has two halves in the switch.
        frame_bytes: Largest frame that may have begun when a pause is to be sent.
    """
    under_way = on_the_way(rate_bps, length_m, frame_bytes) + rate_bps / 1e9 * asic.tile_ns / 8
    xoff = _rounded(PACKET + under_way * _occupancy(asic.cell_bytes)) + asic.extra_bytes
    xon = _rounded(asic.xon_kib * GRAIN * (2 if lanes == EIGHT else 1))
    return Headroom(xon, xoff, _rounded(xoff + xon + (FRAME if lanes == EIGHT else 0)))


def on_the_way(rate_bps: float, length_m: float, frame_bytes: int = FRAME) -> float:
    """Bytes that may still come after a pause: what any switch has to hold, whatever its cells are.

    Args:
        rate_bps: Of the cable.
        length_m: Of the cable.
        frame_bytes: Largest frame that may have begun.
    """
    quanta = QUANTA.get(round(rate_bps / 1e9), RESPONSE_S * rate_bps / QUANTUM_BITS)
    cable = 2 * length_m * rate_bps / LIGHT_M_PER_S / 8
    return frame_bytes + cable + INTERFACES_KIB * GRAIN + quanta * QUANTUM_BITS / 8


def _occupancy(cell: int) -> int:
    """Bytes of buffer a byte of packets, when all are of the smallest size, or a byte larger than a cell."""
    return math.ceil(cell / SMALLEST if cell > 2 * SMALLEST else 2 * cell / (1 + cell))


def _rounded(size: float) -> int:
    return math.ceil(size / GRAIN) * GRAIN
