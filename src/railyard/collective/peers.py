"""Grouped sends inside a switched domain: over how many channels a peer's part goes, and what a channel moves.

NCCL (2.30, `addP2pToPlan`) gives each peer so many channels that all peers together fill the 32 of grouped sends, and
twice as many as long as a channel's part is above 16 MiB. A channel is one thread block that copies at a fixed rate,
so a single send below 64 MiB leaves most of the link idle: 8 B200 in a ring of sends take 793 us for 64 MiB and 810 us
for 256 MiB. An all-to-all of 8 has 28 channels at work and misses 15 % of the link, one of 4 has 24.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from railyard.collective.measured import LogConstants

KIB, MIB = 1 << 10, 1 << 20

CHANNELS = 32
"""Channels of grouped sends, and the most that one peer gets on a domain of 12 links and more (twice the links, as a
power of two)."""

BATCH = 8
"""Peers that one batch of grouped sends serves on the same channels (`NCCL_MAX_DEV_WORK_P2P_PER_BATCH`)."""

LARGEST_PART_BYTES = 16 * MIB
"""Part of a channel above which a peer gets twice as many channels (32 steps of 512 KiB)."""

LL_BYTES = CHANNELS * 16 * KIB
"""Largest message that moves at the rate of LL, NCCL's 16 KiB on each of the channels of grouped sends: the time steps
down beyond it in all-to-alls of 4 and 8 and in a ring of sends."""

LL_PART_BYTES = 128 * KIB
"""The same for one channel, which bounds communicators so large that a peer has fewer than four."""


def least_channels(ranks: int) -> int:
    """Channels for each peer while messages are small."""
    return max(1, CHANNELS >> int(np.ceil(np.log2(max(ranks, 1)))))


def channels_of_peer(ranks: int, message_bytes: NDArray[np.float64]) -> NDArray[np.float64]:
    """Channels for each peer.

    Args:
        ranks: Of the communicator.
        message_bytes: float64[k], to one peer.
    """
    least = least_channels(ranks)
    beyond = np.maximum(message_bytes, 1) / (least * LARGEST_PART_BYTES)
    doubled = np.exp2(np.ceil(np.maximum(np.log2(beyond), 0)))
    channels: NDArray[np.float64] = np.minimum(least * doubled, CHANNELS)
    return channels


def ll_bytes(ranks: int) -> float:
    """Largest message to one peer that goes by LL."""
    return min(LL_BYTES, LL_PART_BYTES * least_channels(ranks))


def copied_gbs(
    ranks: int, peers: int, message_bytes: NDArray[np.float64], protocol: str, measured: LogConstants
) -> NDArray[np.float64]:
    """What the channels of one rank copy out in all, float64[k] in GB/s.

    Args:
        ranks: Of the communicator.
        peers: To whom the rank sends at the same time.
        message_bytes: float64[k], to one peer.
        protocol: "ll" or "simple".
        measured: Rates of a channel.
    """
    each = measured.ll_channel_gbs if protocol == "ll" else measured.channel_gbs
    copied: NDArray[np.float64] = each * np.minimum(peers * channels_of_peer(ranks, message_bytes), CHANNELS)
    return copied


def fill_us(
    ranks: int, message_bytes: NDArray[np.float64], protocol: str, measured: LogConstants
) -> NDArray[np.float64]:
    """Time before the first receiver can copy out, float64[k]; LL needs no chunk to be whole."""
    if protocol == "ll":
        return np.zeros(message_bytes.shape)
    part = message_bytes / channels_of_peer(ranks, message_bytes)
    filled: NDArray[np.float64] = np.minimum(part, measured.fill_bytes) / (measured.channel_gbs * 1e3)
    return filled
