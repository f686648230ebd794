"""The search: settings compete together, on the same draws, and only the better half goes on to the next draw.

1. Every value alone, on the first draw, against the scenario as written on the same draw: a paired comparison.
2. The best value of every key, together. Then generations: some designs take for each key a value that was good alone,
   by chance; others cross two of the best so far; a few keys are set again at random. So values meet that help only
   together, whatever they do alone. A generation begins on the first draw; its better half runs on the second, and so
   on: most steps go to what is promising.
3. What the best design does not need is taken out again, key by key, over all draws: what is left are settings of which
   each earns `WORTH`. For each of them it is then known what it does alone, and what the others do without it; where
   these differ, it is the combination that pays.

The budget is a number of steps. The same seed gives the same designs on any number of workers.
"""

from __future__ import annotations

import json
import statistics
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from railyard.ask.trials import Ahead, Trials
from railyard.ask.tune.space import (
    KINDS,
    JobGround,
    Kind,
    TuneCase,
    can_run,
    other_jobs,
    refuse_wrong,
    space_of,
    unseen_cases,
)
from railyard.ask.tune.trials import JUDGED, JUDGING, SEARCHING, SettingsTrials, TimedStep
from railyard.kit.errors import InputError, Interrupted
from railyard.kit.quantities import interval
from railyard.kit.schema.yaml import Mark, Node
from railyard.work.study.folder import Journal

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from railyard.ask.trials import Report
    from railyard.ask.tune.trials import Pair
    from railyard.kit.errors import Problem
    from railyard.work.scenario.load import Draft
    from railyard.work.scenario.model import TuneSection
    from railyard.work.study.tasks import Workers
    from railyard.work.training.prepare import Prepared
    from railyard.work.training.spec import Layout

    Settings = dict[str, Any]
    Effects = dict[str, tuple[float | None, float | None]]


WORTH = 0.002
"""Share of a step: smaller gains on the draws of the search are chance."""

LEAST, MOST = 4, 12
"""Designs that compete at a time, half of all values within these: on every draw half as many as on the one before."""

PARENTS = 4
"""Best designs that later ones descend from."""

STALE = 3
"""Generations in a row without a better design, after which the search ends."""

_RESERVE = 6
"""Keys of the best design for which steps are kept back, to see which are needed."""


@dataclass
class SettingsTrial:
    """Settings and what is known of them.

    Attributes:
        settings: Dotted keys and values that differ from the scenario.
        ratios: Steps over those as written, on the first draws of the search.
        error: Why it cannot run; else empty.
    """

    settings: Settings
    ratios: list[float] = field(default_factory=list)
    error: str = ""

    @property
    def mean(self) -> float:
        """Mean of the ratios; infinite if it cannot run."""
        return statistics.fmean(self.ratios) if self.ratios and not self.error else float("inf")


