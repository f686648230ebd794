"""Random numbers by hash: the same client has the same device, link and data in every round, and needs no memory.

A number is a function of seed, stream, client and counter (SplitMix64, Steele, Lea, Flood 2014), so that drawing for
one client shifts nobody else's numbers, and only those who are asked are ever drawn.
"""

from __future__ import annotations

import zlib
from dataclasses import dataclass
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


HOURS = 24
_HOUR_S = 3600.0
DAY_S = HOURS * _HOUR_S


@dataclass(frozen=True)
class Presence:
    """When clients are idle, charging and on a link that may be used.

    Attributes:
        by_hour: float[24], share of the clients that is there at each hour of their own day, 0 to 1.
        session_s: Mean time until one that is there goes for another reason than its day (unplugged, used); inf: never.
    """

    by_hour: tuple[float, ...]
    session_s: float = np.inf

    @staticmethod
    def diurnal(most: float, least: float, peak_hour: float, session_s: float = np.inf) -> Presence:
        """A day with one crest: a raised cosine between two shares."""
        phase = 2.0 * np.pi * (np.arange(HOURS) - peak_hour) / HOURS
        shares = least + (most - least) * (1.0 + np.cos(phase)) / 2.0
        return Presence(tuple(float(share) for share in shares), session_s)

    def share(self, local_s: Floats) -> Floats:
        """Share that is there at a time of the clients' own day, linear between full hours."""
        hour = np.asarray(local_s, np.float64) / _HOUR_S % HOURS
        known = np.append(self.by_hour, self.by_hour[0])
        out: Floats = np.interp(hour, np.arange(HOURS + 1), known)
        return out

    def there(self, seed: int, who: Ids, now_s: float, offset_s: Floats) -> np.ndarray:
        """bool[clients], who is there.

        Each client has a mark of its own every day and is there while the share is above it: its hours are in one piece
        around the crest, and at every time each client is there with exactly the probability of its hour.

        Args:
            seed: Of the run.
            who: int64, the clients.
            now_s: Seconds of UTC since midnight of the first day.
            offset_s: float64[clients], of their time zones from UTC.
        """
        local = now_s + offset_s
        mark = uniform(seed, "presence", who, np.floor(local / DAY_S).astype(np.int64))
        there: np.ndarray = mark < self.share(local)
        return there

    def leave_s(self, seed: int, who: Ids, counter: int) -> Floats:
        """float64[clients], seconds after which each goes; inf where nobody does."""
        if not np.isfinite(self.session_s):
            return np.full(len(who), np.inf)
        return self.session_s * exponential(seed, "session", who, counter)
