"""What the times of requests through stages are made of, stage by stage, on the path that decided.

The path is followed backwards: from the stage whose end was the request's, to the one whose end let it come there. What
it spent at a stage is the travel to it, which counts as transfer, and the parts of its visit.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from railyard.engine.stages import CAUSES, PS, SPENT

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from railyard.graph import Record

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
