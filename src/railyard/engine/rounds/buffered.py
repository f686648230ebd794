"""A server that waits for nobody: so many clients at work at any time, a step whenever the buffer is full."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    Floats = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Steps:
    """Steps of the server.

    Attributes:
        at_s: float64[steps], when each came.
        row: int64[steps * buffer], the update of each place, as a row of what was drawn.
        staleness: float64[steps * buffer], steps that the server took while the update was made.
        wasted: Updates that were begun and given up before the last step.
    """

    at_s: Floats
    row: NDArray[np.int64]
    staleness: Floats
    wasted: int


def run(draw: Callable[[int], tuple[Floats, NDArray[np.bool_]]], concurrency: int, buffer: int, steps: int) -> Steps:
    """Runs to a number of steps.

    Each of `concurrency` places takes one client after another, as each comes back or leaves. The order of the updates
    is exact: all are drawn that can come in time, then sorted.

    Args:
        draw: Given how many, seconds that each of further clients takes, and whether it leaves before its update came
            (the seconds are then until it left).
        concurrency: Clients at work at any time.
        buffer: Updates of a step.
        steps: Of the server.
    """
    wanted = steps * buffer
    took, left = draw(concurrency * max(2, int(1.3 * wanted / concurrency) + 2))
    while True:
        places = took.reshape(-1, concurrency)
        ends = np.cumsum(places, axis=0)
        # Up to here every place has its clients drawn: what comes later may lack one.
        horizon = float(ends[-1].min())
        stays = ~left.reshape(-1, concurrency)
        if int((stays & (ends <= horizon)).sum()) >= wanted:
            break
        more, gone = draw(len(took) // 2 // concurrency * concurrency or concurrency)
        took, left = np.concatenate([took, more]), np.concatenate([left, gone])
    flat_ends, flat_stays = ends.ravel(), stays.ravel()
    rows = np.flatnonzero(flat_stays & (flat_ends <= horizon))
    rows = rows[np.argsort(flat_ends[rows], kind="stable")][:wanted]
    at_s = flat_ends[rows][buffer - 1 :: buffer]
    begun = flat_ends[rows] - took[rows]
    version = np.searchsorted(at_s, begun, side="right")
    now = np.arange(wanted) // buffer
    wasted = int((~flat_stays & (flat_ends <= at_s[-1])).sum())
    return Steps(at_s, rows.astype(np.int64), (now - version).astype(np.float64), wasted)
