"""A deployment over the load: the search for its capacity, and the points of the fronts."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from railyard.errors import InputError
from railyard.measure.serving.capacity import Capacity, Point, capacity, front
from railyard.measure.serving.objective import Objective, goodput
from railyard.measure.serving.percentiles import quantiles

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from railyard.measure.serving.served import Served
    from railyard.scenario.load import Draft
    from railyard.scenario.serving.measuring import Measured
    from railyard.scenario.serving.section import CapacitySection
    from railyard.workload.serving.requests import Requests

    Serve = Callable[[Requests], tuple[Served, bool]]
    """Serves requests: what the users saw, and whether the queue could never drain."""


_TURNS = 10
"""A trial whose requests come for less than so many times an answer is short: of 500, 1,000, 4,000 and 16,000 requests
of 20 s each, the most in time a second came out as 16.1 (1.6 times), 12.8 (4 times), 11.9 (17 times) and 11.7."""


def add_curve(
    found: Measured,
    section: CapacitySection | None,
    draft: Draft,
    *,
    requests: Requests,
    objective: Objective,
    serve: Serve,
) -> None:
    """Adds the result's `capacity` and `pareto`: every load that was tried, or the run itself where none was.

    Args:
        found: The run that was asked for.
        section: The scenario's `capacity`; None where it has none.
        draft: The scenario; errors get their place in it.
        requests: Of which the first are sent faster and slower.
        objective: To be met.
        serve: Simulates a load.

    Raises:
        InputError: The requests have no rate.
    """
    serving, told = found.variant["serving"], None
    points = [_own(serving)]
    if section is not None:
        at_loads = _searched(section, draft, requests, objective, serve)
        found.variant["warnings"] += _brief(serving["requests"], at_loads, section.first)
        points = list(at_loads.points)
        told = {
            "rate_per_s": at_loads.rate_per_s,
            "bounded": at_loads.bounded,
            "points": [dict(vars(point)) for point in points],
        }
    usd_per_s, accelerators = found.cost.usd_per_h.typical / 3600, serving["throughput"]["accelerators"]
    serving["capacity"] = told
    serving["pareto"] = [
        {
            "rate_per_s": point.rate_per_s,
            "per_user": 1 / point.tpot_p50_s,
            "per_gpu": point.output_tokens_per_s / accelerators,
            "per_usd": point.output_tokens_per_s / usd_per_s,
        }
        for point in points
        if point.tpot_p50_s and not point.overloaded
    ]


def _searched(
    section: CapacitySection, draft: Draft, requests: Requests, objective: Objective, serve: Serve
) -> Capacity:
    some = requests.head(section.first)
    if some.rate_per_s <= 0:
        error = InputError("requests without a span of time have no rate to search", key="capacity")
        raise draft.blame(error, "workload", "pipeline" if draft.scenario.workload.serving is None else "serving")

    def point(rate: float) -> Point:
        found, overloaded = serve(some.scaled(rate=rate))
        return _point(rate, found, objective, overloaded=overloaded)

    return capacity(point, some.rate_per_s, objective.attainment, tolerance=section.tolerance)


def _brief(asked: dict[str, Any], at_loads: Capacity, first: int) -> list[str]:
    """Says when the trial of the load found was too short for queues to build up, as after `capacity.first`."""
    at = next((point for point in at_loads.points if point.rate_per_s == at_loads.rate_per_s), None)
    if at is None or at.ttft_p50_s is None:
        return []
    count = min(first, asked["count"])
    came_s = count / at.rate_per_s
    answer_s = at.ttft_p50_s + (at.tpot_p50_s or 0.0) * (asked["output_tokens_mean"] - 1)
    if came_s >= _TURNS * answer_s:
        return []
    more = "`capacity.first`" if first < asked["count"] else "`capacity.first` and the number of requests"
    return [
        f"{at.rate_per_s:.3g} requests a second in time were found with {count}, which come within"
        f" {came_s / answer_s:.1f} times what an answer takes: queues do not build up so soon, and fewer may last;"
        f" raise {more}"
    ]


def _point(rate_per_s: float, found: Served, objective: Objective, *, overloaded: bool) -> Point:
    good = goodput(found, objective)
    ttft, tpot = quantiles(found.ttft_s), quantiles(found.tpot_s)
    return Point(
        rate_per_s=rate_per_s,
        attainment=good.attainment,
        goodput_per_s=good.requests_per_s,
        ttft_p50_s=ttft["p50"],
        ttft_p99_s=ttft["p99"],
        tpot_p50_s=tpot["p50"],
        tpot_p99_s=tpot["p99"],
        output_tokens_per_s=good.all_output_tokens_per_s,
        overloaded=overloaded,
    )


def _own(serving: dict[str, Any]) -> Point:
    """The run that was asked for, as a point of the curve."""
    return Point(
        rate_per_s=serving["requests"]["rate_per_s"],
        attainment=serving["slo"]["attainment"],
        goodput_per_s=serving["slo"]["goodput_rps"],
        ttft_p50_s=serving["ttft_s"]["p50"],
        ttft_p99_s=serving["ttft_s"]["p99"],
        tpot_p50_s=serving["tpot_s"]["p50"],
        tpot_p99_s=serving["tpot_s"]["p99"],
        output_tokens_per_s=serving["throughput"]["output_tokens_per_s"],
        overloaded=serving["outcome"] == "overload",
    )


def mark_fronts(servings: Sequence[dict[str, Any]]) -> None:
    """Marks the points that no other point of any variant beats, by accelerator and by dollar."""
    points = [point for serving in servings for point in serving["pareto"]]
    for figure, mark in (("per_gpu", "front"), ("per_usd", "front_usd")):
        best = front([(point["per_user"], point[figure]) for point in points])
        for point, on_front in zip(points, best, strict=True):
            point[mark] = on_front
