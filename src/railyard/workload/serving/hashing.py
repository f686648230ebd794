"""Hashes of prefixes."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

_GOLDEN = np.uint64(0x9E3779B97F4A7C15)


def prefix_hashes(tokens: NDArray[np.uint64], block_tokens: int) -> NDArray[np.uint64]:
    """A hash of every prefix that ends with a whole block: mixed sums of mixed (token, place)."""
    place = np.arange(1, len(tokens) + 1, dtype=np.uint64) * _GOLDEN
    sums = np.cumsum(mixed(mixed(tokens + np.uint64(1)) ^ place), dtype=np.uint64)
    return mixed(sums[block_tokens - 1 :: block_tokens])


def block_hashes(owner: NDArray[np.int64], block: NDArray[np.int64]) -> NDArray[np.uint64]:
    """A hash of each block of histories that only grow: its owner and its place say all."""
    return mixed(mixed(owner.astype(np.uint64) + _GOLDEN) ^ (block.astype(np.uint64) + np.uint64(1)) * _GOLDEN)


def mixed(values: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """The finaliser of SplitMix64 (Steele, Lea and Flood, OOPSLA 2014)."""
    values = (values ^ (values >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    values = (values ^ (values >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return values ^ (values >> np.uint64(31))
