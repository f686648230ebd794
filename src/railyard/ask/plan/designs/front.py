"""Which designs nothing beats in every objective, and in which order the others follow."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

_BLOCK = 512


def front(values: NDArray[np.float64]) -> NDArray[np.bool_]:
    """bool[n], designs of which no other is as good in every objective and better in one.

    Args:
        values: float64[n, objectives], less is better.
    """
    order = np.lexsort(values.T[::-1])
    kept: list[int] = []
    for at in order:
        rows = values[kept]
        if not np.any(np.all(rows <= values[at], axis=1) & np.any(rows < values[at], axis=1)):
            kept.append(int(at))
    found = np.zeros(len(values), bool)
    found[kept] = True
    return found


def promising(values: NDArray[np.float64], count: int) -> list[int]:
    """The designs to look at more closely: most of them the best by the first objective, the rest from the front.

    Args:
        values: float64[n, objectives], less is better.
        count: How many, at most.
    """
    by_first: list[int] = np.lexsort(values.T[::-1]).tolist()
    if values.shape[1] == 1:
        return by_first[:count]
    others = front(values)
    chosen = by_first[: (count + 1) // 2]
    ends = [int(np.argmin(values[:, column])) for column in range(1, values.shape[1])]
    for at in (*ends, *(at for at in by_first if others[at]), *by_first):
        if len(chosen) >= count:
            break
        if at not in chosen:
            chosen.append(at)
    return chosen[:count]


def dominator(values: NDArray[np.float64], at: int) -> int | None:
    """A design as good in every objective and better in one, the best such by the first; None: there is none."""
    over = np.all(values <= values[at], axis=1) & np.any(values < values[at], axis=1)
    return int(np.lexsort((*values.T[::-1], ~over))[0]) if over.any() else None
