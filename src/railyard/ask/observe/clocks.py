"""Clocks of ranks, aligned by what they did together.

A collective ends at nearly the same moment on all its members. So the clock of one rank is ahead of another's by the
median of the differences between the ends of the collectives that they share, and that is known to within half the
range in which the middle half of the differences lies. Ranks that share nothing with rank after rank of the others
cannot be aligned.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Mapping

Ends = dict[tuple[int, int, int], int]
"""Of a rank: when its communications ended, ns, by numbers of group and kind, and number in these."""


FAR_NS = 1_000_000_000
"""Between the clocks of two hosts: by more they are not set by the same server."""

SHOWN = 8


@dataclass(frozen=True)
class Clock:
    """The clock of a rank against that of the first.

    Attributes:
        ahead_ns: By how much it is ahead.
        error_ns: To within how much that is known; -1 where it is not known at all.
        shared: Communications that it was found by.
    """

    ahead_ns: int
    error_ns: int
    shared: int


def aligned(ends: Mapping[int, Ends]) -> dict[int, Clock]:
    """The clock of every rank against that of the lowest, over the neighbours that share most."""
    ranks = sorted(ends)
    clocks = {ranks[0]: Clock(0, 0, 0)} if ranks else {}
    members: dict[tuple[int, int, int], list[int]] = defaultdict(list)
    for rank in ranks:
        for key in ends[rank]:
            members[key].append(rank)
    shared = {key for key, those in members.items() if len(those) > 1}
    reached = True
    while reached:
        reached = False
        for rank in ranks:
            if rank not in clocks and (clock := _against(rank, ends, clocks, members, shared)) is not None:
                clocks[rank] = clock
                reached = True
    return {rank: clocks.get(rank, Clock(0, -1, 0)) for rank in ranks}


def odd(clocks: Mapping[int, Clock]) -> list[str]:
    """Ranks whose clocks are far off, or that share nothing by which they could be aligned, in words."""
    far = {rank: clock.ahead_ns for rank, clock in clocks.items() if abs(clock.ahead_ns) > FAR_NS}
    lone = [str(rank) for rank, clock in clocks.items() if clock.error_ns < 0 and len(clocks) > 1]
    listed = [f"{rank} by {ahead / 1e9:+,.1f} s" for rank, ahead in far.items()]
    words = [f"clocks are ahead of the first rank's, and were set back: rank {_few(listed)}"] if listed else []
    return words + (
        [f"no collective shared with other ranks, so clocks are not aligned: rank {_few(lone)}"] if lone else []
    )


def _few(listed: list[str]) -> str:
    return ", ".join(listed[:SHOWN]) + (", ..." if len(listed) > SHOWN else "")


def _against(
    rank: int,
    ends: Mapping[int, Ends],
    clocks: Mapping[int, Clock],
    members: Mapping[tuple[int, int, int], list[int]],
    shared: set[tuple[int, int, int]],
) -> Clock | None:
    """The clock of a rank against the known ones; None where they share nothing."""
    found: list[int] = []
    error = 0
    for key, end in ends[rank].items():
        known = next((other for other in members[key] if other in clocks), None) if key in shared else None
        if known is not None:
            found.append(end - (ends[known][key] - clocks[known].ahead_ns))
            error = max(error, clocks[known].error_ns)
    if not found:
        return None
    low, middle, high = np.percentile(np.array(found, np.float64) - found[0], [25, 50, 75])
    return Clock(found[0] + round(middle), error + round((high - low) / 2), len(found))
