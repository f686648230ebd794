"""A plan from its first point to its choice: closed form for all, an engine for the promising and the rivals."""

from __future__ import annotations

import math
import time
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from railyard.ask.plan import evaluate, judgement
from railyard.ask.plan.conclusion import budget_of, conclude, finalists, refusal
from railyard.ask.plan.judgement import DesignKeys, judge, promising, rivals_of, sorted_out
from railyard.ask.plan.lessons import Lessons
from railyard.ask.plan.objectives import merged
from railyard.ask.plan.outcome import DesignOutcome
from railyard.ask.trials import Ahead, TimeIsUp, Trials
from railyard.kit.errors import InputError
from railyard.work.study.tasks import Task

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from railyard.ask.plan.planned import PlannedDesigns
    from railyard.ask.trials import Report, TrialResult
    from railyard.work.scenario.load import Draft
    from railyard.work.scenario.plan_section import PlanSection
    from railyard.work.study.folder import Journal
    from railyard.work.study.tasks import Workers

    Pair = tuple[int, int]
    Run = tuple[int, int, Mapping[str, Any]]


_CHUNK = 24
"""Points of a task of the sweep: the same on any number of cores, so that results are."""

_BATCH = 4
"""Runs on the engine between two looks at what they teach: the same on any number of cores."""

_AGAIN = 0.01
"""A design runs again with another layout where that is thought to be faster by this share."""

_LOOKS_S = 2.0
"""Least seconds between two looks for the best design so far."""

_LOOKING = 0.05
"""Share of the plan's time that these looks may take."""


