"""The end of a plan: its front, how sure the first is, what constraints cost; or why there is no design to choose."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from railyard.ask.plan.designs import service
from railyard.ask.plan.designs.build import Bench
from railyard.ask.plan.designs.constraints import contradiction, relaxed
from railyard.ask.plan.designs.decide import break_even, judged, port_prices
from railyard.ask.plan.designs.doubt import Choice, Doubts, missed_of_step
from railyard.ask.plan.designs.families import unverified
from railyard.ask.plan.designs.front import front
from railyard.ask.plan.designs.judgement import able, good, looked, pool, products, values
from railyard.ask.plan.designs.outcome import layout_of
from railyard.ask.plan.designs.price import priced
from railyard.ask.plan.designs.verified import verified
from railyard.kit.errors import InputError

if TYPE_CHECKING:
    from railyard.ask.plan.designs.planned import Planned

_CHOICES = 24
"""Designs whose chances are worked out."""


def refusal(planned: Planned) -> InputError:
    """Why no design can be chosen."""
    points = able(planned)
    if points:
        return InputError(contradiction(planned.constraints, [looked(planned, point) for point in points]), key=_BOUNDS)
    reasons = list(dict.fromkeys(planned.failed.values()))
    more = f"; and {len(reasons) - 3} other reasons" if len(reasons) > 3 else ""
    seen = f"{planned.space.size:,}"
    if len(planned.points) < planned.space.size:
        seen = f"{len(planned.points):,} that were looked at of {seen}"
    return InputError(f"none of the {seen} designs can be: {'; '.join(reasons[:3])}{more}", key="plan.space")


_BOUNDS = "plan.constraints"


def conclude_at_once(planned: Planned, *, rivals: int) -> None:
    """The front and its runners-up as they are known, without chances and what they need; nothing where nothing is.

    Args:
        planned: As far as it came.
        rivals: Of the best design, that verify it.
    """
    planned.sure, planned.relaxed, planned.even, planned.ports = None, [], (), ()
    planned.choices, planned.on_front, planned.unverified, planned.verified = [], [], [], None
    if good(planned):
        chosen, on_front = _chosen(planned)
        planned.choices = [_unpriced(planned, point) for point in chosen]
        planned.on_front = [point in on_front for point in chosen]
        planned.unverified = unverified(planned)
        planned.verified = verified(planned, rivals)


def conclude(planned: Planned, *, draws: int, seed: int, rivals: int) -> None:
    """The front, its runners-up, and how sure they are.

    Args:
        planned: With at least one point that keeps all constraints.
        draws: Samples of what is not known.
        seed: Of these.
        rivals: Of the best design, that verify it.
    """
    chosen, on_front = _chosen(planned)
    bench = Bench(planned.space)
    planned.choices = [_choice(planned, bench, point) for point in chosen]
    planned.on_front = [point in on_front for point in chosen]
    doubts = Doubts.of(planned.choices, planned.closed_form[:2])
    planned.sure = judged(planned.choices, doubts, planned.objectives, planned.shares, draws=draws, seed=seed)
    if planned.objectives[0].name == "cpmt":
        planned.even = break_even(planned.choices, planned.shares)
        planned.ports = port_prices(planned.choices, planned.shares)
    planned.unverified = unverified(planned)
    planned.verified = verified(planned, rivals)
    if planned.constraints:
        every = products(planned, able(planned))
        planned.relaxed = relaxed(planned.constraints, [looked(planned, point) for point in every])


def _chosen(planned: Planned) -> tuple[list[int], set[int]]:
    """Points to work chances out of, the best first, and which of them are on the front."""
    points = pool(planned)
    table = values(planned, points)
    kept = front(table)
    order = [points[at] for at in np.lexsort(table.T[::-1])]
    on_front = {points[at] for at in np.flatnonzero(kept)}
    chosen = [point for point in order if point in on_front]
    chosen += [point for point in order if point not in on_front][: max(0, _CHOICES - len(chosen))]
    return sorted(chosen[: max(_CHOICES, len(on_front))], key=order.index), on_front


def _unpriced(planned: Planned, point: int) -> Choice:
    """A design with what was found of it and nothing more."""
    found = [planned.seen(point, demand) for demand in range(len(planned.space.demands))]
    outcomes = tuple(one for one in found if one is not None)
    layouts = tuple(str(layout_of(one.layouts[0])) if one.layouts[0] else "" for one in outcomes)
    name, figures = planned.space.name(point), planned.figures(point) or {}
    return Choice(point, name, (), layouts, outcomes, (), (), figures)


def _choice(planned: Planned, bench: Bench, point: int) -> Choice:
    """A design with everything that chances are worked out of."""
    if planned.engine == "serving":
        return service.choice(planned, bench, point)
    hardware, layouts, outcomes, money, missed = [], [], [], [], []
    for demand in range(len(planned.space.demands)):
        outcome = planned.seen(point, demand)
        if outcome is None:
            raise AssertionError("only designs with outcomes are chosen")
        layout = layout_of(outcome.layouts[0])
        design = bench.design(point, demand)
        training = design.jobs[0].replace(layout=layout)
        seated = bench.seated(point, demand, layout)
        hardware.append(seated)
        layouts.append(str(training.layout))
        missed.append(missed_of_step(seated, training, outcome))
        outcomes.append(outcome)
        delivery_s = bench.delivery_s(seated)
        money.append(priced(seated.cluster, training, outcome, seated.parts, design.assumptions, delivery_s=delivery_s))
    name, figures = planned.space.name(point), planned.figures(point) or {}
    return Choice(
        *(point, name),
        tuple(hardware),
        tuple(layouts),
        tuple(outcomes),
        tuple(money),
        tuple(missed),
        figures,
    )
