"""The engine `analytic`: communications as long as alone, times what sharing with others costs on average."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from railyard.engine.contention import Spans, contended, full_speed_bps, stretches
from railyard.engine.contract import Jitter, Probes, Progress, engines
from railyard.engine.fluid import FluidEngine

if TYPE_CHECKING:
    from railyard.cluster.links import LinkTable
    from railyard.engine.contention import F
    from railyard.engine.fluid import Changes
    from railyard.engine.lowering import Lowered
    from railyard.graph import Merged, Record

ROUNDS = 4
"""Runs after the one without contention: loads move with what they slow.

Over 18 draws of six jobs whose steps contention makes up to 2.3 times longer, 4 are within 10 % of `flow` and 3 within
11 %.
"""


@dataclass(frozen=True)
class AnalyticEngine(FluidEngine):
    """Runs a graph without contention, stretches what met, and runs it again."""

    def played(
        self,
        merged: Merged,
        lowered: Lowered,
        links: LinkTable,
        changes: Changes,
        *,
        seed: int,
        probes: Probes,
        jitter: Jitter,
        progress: Progress | None,
    ) -> Record:
        """Runs a graph with the changes of state that faults make; see `FluidEngine.played`."""

        def ran(these: Lowered, probes: Probes = Probes()) -> Record:  # noqa: B008 - frozen
            play = super(AnalyticEngine, self).played
            return play(merged, these, links, changes, seed=seed, probes=probes, jitter=jitter, progress=progress)

        uses = contended(merged.graph, lowered, links.rate_bps)
        before: F | None = None
        this = lowered
        for _ in range(ROUNDS if len(uses) else 0):
            record = ran(this)
            found = stretches(uses, Spans.of(this, record.start_ps, record.end_ps), slowed=before is not None)
            if np.all(found == 1.0):
                if not (probes.samples or probes.windows or probes.full):
                    return record
                break
            # Who is delayed out of the way of others comes back into it in the next run: halfway, runs settle.
            before = stretch = found if before is None else np.sqrt(found * before)
            this = _stretched(lowered, links.rate_bps, stretch)
        return ran(this, probes)  # what is recorded of links takes a fifth of a run: of the last alone


def _stretched(lowered: Lowered, rate_bps: F, stretch: F) -> Lowered:
    """The same with entities that cannot go faster than their stretch lets them."""
    speed = full_speed_bps(lowered, rate_bps) / stretch
    cap = np.where(stretch > 1.0, speed, lowered.entities.rate_cap_bps)
    return replace(lowered, entities=replace(lowered.entities, rate_cap_bps=cap))


ANALYTIC = engines.add(
    "analytic",
    AnalyticEngine(
        name="analytic",
        summary=(
            "Every communication at the speed it has with the network to itself, times the mean slowdown by those that"
            " it shares links with; order and waiting are exact."
        ),
        contention=False,
        left_out=(
            "the order within contention: a communication is slowed by the mean of what it meets, all its repetitions"
            " alike; what one loses no other gains",
            "other paths around dead links share them as the designed ones do",
            "what a degraded link costs beyond its own communications: their slowdown by others is that at full rate",
            "packets and queues: there is no loss, no pause and no queueing delay",
            "jitter of communications: only computations vary",
        ),
    ),
)