@dataclass
class DesignPlanner:
    """Works a plan out.

    Attributes:
        keys: Names of outcomes.
        lessons: What the closed form misses.
        raw: What the closed form found, by point and demand.
        refused: Points that the engine could not run.
        looks_at: Of the monotonic clock, when the best design so far is looked for again.
    """

    draft: Draft
    planned: PlannedDesigns
    section: PlanSection
    trials: Trials
    keys: DesignKeys
    lessons: Lessons = field(default_factory=Lessons)
    raw: dict[Pair, DesignOutcome] = field(default_factory=dict)
    refused: set[int] = field(default_factory=set)
    best: str = ""
    looks_at: float = 0.0

    @classmethod
    def of(
        cls,
        draft: Draft,
        planned: PlannedDesigns,
        section: PlanSection,
        workers: Workers,
        journal: Journal,
        *,
        report: Report = lambda _what, _share: None,
    ) -> DesignPlanner:
        """Planner of a plan from `begin`; its time runs from now on."""
        excluded = sorted(frozenset().union(*(one.names for one in planned.constraints)))
        until = time.monotonic() + section.effort.time if section.effort.time else math.inf
        trials = Trials(workers, journal, Ahead(_steps(planned, section)), report, until)
        planner = cls(draft, planned, section, trials, DesignKeys(draft, planned.space, tuple(excluded)))
        trials.best = planner._best_words
        return planner

    def run(self) -> PlannedDesigns:
        """Runs the plan; returns what was found when its time is spent.

        Raises:
            InputError: No point can be built, or none keeps the constraints.
        """
        self._work()
        self._conclude()
        return self.planned

    def _work(self) -> None:
        for step in (self._cover, self._learn, self._run_promising, self._run_rivals, self._run_bound):
            self.trials.ahead.step()
            try:
                step()
            except TimeIsUp:
                self.planned.stopped = "time"
                self.trials.workers.close()
                sorted_out(self.planned)
                return

    def _conclude(self) -> None:
        planned, effort = self.planned, self.section.effort
        if not judgement.good(planned):
            raise self.draft.blame(self._too_short() if planned.stopped else refusal(planned))
        self.trials.ahead.step()
        self.trials.tell("chances")
        conclude(planned, draws=effort.draws, seed=self.draft.seed, rivals=effort.rivals)

    def _best_words(self) -> str:
        now = time.monotonic()
        if now >= self.looks_at:
            sorted_out(self.planned)
            self.best = judgement.best_words(self.planned)
            cost_s = time.monotonic() - now
            self.looks_at = now + max(_LOOKS_S, cost_s / _LOOKING)
        return self.best

    def _too_short(self) -> InputError:
        seen, size = len(self.planned.points), self.planned.space.size
        return InputError(
            f"time ran out before a design met all constraints ({seen:,} of {size:,} looked at)",
            key="plan.effort.time",
            hint="the same command continues from here",
        )

    # The space in closed form.

    def _cover(self) -> None:
        """Every point of a small space; of a large one those that an optimizer asks for."""
        space, effort = self.planned.space, self.section.effort
        if space.size <= effort.designs:
            self._look(range(space.size))
            return
        from railyard.ask.plan.lessons import search

        for points in search(self.planned, effort.samples, self.draft.seed):
            self._look(points)

    def _look(self, points: Sequence[int]) -> None:
        space, heads = self.planned.space, frozenset({"cluster", "catalog"})
        pairs = [(point, demand) for demand in range(len(space.demands)) for point in points]
        pairs.sort(key=lambda pair: (str(space.part(pair[0], pair[1], heads)), pair))
        shared = {"plan": self.keys.plan, "exclude": list(self.keys.excluded)}

        def task(some: Sequence[int]) -> Task:
            return Task(evaluate.SWEEP, {**shared, "points": [list(pairs[at]) for at in some]})

        keys = [self.keys.key(*pair, "analytic") for pair in pairs]
        first = 0 if self.raw else min(len(space.demands), _CHUNK)  # one design, so that a best one is known soon
        for one in self.trials.run(keys, task, "closed form", together=_CHUNK, first=first):
            outcome = _outcome(one, pairs[one.at], "analytic")
            self.planned.outcomes[*pairs[one.at], "analytic"] = outcome
            if not outcome.error:
                self.raw[pairs[one.at]] = outcome
        sorted_out(self.planned)

    # The engine.

    def _learn(self) -> None:
        """Layouts of the most promising point on `flow`: what the closed form misses of them, all points' layouts have.

        The layout that may be fastest by the lower end of what is known runs next, a few at a time.
        """
        good, effort = judgement.good(self.planned), self.section.effort
        if not good or not effort.layouts or not effort.flow or self.planned.engine != "flow":
            return
        anchor = good[promising(judgement.values(self.planned, good), 1)[0]]
        for demand in range(len(self.planned.space.demands)):
            first = self.planned.outcomes[anchor, demand, "analytic"]
            ran = 0
            while ran < effort.layouts and len(first.layouts) > 1:
                chosen = self.lessons.next_ones(self.raw[anchor, demand], demand, min(_BATCH, effort.layouts - ran))
                if not chosen:
                    break
                self._engine("flow", [(anchor, demand, layout) for layout in chosen])
                ran += len(chosen)
        self._correct()

    def _run_promising(self) -> None:
        """The most promising points on `flow`; what they teach is taken from the others, and the next are chosen."""
        left = self._runs
        while left > 0:
            good = [point for point in judgement.good(self.planned) if point not in self.refused and self._open(point)]
            if not good:
                return
            hoped = self._hoped(good)
            first = [good[at] for at in promising(hoped, min(left, _BATCH))]
            # Half of a batch is for families of which none ran yet, so that no rival is dismissed by its closed form.
            rivals = [one.point for one in rivals_of(self.planned, good, hoped[:, 0])]
            chosen = list(dict.fromkeys([first[0], *rivals[: _BATCH // 2], *first]))[: min(left, _BATCH)]
            self._run_points(chosen)
            left -= len(chosen)

    @property
    def _runs(self) -> int:
        effort = self.section.effort
        return effort.serving if self.planned.engine == "serving" else effort.flow

    def _run_bound(self) -> None:
        """What no product reaches, judged as those are that run: what is left to gain."""
        point = judgement.best_bound(self.planned)
        if point is not None and self._runs:
            self._engine(self.planned.engine, [(point, demand, layout) for demand, layout in self._open(point)])
            judge(self.planned)

    def _run_rivals(self) -> None:
        """The nearest rivals of the best design, on the same engine, and all of them on packets where time allows."""
        planned, effort, chosen = self.planned, self.section.effort, list[int]()
        while self._runs:
            chosen = finalists(planned, effort.rivals, self.refused)
            left = [point for point in chosen if not planned.ran(point)][:_BATCH]
            if not left:
                break
            self._run_points(left)
        if not effort.verify or not chosen:
            return
        runs = [
            (point, demand, planned.outcomes[point, demand, planned.engine].layouts[0])
            for point in chosen
            for demand in range(len(planned.space.demands))
        ]
        budget_hops = budget_of(planned, [(point, demand) for point, demand, _ in runs], effort.verify)
        if budget_hops:
            self._engine("packet", runs, budget_hops)
            whole = [planned.outcomes[point, demand, "packet"].whole for point, demand, _ in runs]
            if len(chosen) > 1 and all(whole):  # slices of steps are no measure for designs that are near to each other
                planned.engines = ("packet", *planned.engines)
            judge(planned)

    def _run_points(self, points: Sequence[int]) -> None:
        """Points on the engine, each with its layouts that are open; what they teach is taken from the others."""
        self._engine(
            self.planned.engine, [(point, demand, layout) for point in points for demand, layout in self._open(point)]
        )
        self.refused.update(point for point in points if not self.planned.ran(point))
        self._correct()

    def _open(self, point: int) -> list[tuple[int, Mapping[str, Any]]]:
        """Demands under which a point has not run, or has with a layout that is no longer thought its fastest."""
        found: list[tuple[int, Mapping[str, Any]]] = []
        for demand in range(len(self.planned.space.demands)):
            closed = self.planned.outcomes[point, demand, "analytic"]
            engine = self.planned.engine
            ran = self.planned.outcomes.get((point, demand, engine))
            known = self.keys.key(point, demand, engine, closed.layouts[0]) in self.trials.taken
            if ran is None or (not ran.error and not known and closed.step_s < ran.step_s * (1.0 - _AGAIN)):
                found.append((demand, closed.layouts[0]))
        return found

    def _hoped(self, points: Sequence[int]) -> np.ndarray[tuple[int, int], np.dtype[np.float64]]:
        """float64[n, objectives] with what an open run may find, less is better."""
        planned, rows = self.planned, []
        for point in points:
            hoped = {demand for demand, _ in self._open(point)}
            each = [
                planned.outcomes[point, demand, "analytic"] if demand in hoped else planned.seen(point, demand)
                for demand in range(len(planned.space.demands))
            ]
            figures = merged([one.figures for one in each if one is not None], planned.shares)
            figures |= planned.regret.get(point, {})
            rows.append([one.sign * figures[one.name] for one in planned.objectives])
        return np.array(rows)

    def _correct(self) -> None:
        """Takes what the closed form was seen to miss from all points, and judges again."""
        if self.planned.engine == "flow":
            for pair, outcome in self.raw.items():
                self.planned.outcomes[*pair, "analytic"] = self.lessons.corrected(outcome)
        ratios = self.lessons.left() if self.planned.engine == "flow" else self._log_ratios()
        if len(ratios) >= 3:
            self.planned.closed_form = (float(np.mean(ratios)), max(float(np.std(ratios, ddof=1)), 0.005), len(ratios))
        judge(self.planned)

    def _log_ratios(self) -> list[float]:
        """Logarithms of the engine's answers over those in closed form."""
        ran = [
            (key[:2], one)
            for key, one in sorted(self.planned.outcomes.items(), key=lambda row: row[0])
            if key[2] == self.planned.engine
        ]
        return [math.log(one.step_s / self.raw[pair].step_s) for pair, one in ran if not one.error]

    def _engine(self, engine: str, runs: Sequence[Run], budget_hops: float = 0.0) -> None:
        keys = [self.keys.key(point, demand, engine, layout, budget_hops) for point, demand, layout in runs]

        def task(some: Sequence[int]) -> Task:
            point, demand, layout = runs[some[0]]
            argument = {"plan": self.keys.plan, "point": point, "demand": demand, "engine": engine}
            return Task(evaluate.RUN, argument | {"layout": dict(layout), "budget_hops": budget_hops})

        found: dict[int, DesignOutcome] = {}
        for one in self.trials.run(keys, task, engine):
            found[one.at] = outcome = _outcome(one, runs[one.at][:2], engine)
            self._keep_fastest(outcome)
        for _, outcome in sorted(found.items()):  # in an order that does not depend on which ended first
            if engine == "flow" and not outcome.error:
                self.lessons.learn(outcome, self.raw[outcome.point, outcome.demand])

    def _keep_fastest(self, outcome: DesignOutcome) -> None:
        place = outcome.point, outcome.demand, outcome.engine
        before = self.planned.outcomes.get(place)
        if before is None or before.error or (not outcome.error and outcome.step_s < before.step_s):
            self.planned.outcomes[place] = outcome


def _outcome(one: TrialResult, pair: Pair, engine: str) -> DesignOutcome:
    found = DesignOutcome(*pair, engine, error=one.error) if one.error else DesignOutcome.of(one.value)
    return replace(found, point=pair[0], demand=pair[1])


def _steps(planned: PlannedDesigns, section: PlanSection) -> list[tuple[str, int]]:
    """The tasks of every step of a plan at most, and the chances."""
    space, effort, engine = planned.space, section.effort, planned.engine
    demands = len(space.demands)
    runs = effort.serving if engine == "serving" else effort.flow
    layouts = effort.layouts if engine == "flow" and effort.flow else 0
    points = space.size if space.size <= effort.designs else effort.samples
    return [
        ("closed form", 1 + math.ceil((points - 1) * demands / _CHUNK)),  # one design first
        (engine, layouts * demands),
        (engine, runs * demands),
        (engine, effort.rivals * demands if runs else 0),
        (engine, demands if runs else 0),
        ("chances", 1),
    ]
