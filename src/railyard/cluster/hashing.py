"""The integer hash by which switches choose among equal-cost links: the finalizer of splitmix64.

Source: G. Steele, D. Lea, C. Flood, "Fast splittable pseudorandom number generators", OOPSLA 2014, with the constants
    of
D. Stafford's mix 13. Integer arithmetic only: the same paths on every machine.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

_GOLDEN = np.uint64(0x9E3779B97F4A7C15)
_FIRST = np.uint64(0xBF58476D1CE4E5B9)
_SECOND = np.uint64(0x94D049BB133111EB)


def mix(value: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """A well-mixed 64-bit hash of each value."""
    return finalized(value + _GOLDEN)


def finalized(value: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """The finalizer alone, for values that are not a count from zero."""
    out = value ^ (value >> np.uint64(30))
    out *= _FIRST
    out ^= out >> np.uint64(27)
    out *= _SECOND
    out ^= out >> np.uint64(31)
    return out


def salts(count: int, *, seed: int = 0, shared: bool = False) -> NDArray[np.uint32]:
    """One salt a switch, so that two tiers never make the same choice for the same flow (no polarization).

    Args:
        count: Nodes.
        seed: Of all salts.
        shared: Whether all switches have one salt, as switches have that were left as they were delivered.
    """
    base = np.uint64((seed * 0x9E3779B97F4A7C15 + 0x5851F42D4C957F2D) & 0xFFFFFFFFFFFFFFFF)
    owner = np.zeros(count, np.uint64) if shared else np.arange(count, dtype=np.uint64)
    return finalized(mix(owner * np.uint64(0xD1342543DE82EF95) + base)).astype(np.uint32)


def pick(hashed: NDArray[np.uint64], width: NDArray[np.int32]) -> NDArray[np.int64]:
    """A number in `[0, width)` from the upper 32 bits of each hash, by multiplication and not by remainder."""
    return (((hashed >> np.uint64(32)) * width.astype(np.uint64)) >> np.uint64(32)).astype(np.int64)


def path_keys(entropy: NDArray[np.uint64]) -> NDArray[np.uint32]:
    """What switches hash of each flow: 32 bits."""
    return (mix(entropy) >> np.uint64(32)).astype(np.uint32)


def chosen(key: NDArray[np.uint32], salt: NDArray[np.uint32], width: NDArray[np.int32]) -> NDArray[np.int64]:
    """Which of `width` equal links a switch takes. The packet engine's `Routes::pick` does the same, bit by bit."""
    bits = (key ^ salt) * np.uint32(0x9E3779B1)
    bits = (bits ^ (bits >> np.uint32(15))) * np.uint32(0x85EBCA77)
    bits = (bits ^ (bits >> np.uint32(13))) * np.uint32(0xC2B2AE3D)
    return ((bits.astype(np.uint64) * width.astype(np.uint64)) >> np.uint64(32)).astype(np.int64)


def subflow(key: NDArray[np.uint64], lane: int) -> NDArray[np.uint64]:
    """Entropy of one of the queue pairs of every connection."""
    return mix(key.astype(np.uint64) ^ mix(np.full(1, lane + 1, np.uint64)))


def subflows(key: NDArray[np.uint64], count: int) -> NDArray[np.uint64]:
    """Entropy of the `count` queue pairs of every connection, connection by connection."""
    return np.stack([subflow(key, lane) for lane in range(count)], axis=1).ravel()
