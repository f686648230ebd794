"""The effect of distance on a link's rate: credits return after a round trip, and they limit the data in flight.

    rate <= (buffer of a virtual lane - credit reported late) / (2 latency of the link)

A switch's lane has 128 KiB, which supports 400 Gb/s over 130 m of round trip and 1.1 Gb/s over 80 km. Switches for long
links can buffer a round trip of their reach. Links that pause (PFC) run at full rate at any distance; the data in
flight when a pause is sent must fit into the headroom of the far end, or it is lost.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from railyard.cluster.boxes import FIBRE_S_PER_M

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from railyard.catalog import Switch
    from railyard.cluster.fabric.fabric import Fabric
    from railyard.cluster.topology.wiring import Wiring

MAX_FRAME_BYTES = 9216
"""Largest frame of lossless Ethernet, of which 802.1Qbb counts three in addition to what is in flight."""

PAUSE_BYTES = 64

HEADROOM_SHARE = 0.5
"""Maximum share of a switch's buffer for headroom, so that half is left to queues. Tomahawk 5's tables in SONiC assign
20 to 29.5 of 173 MB.
"""


HEADROOMS = 16.0
"""When this multiple of the headroom is missing, go-back-N gets half of its rate into a congested port: 36 incasts in
packets (`validation/tools/headroom_law.py`), mean deviation 17 %, single ones -59 to +69 %.
"""


def headroom_share(needed: float) -> float:
    """Share of its rate that go-back-N keeps into a congested port behind a long link with too little headroom.

    What arrives beyond the headroom after a pause is lost, and with it a round trip of sent data. The law is fitted to
    packet runs, not derived.
    """
    return 1.0 / (1.0 + max(needed - 1.0, 0.0) / HEADROOMS)


def round_trip_ps(length_m: float) -> float:
    """Round-trip time of light in fiber."""
    return 2 * length_m * FIBRE_S_PER_M * 1e12


def credit_bps(
    fabric: Fabric, line_bps: NDArray[np.float64], latency_ps: NDArray[np.int64], reach_ps: float
) -> NDArray[np.float64]:
    """Rate limit from credits, float64[links] in bit/s; inf on a fabric without link credits.

    Args:
        fabric: Gives a lane's buffer and the delay of credit updates.
        line_bps: float64[links].
        latency_ps: int64[links], one way, switch included.
        reach_ps: Round trip for which switches at the ends of long links have credits; 0 for none.
    """
    if not fabric.credit_buffer_bytes:
        return np.full(len(line_bps), np.inf)
    round_ps = np.maximum(2.0 * latency_ps, 1.0)
    lane = 8.0 * max(fabric.credit_buffer_bytes - fabric.credit_update_bytes, 1)
    held = np.maximum(lane, line_bps * np.minimum(round_ps, reach_ps) * 1e-12)
    bound: NDArray[np.float64] = held / (round_ps * 1e-12)
    return bound


def headroom_bytes(line_bps: float, length_m: float) -> int:
    """Buffer that an ingress needs above its threshold: a round trip, three frames, the pause (802.1Qbb)."""
    return round(line_bps * round_trip_ps(length_m) * 1e-12 / 8) + 3 * MAX_FRAME_BYTES + PAUSE_BYTES


def headroom_left_bytes(border: Switch, wiring: Wiring, tier: int) -> int:
    """Headroom that a border switch's buffer leaves each of its long links."""
    long_links = wiring.target[wiring.tier == tier]
    most = int(np.bincount(long_links).max()) if len(long_links) else 1
    return int(HEADROOM_SHARE * border.buffer_bytes) // most
