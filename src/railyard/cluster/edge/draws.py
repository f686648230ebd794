"""Random numbers by hash: the same client has the same device, link and data in every round, and needs no memory.

A number is a function of seed, stream, client and counter (SplitMix64, Steele, Lea, Flood 2014), so that drawing for
one client shifts nobody else's numbers, and only those who are asked are ever drawn.
"""

from __future__ import annotations

import zlib
from typing import TYPE_CHECKING

import numpy as np

from railyard import _core

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import ArrayLike, NDArray

    Floats = NDArray[np.float64]
    Ids = NDArray[np.int64]


def _drawn(draw: Callable[..., None], seed: int, stream: str, who: ArrayLike, counter: ArrayLike) -> Floats:
    """A number for each client, by one of the core's laws."""
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
        stream: What they are for; each has numbers of its own.
        who: int64, the clients.
        counter: int64, which number of each; broadcast with `who`.
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
    """Where the standard normal distribution reaches a probability, to 1.2e-9 of its value.

    Acklam's rational approximation (P. J. Acklam, 2003).

    Args:
        share: float64, strictly between 0 and 1.
    """
    given = np.asarray(share, np.float64)
    out = np.empty(given.size)
    _core.rounds_inverse_normal(np.ascontiguousarray(given).reshape(-1), out)
    return out.reshape(given.shape)
