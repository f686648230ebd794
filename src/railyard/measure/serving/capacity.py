"""The most requests a second that a deployment serves within its objective, found by halving, and its curve of load."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from railyard.measure.result.serving import LoadPoint

MOST_DOUBLINGS = 12


@dataclass(frozen=True)
class Capacity:
    """What was found.

    Attributes:
        rate_per_s: The largest load tried that met the objective; 0 when none did.
        points: Every load tried, ascending.
        bounded: Whether a load that misses the objective was found above it.
    """

    rate_per_s: float
    points: tuple[LoadPoint, ...]
    bounded: bool


def capacity(
    evaluate: Callable[[float], LoadPoint],
    start: float,
    attainment: float,
    *,
    tolerance: float = 0.05,
    slowest: float = 0.0,
) -> Capacity:
    """Doubles or halves the load until the objective turns, then halves the span between.

    Args:
        evaluate: Simulates a load in requests a second.
        start: The first load to try, more than 0.
        attainment: Share of the requests that must meet the objective.
        tolerance: Of the rate found.
        slowest: Loads below it are not tried.
    """
    points = {start: evaluate(start)}

    def good(rate: float) -> bool:
        if rate not in points:
            points[rate] = evaluate(rate)
        return points[rate].attainment >= attainment and not points[rate].overloaded

    low, high = (start, None) if good(start) else (None, start)
    rate = start
    for _ in range(MOST_DOUBLINGS):
        if low is not None and high is not None:
            break
        rate = 2 * rate if high is None else rate / 2
        if rate < slowest:
            break
        if good(rate):
            low = rate
        else:
            high = rate
    while low is not None and high is not None and high - low > tolerance * high:
        middle = (low + high) / 2
        if good(middle):
            low = middle
        else:
            high = middle
    ordered = tuple(points[rate] for rate in sorted(points))
    return Capacity(low or 0.0, ordered, bounded=high is not None)


def front(points: Sequence[tuple[float, float]]) -> list[bool]:
    """Which points no other one beats in both figures, where more is better in each; equal points stay."""
    return [not any(other[0] >= one[0] and other[1] >= one[1] and other != one for other in points) for one in points]
