"""Hashes of prefixes."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from railyard.cluster.hashing import finalized

if TYPE_CHECKING:
    from numpy.typing import NDArray

_GOLDEN = np.uint64(0x9E3779B97F4A7C15)


def prefix_hashes(tokens: NDArray[np.uint64], block_tokens: int) -> NDArray[np.uint64]:
    """A hash of every prefix that ends with a whole block: mixed sums of mixed (token, place)."""
    place = np.arange(1, len(tokens) + 1, dtype=np.uint64) * _GOLDEN
    sums = np.cumsum(finalized(finalized(tokens + np.uint64(1)) ^ place), dtype=np.uint64)
    return finalized(sums[block_tokens - 1 :: block_tokens])


def block_hashes(owner: NDArray[np.int64], block: NDArray[np.int64]) -> NDArray[np.uint64]:
    """A hash of each block of histories that only grow: its owner and its place say all."""
    return finalized(finalized(owner.astype(np.uint64) + _GOLDEN) ^ (block.astype(np.uint64) + np.uint64(1)) * _GOLDEN)
