"""What an access link gives a client at a time: measured quantiles, a part that stays and a part that passes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from railyard.catalog.types import QUANTILES
from railyard.cluster.edge import draws

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import NDArray

    from railyard.catalog.types import AccessLink
    from railyard.cluster.edge.draws import Floats, Ids

_SHARES = (0.05, 0.25, 0.5, 0.75, 0.95)
SCORES = draws.inverse_normal(_SHARES)
"""Normal scores of the quantiles of the catalogue."""
_PS = 1e-12


def at_score(table: Mapping[str, float], score: Floats) -> Floats:
    """The value of a distribution at a normal score: log-linear between its quantiles, and on beyond the outer two.

    Args:
        table: Values by quantile, each more than zero.
        score: float64, such as 0 for the median, 1.645 for the 95th percentile.
    """
    known = np.log([table[name] for name in QUANTILES])
    piece = np.clip(np.searchsorted(SCORES, score) - 1, 0, len(SCORES) - 2)
    slope = (np.diff(known) / np.diff(SCORES))[piece]
    out: Floats = np.exp(known[piece] + slope * (score - SCORES[piece]))
    return out


def block_of(correlation_ps: float | Floats, start: Floats, at_s: float | Floats) -> Ids:
    """Number of the block of time during which a client's link stays as it is.

    Args:
        correlation_ps: Of its kind of link; a block is twice as long.
        start: Share of a block that is over at time zero, the client's own.
        at_s: When, seconds.
    """
    out: Ids = np.floor(at_s / (2.0 * correlation_ps * _PS) + start).astype(np.int64)
    return out


def score_of(link: AccessLink, seed: int, who: Ids, at_s: float | Floats) -> Floats:
    """Normal score of each client's link at a time: how good it is among all of its kind.

    A client's score is the sum of a part that stays (`steady` of the variance) and one that passes. The latter holds
    for a block of twice the correlation time with a start of the client's own, so that its autocorrelation falls in a
    straight line to zero after two correlation times, and its integral is the correlation time. At any time scores over
    all clients are exactly standard normal.

    Args:
        link: Its `steady` share and correlation time.
        seed: Of the run.
        who: int64, the clients.
        at_s: When, seconds.
    """
    block = block_of(link.correlation_ps, draws.uniform(seed, "link block", who), at_s)
    stays = draws.normal(seed, "link", who)
    passes = draws.normal(seed, "link now", who, block)
    out: Floats = np.sqrt(link.steady) * stays + np.sqrt(1.0 - link.steady) * passes
    return out


@dataclass(frozen=True, eq=False)
class Paths:
    """Paths between clients and a server; float64[clients] each.

    Attributes:
        down_bps: To the client, ONE WAY.
        up_bps: From the client, ONE WAY.
        rtt_s: ROUND TRIP without load.
        loss: Share of the packets that is lost at random.
    """

    down_bps: Floats
    up_bps: Floats
    rtt_s: Floats
    loss: Floats

    def take(self, rows: NDArray[np.intp] | slice) -> Paths:
        """Of some clients."""
        return Paths(self.down_bps[rows], self.up_bps[rows], self.rtt_s[rows], self.loss[rows])


def paths(link: AccessLink, seed: int, who: Ids, at_s: float | Floats, far_s: Floats) -> Paths:
    """Paths of clients that have one kind of link.

    A good link is good both ways; its round trip is drawn by itself, since queues and rates need not agree.

    Args:
        link: The kind.
        seed: Of the run.
        who: int64, the clients.
        at_s: When, seconds.
        far_s: float64[clients], ROUND TRIP from the end of the access link to the server.
    """
    score = score_of(link, seed, who, at_s)
    near = at_score(link.rtt_ps, draws.normal(seed, "link rtt", who)) * _PS
    return Paths(
        at_score(link.down_bps, score), at_score(link.up_bps, score), near + far_s, np.full(len(who), link.loss)
    )
