"""The search: one key after another, each value on the same draws; then a verdict on draws and loads unseen.

Coordinate descent: every value of a key is tried with all else as it is, and the best is kept when it shortens the mean
step by `WORTH`; keys are gone through again until nothing changes. What comes of it was chosen by the draws that it was
tried on, so its gain there flatters. The verdict is of other draws and loads, pair by pair with the scenario as
written: the mean gain with its 90 % interval (Student). Settings whose interval reaches below zero are not recommended.
"""

from __future__ import annotations

import itertools
import statistics
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from railyard.errors import InputError
from railyard.interval import interval
from railyard.schema.yaml import Mark, Node
from railyard.study.journal import Journal, key_of
from railyard.study.provenance import version
from railyard.study.tasks import Task
from railyard.tune.settings.judging import Run
from railyard.tune.settings.space import space_of
from railyard.tune.settings.work import JUDGED, STEP

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from railyard.scenario.load import Draft
    from railyard.scenario.tune_section import TuneSection
    from railyard.study.tasks import Workers
    from railyard.tune.settings.judging import Pair
    from railyard.workload.training.spec import Layout

    Report = Callable[[str, float], None]
    Case = tuple[int, float]

WORTH = 0.002
"""Of a step: smaller gains on the draws of the search are chance."""

UNSEEN = 1000
"""Added to the seed for draws that the search does not see."""


def unseen_cases(seed: int, section: TuneSection) -> list[Case]:
    """Draws and loads that nothing is chosen by: each load has draws of its own, so that all cases are independent.

    Args:
        seed: Of the scenario.
        section: How many.
    """
    number = itertools.count(seed + UNSEEN)
    return [(next(number), share) for share in section.unseen_loads for _ in range(section.unseen_seeds)]


@dataclass(frozen=True)
class Trial:
    """One value of a key on the draws of the search.

    Attributes:
        key: Dotted.
        value: Plain.
        step_s: Mean over the draws; None where it cannot be.
        error: Why it cannot.
        kept: Whether it was the best and is part of the settings from there on.
    """

    key: str
    value: Any
    step_s: float | None
    error: str = ""
    kept: bool = False


@dataclass
class Tuned:
    """What came of it.

    Attributes:
        name: Of the scenario.
        engine: On which.
        default_s: Mean step as written, on the draws of the search.
        tuned_s: The same with the settings.
        settings: Dotted keys and values that differ.
        trials: In their order.
        unseen: By draw and load: a run as written, and with the settings.
        ranks: Accelerators of the job.
        servers: Of the cluster.
        nics: Of a server, in the back-end.
    """

    name: str
    engine: str
    default_s: float = 0.0
    tuned_s: float = 0.0
    settings: dict[str, Any] = field(default_factory=dict)
    trials: list[Trial] = field(default_factory=list)
    unseen: dict[Case, Pair] = field(default_factory=dict)
    ranks: int = 0
    servers: int = 0
    nics: int = 0

    @property
    def gains(self) -> list[float]:
        """By which share steps are shorter, by unseen draw and load."""
        return [1.0 - tuned.step_s / default.step_s for default, tuned in self.unseen.values()]

    @property
    def gain(self) -> tuple[float, float, float]:
        """Mean gain on what was not seen, and the ends of its 90 % interval."""
        return interval(self.gains)

    @property
    def sure(self) -> bool:
        """Whether the settings are better than chance would have it."""
        return bool(self.settings) and self.gain[1] > 0.0


