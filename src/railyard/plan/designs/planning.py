"""A plan from its first point to its choice: closed form for all, flow for the promising, packets for finalists."""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from railyard.errors import InputError
from railyard.plan.designs import work
from railyard.plan.designs.build import Bench
from railyard.plan.designs.constraints import Looked, contradiction, relaxed
from railyard.plan.designs.decide import break_even, judged
from railyard.plan.designs.doubt import Choice, Doubts
from railyard.plan.designs.front import front, promising
from railyard.plan.designs.lessons import Lessons
from railyard.plan.designs.objectives import merged
from railyard.plan.designs.outcome import Outcome, layout_of
from railyard.plan.designs.price import priced
from railyard.scenario.load import dump
from railyard.study.journal import Journal, key_of
from railyard.study.provenance import version
from railyard.study.tasks import Task

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from railyard.plan.designs.planned import Planned
    from railyard.scenario.load import Draft
    from railyard.scenario.plan_section import PlanSection
    from railyard.study.tasks import Workers

    Report = Callable[[str, float], None]
    Pair = tuple[int, int]
    Run = tuple[int, int, Mapping[str, Any]]

_CHUNK = 24
"""Points of a task of the sweep: the same on any number of cores, so that results are."""

_BATCH = 4
"""Runs on the engine between two looks at what they teach: the same on any number of cores."""

_AGAIN = 0.01
"""A design runs again with another layout where that is thought to be faster by this share."""

_CHOICES = 24
"""Designs whose chances are worked out."""


