"""What the user sees of a journey: when the first token shows, and what that time and the whole are made of.

A language model whose answer nothing may replace streams it: the first token shows when it comes out. An answer that
another model may replace (a cascade), or that is one of several (an ensemble), shows when all is decided, at once.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from railyard.engine.stages import CAUSES, FIRST, PS
from railyard.measure.serving.journeys import Served, spent, spent_until
from railyard.work.pipeline.section import waits_for

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import NDArray

    from railyard.graph import Record
    from railyard.work.pipeline.section import PipelineSection, StageSection


@dataclass(frozen=True, eq=False)
class Shown:
    """What the user sees.

    Attributes:
        served: As of a run without stages; the four parts of the first token are sums over the stages.
        first: f64[n, stages, 4], parts of the time to the first token by stage and cause; NaN where there is none.
        end_to_end: f64[n, stages, 4], parts of the time to the end.
    """

    served: Served
    first: NDArray[np.float64]
    end_to_end: NDArray[np.float64]


def streaming(stages: Mapping[str, StageSection]) -> tuple[str, ...]:
    """Models whose tokens show as they come: behind them are only cores of processors."""
    found = []
    for name, stage in stages.items():
        behind = _behind(stages, name)
        if stage.kind == "model" and all(stages[other].kind == "host" for other in behind):
            found.append(name)
    return tuple(found)


def _behind(stages: Mapping[str, StageSection], name: str) -> set[str]:
    """All stages that come after one."""
    found: set[str] = set()
    for other in stages:
        waited = waits_for(dict(stages), other)
        if name in waited or found & set(waited):
            found.add(other)
    return found


def shown(section: PipelineSection, journey: Record) -> Shown:
    """What the user sees of a journey."""
    done, total = journey.ended, spent(journey)
    columns = _Columns.at_end(journey, total)
    speaking = streaming(section.stages)
    took = _took(journey, speaking)
    for name in speaking:
        answer = getattr(section.stages[name], "output", None)
        columns.stream(journey, name, took, answer)
    columns.first[~done], columns.tpot[~done] = np.nan, np.nan
    return Shown(_served(journey, columns), columns.first, np.where(done[:, None, None], total, np.nan))


@dataclass(eq=False)
class _Columns:
    """What is found out request by request; at first as if all of an answer showed at the end."""

    first_ps: NDArray[np.int64]
    first: NDArray[np.float64]
    tpot: NDArray[np.float64]
    decode_collectives: NDArray[np.float64]
    cached: NDArray[np.int64]

    @classmethod
    def at_end(cls, journey: Record, total: NDArray[np.float64]) -> _Columns:
        count = len(journey)
        return cls(
            journey.end_ps.copy(),
            total.copy(),
            np.full(count, np.nan),
            np.zeros(count),
            np.zeros(count, np.int64),
        )

    def stream(self, journey: Record, name: str, took: NDArray[np.int64], answer: int | None) -> None:
        """Answers of a model that show token by token: those of requests which no other such model answers too."""
        visits = journey.parts[name]
        if len(visits) == 0:
            return
        alone = took[visits.who] == 1
        rows, first_ps = visits.who[alone], visits.column("first_token_ps")[alone]
        self.first_ps[rows] = first_ps
        self.first[rows] = spent_until(journey, name)[alone]
        self.first[rows, list(journey.parts).index(name)] += np.column_stack(
            [visits.column(one)[alone] for one in FIRST]
        )
        steps = (journey.requests.output_tokens[rows] if answer is None else np.full(len(rows), answer)) - 1.0
        later = (visits.end_ps[alone] - first_ps) / PS
        self.tpot[rows] = np.where(steps > 0, later / np.maximum(steps, 1.0), np.nan)
        self.decode_collectives[rows] = visits.column("decode_collectives_s")[alone]
        self.cached[rows] = visits.column("cached_tokens")[alone]


def _took(journey: Record, names: tuple[str, ...]) -> NDArray[np.int64]:
    """How many of those stages each request took."""
    took = np.zeros(len(journey), np.int64)
    for name in names:
        took[journey.parts[name].who] += 1
    return took


def _served(journey: Record, found: _Columns) -> Served:
    requests, done = journey.requests, journey.ended
    causes = {cause: found.first[:, :, place].sum(axis=1) for place, cause in enumerate(CAUSES)}
    return Served(
        arrival_s=np.asarray(requests.arrival_ps / PS, np.float64),
        done_s=np.where(done, journey.end_ps / PS, np.nan),
        input_tokens=np.asarray(requests.input_tokens, np.int64),
        output_tokens=np.asarray(requests.output_tokens, np.int64),
        cached_tokens=found.cached,
        ttft_s=np.where(done, (found.first_ps - requests.arrival_ps) / PS, np.nan),
        queue_s=causes["queue"],
        transfer_s=causes["transfer"],
        collectives_s=causes["collectives"],
        compute_s=causes["compute"],
        tpot_s=found.tpot,
        decode_collectives_s=np.where(np.isnan(found.tpot), np.nan, found.decode_collectives),
        e2e_s=np.where(done, (journey.end_ps - requests.arrival_ps) / PS, np.nan),
        status=journey.column("status"),
    )