@dataclass
class Tuner:
    """Tunes one scenario.

    Attributes:
        draft: The scenario.
        engine: Name.
        section: What it may do.
        workers: Where steps run.
        journal: Steps that are known.
        report: Told what is being done, and its share from 0 to 1.
    """

    draft: Draft
    engine: str
    section: TuneSection
    workers: Workers
    journal: Journal
    report: Report

    def run(self) -> Tuned:
        """All of it.

        Raises:
            InputError: The scenario as written cannot run.
        """
        space = space_of(self.draft, self.engine)
        found = Tuned(self.draft.title, self.engine)
        self._describe(found)
        seen: list[Case] = [(self.draft.seed + number, 0.0) for number in range(self.section.seeds)]
        (first,) = self._means([{}], seen)
        if isinstance(first, str):
            raise InputError(f"the scenario as written cannot run: {first}")
        found.default_s = found.tuned_s = first
        for turn in range(self.section.rounds):
            before = dict(found.settings)
            for number, (key, nodes) in enumerate(space.items()):
                self.report(f"round {turn + 1}: {key}", (turn + number / len(space)) / (self.section.rounds + 1))
                self._key(found, key, [node.plain() for node in nodes], seen)
            if found.settings == before:
                break
        self._judge(found)
        return found

    def _describe(self, found: Tuned) -> None:
        """The job's size, and its layout where it is to be chosen: it stays what it is for all settings."""
        from railyard.study import study

        network = (self.draft.tree.value["cluster"].value.get("back_end") or Node({}, Mark("tune"))).value
        if "fabric" not in network:  # its name stands in no file, and a key below it alone would be no fabric
            fabric = {"cluster.back_end.fabric": self.draft.scenario.cluster.back_end.fabric.name}
            self.draft = self.draft.with_values(fabric, "railyard tune")
        plain: dict[str, Any] = {"tune": None, "compare": {}, "repeat": 1}
        (job,) = study.prepare(self.draft.with_values(plain, "railyard tune"), engine="flow")
        found.ranks, found.servers = job.cluster.ranks, job.cluster.servers
        found.nics = job.cluster.plans["back_end"].nics
        written = self.draft.scenario.training.parallelism
        if isinstance(written, str) or written.auto:
            self.draft = self.draft.with_values(
                {"workload.training.parallelism": _keys(job.training.layout)}, "railyard tune"
            )

    def _key(self, found: Tuned, key: str, values: Sequence[Any], seen: Sequence[Case]) -> None:
        """Tries the values of a key, with all else as it is."""
        new = [value for value in values if found.settings.get(key) != value]
        means = self._means([{**found.settings, key: value} for value in new], seen)
        good = [(mean, at) for at, mean in enumerate(means) if not isinstance(mean, str)]
        best = min(good, default=None)
        kept = best[1] if best is not None and best[0] < found.tuned_s * (1.0 - WORTH) else None
        for at, (value, mean) in enumerate(zip(new, means, strict=True)):
            step, error = (None, mean) if isinstance(mean, str) else (mean, "")
            found.trials.append(Trial(key, value, step, error, kept=at == kept))
        if kept is not None and best is not None:
            found.settings[key], found.tuned_s = new[kept], best[0]

    def _judge(self, found: Tuned) -> None:
        """Steps on what the search has not seen, as written and with the settings."""
        cases = unseen_cases(self.draft.seed, self.section)
        before = self._runs({}, cases, 0.0)
        after = self._runs(found.settings, cases, 0.5) if found.settings else before
        for case, default, tuned in zip(cases, before, after, strict=True):
            if isinstance(default, Run) and isinstance(tuned, Run):
                found.unseen[case] = (default, tuned)
        if not found.unseen:
            raise InputError(f"nothing of what the settings are judged on can run: {before[0]}", key="tune")

    def _runs(self, settings: Mapping[str, Any], cases: Sequence[Case], begun: float) -> list[Run | str]:
        """Runs of some settings over cases, or why one cannot be.

        Args:
            settings: Dotted keys and values.
            cases: Draws and loads.
            begun: Share of the verdict that is done.
        """
        tasks = [Task(JUDGED, self._task(settings, case)) for case in cases]
        rounds = self.section.rounds
        found: list[Run | str] = [""] * len(tasks)
        for count, done in enumerate(self.workers.run(tasks)):
            share = begun + 0.5 * count / len(tasks)
            self.report("draws and loads that it has not seen", (rounds + share) / (rounds + 1))
            found[done.number] = done.error or Run.read(done.value)
        return found

    def _means(self, settings: Sequence[Mapping[str, Any]], cases: Sequence[Case]) -> list[float | str]:
        """Mean steps of some settings over some cases, or why one cannot be."""
        rows = self._steps([(one, case) for one in settings for case in cases])
        found: list[float | str] = []
        for at in range(len(settings)):
            these = rows[at * len(cases) : (at + 1) * len(cases)]
            numbers = [row for row in these if not isinstance(row, str)]
            wrong = next((row for row in these if isinstance(row, str)), None)
            found.append(statistics.fmean(numbers) if wrong is None else wrong)
        return found

    def _task(self, settings: Mapping[str, Any], case: Case) -> dict[str, Any]:
        seed, share = case
        return {
            "values": self.draft.tree.plain(),
            "folder": str(self.draft.folder.resolve()),
            "settings": dict(settings),
            "engine": self.engine,
            "seed": seed,
            "load": share,
        }

    def _steps(self, runs: Sequence[tuple[Mapping[str, Any], Case]]) -> list[float | str]:
        """Steps in seconds, or why one cannot be."""
        tasks = [self._task(one, case) for one, case in runs]
        keys = [key_of(version(), task) for task in tasks]
        left = [at for at, key in enumerate(keys) if key not in self.journal.known]
        errors: dict[int, str] = {}
        for done in self.workers.run([Task(STEP, tasks[at]) for at in left]):
            at = left[done.number]
            if done.error:
                errors[at] = done.error
            else:
                self.journal.add(keys[at], done.value)
        return [errors[at] if at in errors else float(self.journal.known[key]) for at, key in enumerate(keys)]


def _keys(layout: Layout) -> dict[str, Any]:
    """A layout as the scenario's `parallelism` has it."""
    names = ("tp", "pp", "dp", "cp", "ep", "expert_tp", "vp", "zero", "micro_batch", "schedule", "recompute")
    return {name: getattr(layout, name) for name in names}
