"""A server that waits for nobody: so many clients at work at any time, a step whenever the buffer is full."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from railyard import _core
from railyard.engine.rounds.waiting import Tree
from railyard.kit.errors import SimulationError

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    from railyard.engine.rounds.waiting import Cohort

    Floats = NDArray[np.float64]


def exponential_order(count: int, rank: int, mean: float = 1.0) -> float:
    """Mean of the rank-th smallest of so many independent exponential numbers (Renyi 1953).

    Args:
        count: How many are drawn.
        rank: Which, from 1 (the smallest) to `count` (the largest).
        mean: Of one.
    """
    return float(mean * np.sum(1.0 / np.arange(count - rank + 1, count + 1)))


def survivors(count: int, share: float) -> tuple[float, float]:
    """Mean and variance of how many of so many stay, each with the same probability: a binomial number."""
    return count * share, count * share * (1.0 - share)


_MOST_IN_VAIN = 1000
"""Clients that begin for one that comes back, beyond which nobody is waited for."""
_SPARE = 1.1
"""Clients drawn beyond those that are expected to come and to be at work at the end."""


@dataclass(frozen=True, eq=False)
class Steps:
    """Steps of the server.

    Attributes:
        at_s: float64[steps], when each came.
        row: int64[steps * buffer], the updates in the order in which they came, as rows of what was drawn.
        staleness: float64[steps * buffer], steps that the server took while the update was made.
        wasted: Updates that were begun and given up before the last step.
        visits: When each row began, got, sent and ended.
        cohort: What was drawn.
    """

    at_s: Floats
    row: NDArray[np.int64]
    staleness: Floats
    wasted: int
    visits: _core.Visits
    cohort: Cohort


def run(draw: Callable[[int], Cohort], concurrency: int, buffer: int, steps: int) -> Steps:
    """Runs to a number of steps.

    Each of `concurrency` places takes one client after another, as each comes back or leaves. Transfers share the
    cohort's links with whatever is under way at that time, the server's line among them.

    Args:
        draw: Given how many, so many clients in the order in which places take them; the first of more are the same.
        concurrency: Clients at work at any time.
        buffer: Updates of a step.
        steps: Of the server.

    Raises:
        SimulationError: Next to nobody comes back.
    """
    wanted = steps * buffer
    count = math.ceil(_SPARE * (wanted + concurrency))
    while True:
        cohort = draw(count)
        visits = _visits(cohort, concurrency, wanted)
        if len(visits.came) == wanted:
            break
        if count > _MOST_IN_VAIN * (len(visits.came) + concurrency):
            found = f"of {count:,} clients that began {len(visits.came):,} came back"
            raise SimulationError(f"{found}: they leave, or a deadline ends, too early")
        count = math.ceil(_SPARE * count * wanted / max(len(visits.came), wanted / 4))
    rows = np.asarray(visits.came, np.int64)
    at_s = visits.end_s[rows][buffer - 1 :: buffer]
    version = np.searchsorted(at_s, visits.begun_s[rows], side="right")
    now = np.arange(wanted) // buffer
    return Steps(at_s, rows, (now - version).astype(np.float64), len(visits.left), visits, cohort)


def _visits(cohort: Cohort, places: int, updates: int) -> _core.Visits:
    return _core.rounds_visits(
        delay_s=_column(cohort.delay_s),
        work_s=_column(cohort.down_lag_s + cohort.compute_s + cohort.crossing_s),
        lag_s=_column(cohort.up_lag_s),
        leave_s=_column(cohort.leave_s),
        down_bits=_column(cohort.down_bits),
        down_bps=_column(cohort.down_bps),
        up_bits=_column(cohort.up_bits),
        up_bps=_column(cohort.up_bps),
        down=_links(cohort.down, len(cohort)),
        up=_links(cohort.up, len(cohort)),
        places=places,
        updates=updates,
    )


def _column(values: Floats) -> Floats:
    return np.ascontiguousarray(values, np.float64)


def _links(tree: Tree | None, clients: int) -> _core.SharedLinks:
    known = Tree.line(np.inf, clients) if tree is None else tree
    return _core.SharedLinks(first=known.first, capacity_bps=known.capacity_bps, parent=known.parent)
