"""The best of several schedules: into how many pieces data is cut, and how near its routes keep to the shortest."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import TYPE_CHECKING

from railyard.tune.synthesis.bound import lower_bound_us
from railyard.tune.synthesis.collectives import collectives
from railyard.tune.synthesis.schedule import timed

if TYPE_CHECKING:
    from collections.abc import Callable

    from railyard.tune.synthesis.network import LinkNetwork
    from railyard.tune.synthesis.schedule import Schedule

_CUTS = (1, 2, 4, 8, 16, 32, 64)
_COARSE = 4
_NEARNESS = (0.05, 0.3, 1.0, 3.0)
MOST_SENDS = 200_000
"""What a search takes on by itself: some seconds."""
_NEAR_ENOUGH = 1.0005
"""A schedule this near to the lower bound is not worth a finer one."""


@dataclass(frozen=True, eq=False)
class Try:
    """A schedule and how it was made."""

    schedule: Schedule
    cut: int
    nearness: float


@dataclass(frozen=True, eq=False)
class Synthesized:
    """A schedule and how good it is.

    Attributes:
        schedule: The best that was found.
        cut: Pieces of each part.
        nearness: See `Router`.
        lower_bound_us: What none beats.
        solver_s: Seconds that the search and the bound took.
    """

    schedule: Schedule
    cut: int
    nearness: float
    lower_bound_us: float
    solver_s: float


def synthesize(
    network: LinkNetwork,
    collective: str,
    size: float,
    *,
    most_sends: int = MOST_SENDS,
    progress: Callable[[float], None] | None = None,
) -> Synthesized:
    """A schedule of a collective; the same for the same arguments.

    Coarse cuts are tried with every nearness, finer ones with the two that were best before, until a schedule is near
    enough to the bound.

    Args:
        network: The links.
        collective: One of the registry's.
        size: Bytes, as the collective counts them.
        most_sends: No schedule of more sends is tried, but for the coarsest.
        progress: Called with the share of cuts that were tried.

    Raises:
        InputError: There is no such collective, or the network cannot do it.
    """
    build = collectives.get(collective)
    begin = time.perf_counter()
    bound = lower_bound_us(network, collective, size)
    found: list[Try] = []
    for number, cut in enumerate(_CUTS):
        if found and not _goes_on(found, cut, bound, most_sends):
            break
        found += [
            Try(timed(network, build(network, size, cut, nearness)), cut, nearness)
            for nearness in (_NEARNESS if cut <= _COARSE else _best_two(found))
        ]
        if progress is not None:
            progress((number + 1) / len(_CUTS))
    best = min(found, key=lambda one: one.schedule.finish_us)
    return Synthesized(best.schedule, best.cut, best.nearness, bound, time.perf_counter() - begin)


def _goes_on(found: list[Try], cut: int, bound: float, most_sends: int) -> bool:
    """Whether a finer cut is worth a try."""
    best = min(one.schedule.finish_us for one in found)
    sends = max(len(one.schedule.sends) // one.cut for one in found)
    return best > bound * _NEAR_ENOUGH and sends * cut <= most_sends


def _best_two(found: list[Try]) -> list[float]:
    order = sorted(found, key=lambda one: one.schedule.finish_us)
    return list(dict.fromkeys(one.nearness for one in order))[:2]