@dataclass
class SettingsRace:
    """One search.

    Attributes:
        designs: All that were tried, in their order; the first is the scenario as written.
    """

    space: Mapping[str, Sequence[Any]]
    draws: Sequence[TuneCase]
    trials: SettingsTrials
    budget: int
    seed: int
    designs: list[SettingsTrial] = field(default_factory=list)
    written_s: list[float] = field(default_factory=list)
    singles: dict[str, list[SettingsTrial]] = field(default_factory=dict)

    def run(self) -> SettingsTrial:
        """The best design, with no more settings than it needs.

        Raises:
            InputError: The scenario as written cannot run.
        """
        self.dice = np.random.default_rng([self.seed, 99])
        self._index: dict[str, SettingsTrial] = {}
        self._write()
        self.singles = {key: [self._made({key: value}) for value in values] for key, values in self.space.items()}
        self._compete([one for ones in self.singles.values() for one in ones], draws=1)
        self._on(self._first(), len(self.draws))
        reserve = len(self.draws) * min(_RESERVE, len(self.space))
        stale, best = 0, self._best().mean
        while stale < STALE and self.trials.count + self._cost() + reserve <= self.budget:
            children = self._children()
            if not children:
                break
            self._compete(children, draws=len(self.draws))
            stale = 0 if self._best().mean < best - WORTH else stale + 1
            best = min(best, self._best().mean)
        return self._needed()

    def so_far(self) -> SettingsTrial:
        """The best of the designs that beat the scenario as written and got furthest."""
        good = [one for one in self.designs if one.mean <= 1.0 - WORTH]
        return min(good, key=lambda one: (-len(one.ratios), one.mean, len(one.settings)), default=self.designs[0])

    def parts(self, found: SettingsTrial) -> Effects:
        """Shares by which steps are shorter with each setting alone, and longer with all but it; None: was not run."""
        self._on([one for pair in self._around(found) for one in pair], len(self.draws))
        return self.known_parts(found)

    def known_parts(self, found: SettingsTrial) -> Effects:
        """The same as far as it was run."""
        return {
            key: (1.0 - alone.mean if alone.ratios else None, rest.mean / found.mean - 1.0 if rest.ratios else None)
            for key, (alone, rest) in zip(found.settings, self._around(found), strict=True)
        }

    def _around(self, found: SettingsTrial) -> list[tuple[SettingsTrial, SettingsTrial]]:
        """Designs with each setting of a design alone, and with the others without it."""
        return [
            (self._made({key: value}), self._made(_less(found.settings, key))) for key, value in found.settings.items()
        ]

    def _write(self) -> None:
        rows = self.trials.steps([({}, case) for case in self.draws])
        wrong = next((row for row in rows if isinstance(row, str)), None)
        if wrong is not None:
            raise InputError(f"the scenario as written cannot run: {wrong}", key="workload")
        self.written_s = [float(row) for row in rows]
        self._made({}).ratios = [1.0] * len(rows)

    def _made(self, settings: Settings) -> SettingsTrial:
        """The design of these settings: the one that is known, or a new one."""
        key = json.dumps(settings, sort_keys=True, default=str)
        if key not in self._index:
            self._index[key] = SettingsTrial({name: settings[name] for name in self.space if name in settings})
            self.designs.append(self._index[key])
        return self._index[key]

    def _cost(self) -> int:
        return sum(max(1, self._size >> at) for at in range(len(self.draws)))

    @property
    def _size(self) -> int:
        return min(MOST, max(LEAST, sum(map(len, self.space.values())) // 2))

    def _compete(self, designs: list[SettingsTrial], draws: int) -> None:
        """Tries all on the first draw; the better half of those on the next, and so on."""
        left = designs
        for count in range(1, draws + 1):
            self._on(left, count)
            left = sorted(left, key=lambda one: one.mean)[: max(1, len(left) // 2)]

    def _on(self, designs: Sequence[SettingsTrial], draws: int) -> None:
        """Runs designs on the first so many draws, where they have not been."""
        apart = {id(one): one for one in designs if not one.error}.values()
        asked = [(one, at) for one in apart for at in range(len(one.ratios), draws)]
        rows = self.trials.steps([(one.settings, self.draws[at]) for one, at in asked])
        for (one, at), row in zip(asked, rows, strict=True):
            if isinstance(row, str):
                one.error = row
            else:
                one.ratios.append(row / self.written_s[at])

    def _ranked(self) -> list[SettingsTrial]:
        """Designs that ran on all draws, best first; of equal ones the one with fewer settings."""
        done = [one for one in self.designs if len(one.ratios) == len(self.draws) and not one.error]
        return sorted(done, key=lambda one: (one.mean, len(one.settings)))

    def _best(self) -> SettingsTrial:
        return self._ranked()[0]

    def _children(self) -> list[SettingsTrial]:
        """Designs that nobody has tried; fewer than a generation where the space is nearly used up."""
        found: list[SettingsTrial] = []
        parents = self._ranked()[:PARENTS]
        for number in range(20 * self._size):
            if len(found) == self._size:
                break
            born = self._sampled() if number % 3 == 0 or len(parents) < 2 else self._crossed(parents)
            known = len(self.designs)
            child = self._made(born)
            if len(self.designs) > known:
                found.append(child)
        return found

    def _first(self) -> list[SettingsTrial]:
        """The best value alone, and the best of every key that has a good one."""
        good = [min(ones, key=lambda one: one.mean) for ones in self.singles.values()]
        good = [one for one in good if one.mean < 1.0 - WORTH / 2]
        together = {key: value for one in good for key, value in one.settings.items()}
        return [min(good, key=lambda one: one.mean), self._made(together)] if good else []

    def _sampled(self) -> Settings:
        """Draws for every key a value that was good alone."""
        found: Settings = {}
        for key, ones in self.singles.items():
            good = sorted((one for one in ones if one.mean < 1.0 - WORTH / 2), key=lambda one: one.mean)
            if good and self.dice.random() < 0.8:
                found[key] = good[min(len(good) - 1, int(self.dice.geometric(0.6)) - 1)].settings[key]
        return self._moved(found)

    def _crossed(self, parents: Sequence[SettingsTrial]) -> Settings:
        """Key by key from one of two of the best."""
        first, second = self.dice.choice(len(parents), 2, replace=False).tolist()
        found: Settings = {}
        for key in self.space:
            taken = parents[first if self.dice.random() < 0.6 else second].settings
            if key in taken:
                found[key] = taken[key]
        return self._moved(found)

    def _moved(self, settings: Settings) -> Settings:
        """One key or two set again: to a value that can run, or back to what is written."""
        keys = list(self.space)
        for key in self.dice.choice(keys, min(len(keys), 1 + int(self.dice.integers(2))), replace=False).tolist():
            values = [one.settings[key] for one in self.singles[key] if not one.error]
            place = int(self.dice.integers(len(values) + 1))
            if place < len(values):
                settings[key] = values[place]
            else:
                settings.pop(key, None)
        return settings

    def _needed(self) -> SettingsTrial:
        best = self._best()
        if best.mean > 1.0 - WORTH:
            return self.designs[0]
        while best.settings:
            less = [self._made(_less(best.settings, key)) for key in best.settings]
            self._on(less, len(self.draws))
            shortest = min(less, key=lambda one: one.mean)
            if shortest.mean > best.mean + WORTH:
                break
            best = shortest
        return best


def _less(settings: Settings, key: str) -> Settings:
    return {name: value for name, value in settings.items() if name != key}


@dataclass
class TuneResult:
    """Result of a search for settings.

    Attributes:
        default_s: Mean step as written, on the draws of the search.
        tried: Designs that were run, in their order; the first is the scenario as written.
        unseen: By case: a run as written, and with the settings.
        stopped: Whether Ctrl-C or SIGTERM ended it: the settings are the best so far, and may not have been judged.
    """

    name: str
    engine: str
    default_s: float = 0.0
    tuned_s: float = 0.0
    settings: dict[str, Any] = field(default_factory=dict)
    parts: Effects = field(default_factory=dict)
    tried: list[SettingsTrial] = field(default_factory=list)
    unseen: list[tuple[TuneCase, Pair]] = field(default_factory=list)
    ranks: int = 0
    servers: int = 0
    nics: int = 0
    stopped: bool = False
    refused: list[Problem] = field(default_factory=list)

    def take(self, race: SettingsRace, best: SettingsTrial, parts: Effects) -> None:
        """Takes over what a search found."""
        written_s = race.written_s[: len(best.ratios)]
        self.default_s = statistics.fmean(written_s)
        self.tuned_s = statistics.fmean(ratio * one for ratio, one in zip(best.ratios, written_s, strict=True))
        self.settings, self.parts, self.tried = dict(best.settings), parts, race.designs

    def gains(self, kind: Kind | None = None) -> list[float]:
        """Share by which steps are shorter, for each unseen case.

        Args:
            kind: Cases of this one alone; None: all.
        """
        pairs = [pair for case, pair in self.unseen if kind in (None, case.kind)]
        return [1.0 - tuned.step_s / default.step_s for default, tuned in pairs]

    def gain(self, kind: Kind | None = None) -> tuple[float, float, float]:
        """Mean gain on what was not seen, and the ends of its 90 % interval."""
        return interval(self.gains(kind))

    @property
    def kinds(self) -> list[Kind]:
        """Kinds of which there are cases."""
        return [kind for kind in KINDS if self.gains(kind)]

    @property
    def sure(self) -> bool:
        """Whether the settings are better than chance would have it, and surely worse in no kind of case."""
        if self.stopped or not self.settings:
            return False
        return self.gain()[1] > 0.0 and all(self.gain(kind)[2] >= 0.0 for kind in self.kinds)


@dataclass
class Tuner:
    """Tunes one scenario; `journal` keeps its trials, so that a tuning that was stopped goes on from there."""

    draft: Draft
    engine: str
    section: TuneSection
    workers: Workers
    report: Report
    journal: Journal = field(default_factory=lambda: Journal(None))

    def run(self) -> TuneResult:
        """Runs the search; after a signal, returns the best settings so far.

        Raises:
            InputError: The scenario as written cannot run, or a value to be tried is none of its key.
            Interrupted: It was stopped before the scenario as written had run.
        """
        listed = space_of(self.draft, self.engine)
        found = TuneResult(self.draft.title, self.engine)
        job = self.describe(found)
        if self.section.space:
            refuse_wrong(self.draft, listed, self.engine)
        space = {key: [node.plain() for node in nodes] for key, nodes in listed.items()}
        cases = self.cases(job)
        draws = [TuneCase(self.draft.seed + number) for number in range(self.section.seeds)]
        budget = self.section.steps or 2 * len(draws) * sum(map(len, space.values()))
        ahead = Ahead([(SEARCHING, budget), (JUDGING, 2 * len(cases))])
        trials = SettingsTrials(self.draft, self.engine, Trials(self.workers, self.journal, ahead, self.report))
        race = SettingsRace(space, draws, trials, budget, self.draft.seed)
        ahead.step()
        try:
            best = race.run()
            found.take(race, best, race.parts(best))
            ahead.step()
            self._judge(found, trials, cases)
        except Interrupted:
            if not race.written_s:
                raise
            found.stopped = True
            if not found.tried:
                found.take(race, race.so_far(), race.known_parts(race.so_far()))
        except InputError as error:
            raise self.draft.blame(error) from None
        found.refused = _refused(listed, race)
        return found

    def cases(self, job: Prepared) -> list[TuneCase]:
        """Cases that judge it; other jobs are drawn for the cluster as it is."""
        training, plan = job.training, job.cluster.plans["back_end"]
        ports = job.cluster.servers * plan.nics
        ground = JobGround(
            training.model, training.seq_len, job.cluster.ranks, job.cluster.scale_up_domain, ports, plan.link_bps
        )
        jobs = other_jobs(ground, self.section.unseen_jobs, self.draft.seed, lambda keys: can_run(self.draft, keys))
        return unseen_cases(self.draft.seed, self.section, jobs)

    def describe(self, found: TuneResult) -> Prepared:
        """The job's size, and its layout where it is to be chosen: it stays what it is for all settings."""
        self.draft, job = settled(self.draft, "flow")
        found.ranks, found.servers = job.cluster.ranks, job.cluster.servers
        found.nics = job.cluster.plans["back_end"].nics
        return job

    def _judge(self, found: TuneResult, trials: SettingsTrials, cases: Sequence[TuneCase]) -> None:
        """Steps on what the search has not seen, as written and with the settings."""
        ways: list[Mapping[str, Any]] = [{}, found.settings] if found.settings else [{}]
        rows: list[TimedStep | str] = [""] * (len(ways) * len(cases))
        try:
            for one in trials.run([(settings, case) for case in cases for settings in ways], JUDGED, JUDGING):
                rows[one.at] = one.error or TimedStep.read(one.value)
        finally:
            before, after = rows[:: len(ways)], rows[len(ways) - 1 :: len(ways)]
            for case, default, tuned in zip(cases, before, after, strict=True):
                if isinstance(default, TimedStep) and isinstance(tuned, TimedStep):
                    found.unseen.append((case, (default, tuned)))
        if not found.unseen:
            raise InputError(f"none of the test cases can run: {before[0]}", key="tune")


def _refused(listed: Mapping[str, Sequence[Node]], race: SettingsRace) -> list[Problem]:
    """Values that cannot run by themselves, each with its place."""
    return [
        node.problem(f"`{node.plain()}` cannot run: {one.error}", key=f"tune.space.{key}")
        for key, nodes in listed.items()
        for node, one in zip(nodes, race.singles.get(key, ()), strict=False)
        if one.error
    ]


def settled(draft: Draft, engine: str) -> tuple[Draft, Prepared]:
    """A scenario with its fabric's name and its layout written out, and its job, ready to run."""
    from railyard.work.study import study

    network = (draft.tree.value["cluster"].value.get("back_end") or Node({}, Mark("tune"))).value
    if "fabric" not in network:  # its name stands in no file, and a key below it alone would be no fabric
        fabric = {"cluster.back_end.fabric": draft.scenario.cluster.back_end.fabric.name}
        draft = draft.with_values(fabric, "railyard tune")
    plain: dict[str, Any] = {"tune": None, "compare": {}, "repeat": 1}
    (job,) = study.prepare(draft.with_values(plain, "railyard tune"), engine=engine)
    written = draft.scenario.training.parallelism
    if isinstance(written, str) or written.auto:
        draft = draft.with_values({"workload.training.parallelism": _keys(job.training.layout)}, "railyard tune")
    return draft, job


def _keys(layout: Layout) -> dict[str, Any]:
    """A layout as the scenario's `parallelism` has it."""
    names = ("tp", "pp", "dp", "cp", "ep", "expert_tp", "vp", "zero", "micro_batch", "schedule", "recompute")
    return {name: getattr(layout, name) for name in names}
