"""Blocks of a folded Clos: lower switches that are each joined to the same upper ones, by as many cables."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Iterable

    from numpy.typing import NDArray

    from railyard.ask.audit.network import Found

SAME = 0.5
"""Two lower switches are of one block when they share at least this part of the upper ones."""

MOSTLY = 2 / 3
"""A lower switch with this part of a block's upper switches, or all but one, and no others has lost the rest."""

PARAMETER = 2
"""A switch has a number of cables of its own when that explains more cables than this."""


@dataclass(frozen=True, eq=False)
class Block:
    """Two tiers in which every lower switch is joined to every upper one.

    Attributes:
        tier: Of the lower switches.
        low, high: int64[], device numbers.
        found: int64[lows, highs], cables that are there.
        meant: int64[lows, highs], cables of the design.
        rate_bps: Of most of its cables; 0 where unknown.
        odd: Switches that have a number of parallel cables of their own, by number.
        absent: Missing switches, by number.
    """

    tier: int
    low: NDArray[np.int64]
    high: NDArray[np.int64]
    found: NDArray[np.int64]
    meant: NDArray[np.int64]
    rate_bps: int
    odd: tuple[int, ...] = ()
    absent: tuple[int, ...] = ()

    @property
    def trunk(self) -> int:
        """Parallel cables of most pairs."""
        return int(np.bincount(self.meant.ravel()).argmax())

    @property
    def wrong(self) -> int:
        """Cables that the design has more or less."""
        return int(np.abs(self.found - self.meant).sum())

    @property
    def sure(self) -> float:
        """Share of the cables about which design and network agree."""
        return 1 - self.wrong / max(int(np.maximum(self.meant, self.found).sum()), 1)


def blocks(found: Found, level: NDArray[np.int8]) -> list[Block]:
    """Blocks between each tier and the next."""
    out: list[Block] = []
    ends = found.ends[found.between]
    tiers = level[ends]
    for tier in range(1, int(level.max(initial=0))):
        here = (tiers.min(axis=1) == tier) & (tiers.max(axis=1) == tier + 1)
        turned = tiers[here, 0] > tier
        pair = np.where(turned[:, None], ends[here][:, ::-1], ends[here])
        out += _of_tier(tier, pair, found.rate_bps[found.between[here]])
    return out


def _of_tier(tier: int, pair: NDArray[np.int32], rate: NDArray[np.int64]) -> list[Block]:
    near: dict[int, set[int]] = {}
    for low, high in np.unique(pair, axis=0).tolist():
        near.setdefault(low, set()).add(high)
    out = []
    for lows in _alike(near):
        count = Counter(high for low in lows for high in near[low])
        high = np.array(sorted(one for one, times in count.items() if times * 2 >= len(lows)), np.int64)
        low = np.array(sorted(lows), np.int64)
        mine = np.isin(pair[:, 0], low) & np.isin(pair[:, 1], high)
        there = np.zeros((len(low), len(high)), np.int64)
        at = (np.searchsorted(low, pair[mine, 0]), np.searchsorted(high, pair[mine, 1]))
        np.add.at(there, at, 1)
        meant, odd = _meant(there)
        strange = (*low[odd[0]].tolist(), *high[odd[1]].tolist())
        out.append(Block(tier, low, high, there, meant, usual_rate(rate[mine]), strange))
    return out


def _alike(near: dict[int, set[int]]) -> list[list[int]]:
    """Lower switches by the upper ones that they share; those with most first, so that blocks begin complete."""
    groups: list[tuple[set[int], list[int]]] = []
    by_high: dict[int, list[int]] = {}
    for low in sorted(near, key=lambda one: (-len(near[one]), one)):
        mine = near[low]
        nearby = {group for high in mine for group in by_high.get(high, ())}
        best = max(nearby, key=lambda group: (_shared(mine, groups[group][0]), -group), default=None)
        if best is not None and _belongs(mine, groups[best][0]):
            groups[best][1].append(low)
            continue
        for high in mine:
            by_high.setdefault(high, []).append(len(groups))
        groups.append((set(mine), [low]))
    return [lows for _, lows in groups]


def _shared(mine: set[int], theirs: set[int]) -> float:
    return len(mine & theirs) / len(mine | theirs)


def _belongs(mine: set[int], theirs: set[int]) -> bool:
    if mine <= theirs and (len(mine) >= MOSTLY * len(theirs) or len(mine) >= len(theirs) - 1 > 0):
        return True
    return _shared(mine, theirs) > SAME


def _meant(there: NDArray[np.int64]) -> tuple[NDArray[np.int64], tuple[NDArray[np.bool_], NDArray[np.bool_]]]:
    """As many cables in each pair, unless rows or columns have a number of their own that explains much more.

    Returns:
        int64[lows, highs]; which rows and which columns have a number of their own.
    """
    meant = np.full(there.shape, _mode(there.ravel().tolist()))
    odd = np.zeros(len(there), np.bool_), np.zeros(there.shape[1], np.bool_)
    for strange, counted, wanted in ((odd[0], there, meant), (odd[1], there.T, meant.T)):
        for at, counts in enumerate(counted):
            mine = _mode(counts.tolist())
            if np.abs(counts - wanted[at]).sum() > np.abs(counts - mine).sum() + PARAMETER and mine > 0:
                wanted[at], strange[at] = mine, True
    return meant, odd


def _mode(values: Iterable[int]) -> int:
    """The most frequent number, the higher of two."""
    count = Counter(values)
    return max(count, key=lambda value: (count[value], value))


def usual_rate(rate: NDArray[np.int64]) -> int:
    """The most frequent rate that is known; 0 where none is."""
    known = rate[rate > 0]
    return _mode(known.tolist()) if len(known) else 0
