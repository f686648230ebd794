"""Random numbers by hash: the same client has the same device, link and data in every round, and needs no memory.

A number is a function of seed, stream, client and counter (SplitMix64, Steele, Lea, Flood 2014), so that drawing for
one client shifts nobody else's numbers, and only those who are asked are ever drawn.
"""

from __future__ import annotations

import zlib
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import ArrayLike, NDArray

    Floats = NDArray[np.float64]
    Ids = NDArray[np.int64]

_GOLDEN = np.uint64(0x9E3779B97F4A7C15)
_FIRST = np.uint64(0xBF58476D1CE4E5B9)
_SECOND = np.uint64(0x94D049BB133111EB)
_MANTISSA = 2.0**-53


def _mix(value: NDArray[np.uint64]) -> NDArray[np.uint64]:
    value = (value ^ (value >> np.uint64(30))) * _FIRST
    value = (value ^ (value >> np.uint64(27))) * _SECOND
    return value ^ (value >> np.uint64(31))


def uniform(seed: int, stream: str, who: ArrayLike, counter: ArrayLike = 0) -> Floats:
    """Numbers strictly between 0 and 1.

    Args:
        seed: Of the run.
        stream: What they are for; each has numbers of its own.
        who: int64, the clients.
        counter: int64, which number of each; broadcast with `who`.
    """
    key = _mix(np.asarray([(seed << 32 | zlib.crc32(stream.encode())) & 0xFFFFFFFFFFFFFFFF], np.uint64))
    clients = np.asarray(who, np.int64).astype(np.uint64)
    counts = np.asarray(counter, np.int64).astype(np.uint64)
    with np.errstate(over="ignore"):
        mixed = _mix(_mix(clients * _GOLDEN + key) + counts * _GOLDEN)
    out: Floats = ((mixed >> np.uint64(11)).astype(np.float64) + 0.5) * _MANTISSA
    return out


def normal(seed: int, stream: str, who: ArrayLike, counter: ArrayLike = 0) -> Floats:
    """Standard normal numbers."""
    return inverse_normal(uniform(seed, stream, who, counter))


def exponential(seed: int, stream: str, who: ArrayLike, counter: ArrayLike = 0) -> Floats:
    """Exponential numbers of mean 1."""
    out: Floats = -np.log(uniform(seed, stream, who, counter))
    return out


_LOW = 0.02425
"""Below this probability the tail's rational function is used."""
_A = (
    -3.969683028665376e1,
    2.209460984245205e2,
    -2.759285104469687e2,
    1.383577518672690e2,
    -3.066479806614716e1,
    2.506628277459239,
)
_B = (-5.447609879822406e1, 1.615858368580409e2, -1.556989798598866e2, 6.680131188771972e1, -1.328068155288572e1, 1.0)
_C = (
    -7.784894002430293e-3,
    -3.223964580411365e-1,
    -2.400758277161838,
    -2.549732539343734,
    4.374664141464968,
    2.938163982698783,
)
_D = (7.784695709041462e-3, 3.224671290700398e-1, 2.445134137142996, 3.754408661907416, 1.0)


def inverse_normal(share: ArrayLike) -> Floats:
    """Where the standard normal distribution reaches a probability, to 1.2e-9 of its value.

    Acklam's rational approximation (P. J. Acklam, 2003).

    Args:
        share: float64, strictly between 0 and 1.
    """
    p = np.asarray(share, np.float64)
    middle = p - 0.5
    square = middle * middle
    inner = np.polyval(_A, square) * middle / np.polyval(_B, square)
    side = np.sqrt(-2.0 * np.log(np.minimum(p, 1.0 - p)))
    tail = np.polyval(_C, side) / np.polyval(_D, side)
    out: Floats = np.where(np.minimum(p, 1.0 - p) < _LOW, np.where(p < 0.5, tail, -tail), inner)
    return out
