"""Who is there when: shares of clients that may take part by the hour of their own day, and for how long they stay."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from railyard.cluster.edge import draws

if TYPE_CHECKING:
    from railyard.cluster.edge.draws import Floats, Ids

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
        mark = draws.uniform(seed, "presence", who, np.floor(local / DAY_S).astype(np.int64))
        there: np.ndarray = mark < self.share(local)
        return there

    def leave_s(self, seed: int, who: Ids, counter: int) -> Floats:
        """float64[clients], seconds after which each goes; inf where nobody does."""
        if not np.isfinite(self.session_s):
            return np.full(len(who), np.inf)
        return self.session_s * draws.exponential(seed, "session", who, counter)
