"""What the times of requests through stages are made of, stage by stage, on the path that decided.

The path is followed backwards: from the stage whose end was the request's, to the one whose end let it come there. What
it spent at a stage is the travel to it, which counts as transfer, and the parts of its visit.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from railyard.engine.stages import CAUSES, PS, SPENT
from railyard.kit.quantities import nearest_rank, percentile, percentile_bin

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import NDArray

    from railyard.graph import Record


LEVELS: Mapping[str, float] = {"p50": 0.50, "p90": 0.90, "p99": 0.99, "p999": 0.999}
_AROUND = 0.005


def quantiles(values: NDArray[np.float64]) -> dict[str, float | None]:
    """p50, p90, p99, p99.9 and the mean of what is not NaN; None where there is nothing."""
    known = np.sort(values[~np.isnan(values)])
    if len(known) == 0:
        return {**dict.fromkeys(LEVELS, None), "mean": None}
    return {
        **{name: percentile(known, level) for name, level in LEVELS.items()},
        "mean": float(known.mean()),
    }


def counted(count: NDArray[np.int64], lower_s: NDArray[np.float64]) -> dict[str, float | None]:
    """The same of a histogram, whose bins begin at `lower_s`; a value counts as the middle of its bin.

    Args:
        count: int64[bins].
        lower_s: float64[bins], ascending.
    """
    total = int(count.sum())
    if total == 0:
        return {**dict.fromkeys(LEVELS, None), "mean": None}
    upper = np.append(lower_s[1:], lower_s[-1])
    middle = np.where(lower_s > 0, (lower_s + upper) / 2, 0.0)
    found = {name: float(middle[percentile_bin(count, level)]) for name, level in LEVELS.items()}
    return {**found, "mean": float((middle * count).sum() / total)}


def parts_of(total: NDArray[np.float64], parts: Mapping[str, NDArray[np.float64]]) -> dict[str, dict[str, float]]:
    """What each percentile, and the mean, of `total` is made of.

    Args:
        total: float64[n], NaN where there is no value.
        parts: By name, float64[n]; they add up to `total`.

    Returns:
        By percentile: seconds by part. The parts of a percentile add up to it. Empty when there is no value.
    """
    known = np.flatnonzero(~np.isnan(total))
    if len(known) == 0:
        return {}
    order = known[np.argsort(total[known], kind="stable")]
    found = {}
    for name, level in LEVELS.items():
        rank = nearest_rank(level, len(order))
        near = min(int(_AROUND * len(order)), len(order) - 1 - rank, rank)
        found[name] = _scaled(total[order[rank]], order[rank - near : rank + near + 1], parts)
    found["mean"] = _scaled(total[order].mean(), order, parts)
    return found


def _scaled(value: float, rows: NDArray[np.int64], parts: Mapping[str, NDArray[np.float64]]) -> dict[str, float]:
    mean = {name: float(part[rows].mean()) for name, part in parts.items()}
    total = sum(mean.values())
    return {name: float(value) * part / total if total > 0 else 0.0 for name, part in mean.items()}


_TRANSFER = CAUSES.index("transfer")


def spent_at(visits: Record) -> NDArray[np.float64]:
    """f64[m, 4], seconds of every visit of one stage by cause, without the travel to it."""
    visits.require("parts of the time at a stage", *SPENT)
    return np.column_stack([visits.column(name) for name in SPENT])


def spent(journeys: Record) -> NDArray[np.float64]:
    """f64[n, stages, 4], seconds of every request from arrival to end by stage and cause; zero without an end.

    Raises:
        InputError: The record is not one of journeys.
    """
    return _followed(journeys, journeys.who)


def spent_until(journeys: Record, name: str) -> NDArray[np.float64]:
    """f64[m, stages, 4], the same from arrival until a request came to a stage, the travel to it included.

    Args:
        journeys: All requests through all stages.
        name: Of the stage.
    """
    visits = journeys.parts[name]
    last = np.full(len(journeys), -1, np.int32)
    last[visits.who] = visits.column("predecessor")
    found = _followed(journeys, last)[visits.who]
    found[:, list(journeys.parts).index(name), _TRANSFER] += visits.column("travel_ps") / PS
    return found


def _followed(journeys: Record, last: NDArray[np.int32]) -> NDArray[np.float64]:
    """Back from the last stage of each request; a stage comes after all those that it waits for."""
    found, stage = np.zeros((len(journeys), len(journeys.parts), len(CAUSES))), last.copy()
    for number, visits in reversed(list(enumerate(journeys.parts.values()))):
        visits.require("the path of requests", "predecessor", "travel_ps")
        here = stage[visits.who] == number
        rows = visits.who[here]
        found[rows, number, _TRANSFER] += visits.column("travel_ps")[here] / PS
        found[rows, number] += spent_at(visits)[here]
        stage[rows] = visits.column("predecessor")[here]
    return found
