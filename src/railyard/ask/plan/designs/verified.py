"""How far a choice was verified: its nearest rivals on the finest engine that time allows, and what did not run."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from railyard.ask.plan.designs.judgement import good, pool, values
from railyard.ask.plan.designs.outcome import Verified

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from railyard.ask.plan.designs.planned import Planned

HOPS_PER_S = 5e6
"""Packets times links that a core simulates in a second, about (docs/explanation/packet.md)."""

_LEAST_HOPS = 20e6
"""Fewer say nothing of a step: packets are not run for less."""

_ROOM = 1.5
"""What is allowed for a whole step over its estimate, so that no packet is left out."""


def finalists(planned: Planned, rivals: int, refused: Collection[int] = ()) -> list[int]:
    """The best design and its nearest rivals by the first objective, as they are known now.

    Args:
        planned: What was found so far.
        rivals: How many, at most.
        refused: Points that the engine cannot run.
    """
    chosen = [point for point in pool(planned) if point not in refused]
    if not chosen:
        return []
    best = chosen[int(np.lexsort(values(planned, chosen).T[::-1])[0])]
    others = [point for point in good(planned) if point != best and point not in refused]
    if not others:
        return [best]
    order = np.argsort(values(planned, others)[:, 0], kind="stable")
    return [best, *(others[int(at)] for at in order[:rivals])]


def verified(planned: Planned, rivals: int) -> Verified | None:
    """What ran of the best design and its nearest rivals; None where the best did not run."""
    chosen = finalists(planned, rivals, [point for point in good(planned) if not planned.ran(point)])
    if not chosen:
        return None
    engine = "packet" if all(planned.ran(point, "packet") for point in chosen) else planned.engine
    runs = [(point, demand) for point in chosen for demand in range(len(planned.shares))]
    what = planned.objectives[0]
    return Verified(
        chosen[0],
        engine,
        max(planned.outcomes[point, demand, engine].sliced for point, demand in runs),
        tuple(chosen[1:]),
        tuple(what.sign * (planned.figures(point, engine) or {})[what.name] for point in chosen),
        0.0 if engine == "packet" else _hops(planned, runs) / HOPS_PER_S,
    )


def budget_of(planned: Planned, runs: Sequence[tuple[int, int]], time_s: float) -> float:
    """Packets times links that each of some runs may take; 0 where that is too little to say anything.

    Args:
        planned: With these runs on flow.
        runs: Points and demands.
        time_s: Of one core, for all of them: what is run does not depend on the machine.
    """
    hops = time_s * HOPS_PER_S
    if hops >= _hops(planned, runs):
        return _ROOM * max(planned.outcomes[point, demand, planned.engine].hops for point, demand in runs)
    each = hops / len(runs)
    return each if each >= _LEAST_HOPS else 0.0


def _hops(planned: Planned, runs: Sequence[tuple[int, int]]) -> float:
    """Packets times links of whole steps, all runs together."""
    return sum(planned.outcomes[point, demand, planned.engine].hops for point, demand in runs)