@dataclass
class Planner:
    """Works a plan out.

    Attributes:
        draft: The scenario.
        planned: What was found so far.
        section: How much may be spent.
        workers: Where tasks run.
        journal: What is known already.
        report: Told what is being done, and its share from 0 to 1.
        lessons: What the closed form misses.
        raw: What it found, by point and demand.
        refused: Points that the engine could not run.
        taken: Keys of what was run, or was known of an earlier run, in this one.
    """

    draft: Draft
    planned: Planned
    section: PlanSection
    workers: Workers
    journal: Journal
    report: Report
    lessons: Lessons = field(default_factory=Lessons)
    raw: dict[Pair, Outcome] = field(default_factory=dict)
    refused: set[int] = field(default_factory=set)
    taken: set[str] = field(default_factory=set)

    def run(self) -> Planned:
        """All of it; what was found so far where the user stops it.

        Raises:
            InputError: No point can be built, or none keeps the constraints.
            KeyboardInterrupt: The user stopped it before there was any choice.
        """
        steps = (self._sweep, self._learn, self._run_promising, self._run_finalists)
        for step in steps:
            try:
                step()
            except KeyboardInterrupt:
                self.planned.stopped = True
                self.workers.close()
                break
        if not self._good():
            if self.planned.stopped:
                raise KeyboardInterrupt
            self._refuse()
        self._conclude()
        return self.planned

    # The space in closed form.

    def _sweep(self) -> None:
        space = self.planned.space
        pairs = [(point, demand) for demand in range(len(space.demands)) for point in range(space.size)]
        keys = {pair: self._key(*pair, "analytic", None) for pair in pairs}
        left = [pair for pair in pairs if keys[pair] not in self.journal.known]
        for pair in pairs:
            if keys[pair] in self.journal.known:
                self._take(self.journal.known[keys[pair]], pair)
        heads = frozenset({"cluster", "catalog"})
        left.sort(key=lambda pair: (str(space.part(pair[0], pair[1], heads)), pair))
        tasks = [Task(work.SWEEP, self._sweeping(left[at : at + _CHUNK])) for at in range(0, len(left), _CHUNK)]
        for done in self._done(tasks, "closed form"):
            chunk = left[done.number * _CHUNK : (done.number + 1) * _CHUNK]
            rows = {(row["point"], row["demand"]): row for row in done.value or ()}
            for pair in chunk:
                row = rows.get(pair) or Outcome(*pair, "analytic", error=done.error).plain()
                self._take(row, pair)
                if not done.error:
                    self.journal.add(keys[pair], row, sync=pair == chunk[-1])
        self._sorted_out()

    def _sweeping(self, pairs: Sequence[Pair]) -> dict[str, Any]:
        return {"plan": self._plan(), "points": [list(pair) for pair in pairs], "exclude": self._excluded()}

    def _excluded(self) -> list[str]:
        return sorted(frozenset().union(*(one.names for one in self.planned.constraints)))

    def _plan(self) -> dict[str, Any]:
        """The plan as a worker reads it."""
        if not hasattr(self, "_plain"):
            values = self.draft.tree.plain()
            folder = str(self.draft.folder.resolve())
            self._plain = {"values": values, "folder": folder, "digest": key_of(values, folder)}
        return self._plain

    def _key(self, point: int, demand: int, engine: str, layout: Mapping[str, Any] | None) -> str:
        """What an outcome follows from."""
        if not hasattr(self, "_base"):
            self._base = key_of(version(), dump(self.planned.space.base.scenario))
        changes = {key: node.plain() for key, node in self.planned.space.demands[demand].changes.items()}
        names = self._excluded() if engine == "analytic" else []
        return key_of(self._base, self.planned.space.settings(point), changes, engine, layout, names)

    def _take(self, row: Mapping[str, Any], pair: Pair) -> None:
        outcome = replace(Outcome.of(row), point=pair[0], demand=pair[1])
        self.planned.outcomes[*pair, outcome.engine] = outcome
        if not outcome.error:
            self.raw[pair] = outcome

    def _sorted_out(self) -> None:
        """Which points fail, and what each demand costs at least."""
        planned = self.planned
        planned.layouts = sum(one.tried for one in planned.outcomes.values() if one.engine == "analytic")
        for (point, _, engine), outcome in planned.outcomes.items():
            if engine == "analytic" and outcome.error:
                planned.failed.setdefault(point, outcome.error)
        self._judge()

    # Judgement of what is known.

    def _judge(self) -> None:
        """Regret, and which constraints are missed, by what is known now."""
        planned = self.planned
        planned.missed.clear()
        able = self._able()
        for point in able:
            rows = planned.rows(point) or []
            first = next((one for one in planned.constraints if not one.keeps(rows, self._parts(point))), None)
            if first is not None:
                excess = first.excess(rows, self._parts(point))
                planned.missed[point] = first.name + (f" by {excess:.1%}" if math.isfinite(excess) else "")
        self._regret([point for point in able if point not in planned.missed])

    def _regret(self, points: Sequence[int]) -> None:
        planned = self.planned
        planned.regret.clear()
        first = next((one for one in planned.objectives if one.of is not None), None)
        if len(planned.space.demands) < 2 or first is None or not points:
            return
        table = np.array([[row[first.name] for row in planned.rows(point) or []] for point in points])
        best = (first.sign * table).min(axis=0)
        excess = ((first.sign * table - best) / np.abs(best)).max(axis=1)
        planned.regret.update(zip(points, excess.tolist(), strict=True))

    def _able(self) -> list[int]:
        planned = self.planned
        return [
            point
            for point in range(planned.space.size)
            if point not in planned.failed and planned.rows(point) is not None
        ]

    def _good(self) -> list[int]:
        """Points that keep every constraint."""
        return [point for point in self._able() if point not in self.planned.missed]

    def _parts(self, point: int) -> frozenset[str]:
        found = self.planned.outcomes.get((point, 0, "analytic"))
        return frozenset() if found is None else frozenset(found.excluded)

    def _values(self, points: Iterable[int]) -> np.ndarray[tuple[int, int], np.dtype[np.float64]]:
        """float64[n, objectives], less is better."""
        rows = [self.planned.figures(point) or {} for point in points]
        return np.array([[one.sign * row[one.name] for one in self.planned.objectives] for row in rows])

    # The engine.

    def _learn(self) -> None:
        """Layouts of the most promising point on `flow`: what the closed form misses of them, all points' layouts have.

        The layout that may be fastest by the lower end of what is known runs next, a few at a time.
        """
        good, effort = self._good(), self.section.effort
        if not good or not effort.layouts or not effort.flow:
            return
        anchor = good[promising(self._values(good), 1)[0]]
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
        left = self.section.effort.flow
        while left > 0:
            good = [point for point in self._good() if point not in self.refused and self._open(point)]
            if not good:
                return
            chosen = [good[at] for at in promising(self._hoped(good), min(left, _BATCH))]
            self._engine("flow", [(point, demand, layout) for point in chosen for demand, layout in self._open(point)])
            self.refused.update(point for point in chosen if not self.planned.ran(point))
            left -= len(chosen)
            self._correct()

    def _run_finalists(self) -> None:
        effort = self.section.effort
        if not effort.packet:
            return
        good = [point for point in self._good() if self.planned.ran(point)] or self._good()
        chosen = [good[at] for at in promising(self._values(good), effort.packet)]
        demands = range(len(self.planned.space.demands))
        runs = [(point, demand, self._best(point, demand)) for point in chosen for demand in demands]
        self._engine("packet", runs, effort.packet_time)
        if sum(self.planned.ran(point, "packet") for point in chosen) > 1:
            self.planned.engines = ("packet", *self.planned.engines)
        self._judge()

    def _open(self, point: int) -> list[tuple[int, Mapping[str, Any]]]:
        """Demands under which a point has not run, or has with a layout that is no longer thought its fastest."""
        found: list[tuple[int, Mapping[str, Any]]] = []
        for demand in range(len(self.planned.space.demands)):
            closed = self.planned.outcomes[point, demand, "analytic"]
            ran = self.planned.outcomes.get((point, demand, "flow"))
            known = self._key(point, demand, "flow", closed.layouts[0]) in self.taken
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
            figures |= {"regret": planned.regret.get(point, 0.0)}
            rows.append([one.sign * figures[one.name] for one in planned.objectives])
        return np.array(rows)

    def _best(self, point: int, demand: int) -> Mapping[str, Any]:
        """The layout of a point that is the fastest by what is known."""
        known = self.planned.seen(point, demand)
        return {} if known is None else known.layouts[0]

    def _correct(self) -> None:
        """Takes what the closed form was seen to miss from all points, and judges anew."""
        for pair, outcome in self.raw.items():
            self.planned.outcomes[*pair, "analytic"] = self.lessons.corrected(outcome)
        apart = self.lessons.left()
        if len(apart) >= 3:
            self.planned.closed_form = (float(np.mean(apart)), max(float(np.std(apart, ddof=1)), 0.005), len(apart))
        self._judge()

    def _engine(self, engine: str, runs: Sequence[Run], limit_s: float = 0.0) -> None:
        keys = [self._key(point, demand, engine, layout) for point, demand, layout in runs]
        self.taken.update(keys)
        found = {at: self.journal.known[key] for at, key in enumerate(keys) if key in self.journal.known}
        left = [at for at in range(len(runs)) if at not in found]
        tasks = []
        for at in left:
            point, demand, layout = runs[at]
            argument = {"plan": self._plan(), "point": point, "demand": demand, "engine": engine}
            tasks.append(Task(work.RUN, {**argument, "layout": dict(layout)}, limit_s))
        for done in self._done(tasks, engine):
            at = left[done.number]
            found[at] = done.value or Outcome(runs[at][0], runs[at][1], engine, error=done.error).plain()
            if not done.error:
                self.journal.add(keys[at], found[at])
        for at in sorted(found):  # in an order that does not depend on which ended first
            self._found(found[at], runs[at][:2])

    def _found(self, row: Mapping[str, Any], pair: Pair) -> None:
        """Keeps the fastest of a point's runs on an engine, and what each says of the closed form."""
        outcome = replace(Outcome.of(row), point=pair[0], demand=pair[1])
        if outcome.engine == "flow" and not outcome.error:
            self.lessons.learn(outcome, self.raw[pair])
        before = self.planned.outcomes.get((*pair, outcome.engine))
        if before is None or before.error or (not outcome.error and outcome.step_s < before.step_s):
            self.planned.outcomes[*pair, outcome.engine] = outcome

    def _done(self, tasks: Sequence[Task], what: str) -> Iterator[Any]:
        for ended, done in enumerate(self.workers.run(tasks), 1):
            self.report(f"{what}: {ended} of {len(tasks)}", ended / len(tasks))
            yield done

    # The end.

    def _refuse(self) -> None:
        planned = self.planned
        if not self._able():
            reasons = list(dict.fromkeys(planned.failed.values()))
            more = f"; and {len(reasons) - 3} other reasons" if len(reasons) > 3 else ""
            error = InputError(
                f"none of the {planned.space.size:,} designs can be: {'; '.join(reasons[:3])}{more}", key="plan.space"
            )
            raise self.draft.blame(error)
        looked = [self._looked(point) for point in self._able()]
        text = contradiction(planned.constraints, looked)
        raise self.draft.blame(InputError(text, key="plan.constraints"))

    def _looked(self, point: int) -> Looked:
        planned, first = self.planned, self.planned.objectives[0]
        figures = planned.figures(point) or {}
        value = first.sign * figures.get(first.name, 0.0)
        return Looked(planned.space.name(point), tuple(planned.rows(point) or ()), self._parts(point), value)

    def _conclude(self) -> None:
        """The front, its runners-up, and how sure they are."""
        planned, effort = self.planned, self.section.effort
        good = self._good()
        pools = ([point for point in good if planned.ran(point, engine)] for engine in planned.engines[:-1])
        pool = next((pool for pool in pools if pool), good)
        values = self._values(pool)
        kept = front(values)
        order = [pool[at] for at in np.lexsort(values.T[::-1])]
        on_front = {pool[at] for at in np.flatnonzero(kept)}
        chosen = [point for point in order if point in on_front]
        chosen += [point for point in order if point not in on_front][: max(0, _CHOICES - len(chosen))]
        chosen = sorted(chosen[: max(_CHOICES, len(on_front))], key=order.index)
        bench = Bench(planned.space)
        planned.choices = [self._choice(bench, point) for point in chosen]
        planned.on_front = [point in on_front for point in chosen]
        doubts = Doubts.of(planned.choices, planned.closed_form[:2])
        self.report("chances", 0.9)
        planned.sure = judged(
            planned.choices, doubts, planned.objectives, planned.shares, draws=effort.draws, seed=self.draft.seed
        )
        planned.even = break_even(planned.choices, planned.shares) if planned.objectives[0].name == "cpmt" else ()
        if planned.constraints:
            planned.relaxed = relaxed(planned.constraints, [self._looked(point) for point in self._able()])

    def _choice(self, bench: Bench, point: int) -> Choice:
        """A design with everything that chances are worked out of."""
        planned = self.planned
        hardware, trainings, outcomes, money = [], [], [], []
        for demand in range(len(planned.space.demands)):
            outcome = planned.seen(point, demand)
            if outcome is None:
                raise AssertionError("only designs with outcomes are chosen")
            layout = layout_of(outcome.layouts[0])
            design = bench.design(point, demand)
            training = design.jobs[0].replace(layout=layout)
            seated = bench.seated(point, demand, layout)
            hardware.append(seated)
            trainings.append(training)
            outcomes.append(outcome)
            money.append(priced(seated.cluster, training, outcome, seated.parts, design.assumptions))
        return Choice(
            point,
            planned.space.name(point),
            tuple(hardware),
            tuple(trainings),
            tuple(outcomes),
            tuple(money),
            planned.figures(point) or {},
        )
