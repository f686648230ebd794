"""Settings searched on some draws, and a verdict on draws, loads and jobs that the search has not seen.

What comes of a search was chosen by the draws that it was tried on, so its gain there flatters. The verdict is of other
cases, pair by pair with the scenario as written: the mean gain with its 90 % interval (Student), over all and for each
kind of case. Settings whose interval reaches below zero, or that are surely worse in one kind, are not recommended.
"""

from __future__ import annotations

import statistics
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from railyard.ask.tune.settings.race import Design, Part, Race
from railyard.ask.tune.settings.space import (
    KINDS,
    Case,
    Ground,
    Kind,
    can_run,
    other_jobs,
    refuse_wrong,
    space_of,
    unseen_cases,
)
from railyard.ask.tune.settings.trials import Run, Trials
from railyard.kit.errors import InputError, Interrupted
from railyard.kit.quantities import interval
from railyard.kit.schema.yaml import Mark, Node

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from railyard.ask.tune.settings.trials import Pair
    from railyard.work.scenario.load import Draft
    from railyard.work.scenario.model import TuneSection
    from railyard.work.study.tasks import Workers
    from railyard.work.training.prepare import Prepared
    from railyard.work.training.spec import Layout

    Report = Callable[[str, float], None]

SEARCH = 0.6
"""Share of a tuning that the search is taken for, in what is reported of its progress."""


@dataclass
class Tuned:
    """What came of it.

    Attributes:
        name: Of the scenario.
        engine: On which.
        default_s: Mean step as written, on the draws of the search.
        tuned_s: The same with the settings.
        settings: Dotted keys and values that differ.
        parts: What each of them does.
        tried: Designs that were run, in their order; the first is the scenario as written.
        unseen: By case: a run as written, and with the settings.
        ranks: Accelerators of the job.
        servers: Of the cluster.
        nics: Of a server, in the back-end.
        stopped: Whether Ctrl-C or SIGTERM ended it: the settings are the best so far, and may not have been judged.
    """

    name: str
    engine: str
    default_s: float = 0.0
    tuned_s: float = 0.0
    settings: dict[str, Any] = field(default_factory=dict)
    parts: list[Part] = field(default_factory=list)
    tried: list[Design] = field(default_factory=list)
    unseen: list[tuple[Case, Pair]] = field(default_factory=list)
    ranks: int = 0
    servers: int = 0
    nics: int = 0
    stopped: bool = False

    def take(self, race: Race, best: Design, parts: list[Part]) -> None:
        """Takes over what a search found.

        Args:
            race: The search.
            best: The best design of the search so far.
            parts: Effect of each setting of the best design.
        """
        written_s = race.written_s[: len(best.ratios)]
        self.default_s = statistics.fmean(written_s)
        self.tuned_s = statistics.fmean(ratio * one for ratio, one in zip(best.ratios, written_s, strict=True))
        self.settings, self.parts, self.tried = dict(best.settings), parts, race.designs

    def gains(self, kind: Kind | None = None) -> list[float]:
        """By which share steps are shorter, unseen case by case.

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
    """Tunes one scenario.

    Attributes:
        draft: The scenario.
        engine: Name.
        section: What it may do.
        workers: Where steps run.
        report: Told what is being done, and its share from 0 to 1.
    """

    draft: Draft
    engine: str
    section: TuneSection
    workers: Workers
    report: Report

    def run(self) -> Tuned:
        """All of it; after a signal, the best settings so far.

        Raises:
            InputError: The scenario as written cannot run, or a value to be tried is none of its key.
            Interrupted: It was stopped before the scenario as written had run.
        """
        listed = space_of(self.draft, self.engine)
        found = Tuned(self.draft.title, self.engine)
        job = self.describe(found)
        if self.section.space:
            refuse_wrong(self.draft, listed, self.engine)
        space = {key: [node.plain() for node in nodes] for key, nodes in listed.items()}
        cases = self.cases(job)
        trials = Trials(self.draft, self.engine, self.workers)
        draws = [Case(self.draft.seed + number) for number in range(self.section.seeds)]
        budget = self.section.steps or 2 * len(draws) * sum(map(len, space.values()))
        race = Race(
            space, draws, trials, budget, self.draft.seed, lambda share: self.report("search", SEARCH * min(share, 1.0))
        )
        try:
            best = race.run()
            found.take(race, best, race.parts(best))
            self._judge(found, trials, cases)
        except Interrupted:
            if not race.written_s:
                raise
            found.stopped = True
            if not found.tried:
                found.take(race, race.so_far(), race.known_parts(race.so_far()))
        return found

    def cases(self, job: Prepared) -> list[Case]:
        """What it is judged on; other jobs are drawn for the cluster as it is."""
        training, plan = job.training, job.cluster.plans["back_end"]
        ports = job.cluster.servers * plan.nics
        ground = Ground(
            training.model,
            training.seq_len,
            job.cluster.ranks,
            job.cluster.scale_up_domain,
            ports,
            plan.link_bps,
        )
        jobs = other_jobs(ground, self.section.unseen_jobs, self.draft.seed, lambda keys: can_run(self.draft, keys))
        return unseen_cases(self.draft.seed, self.section, jobs)

    def describe(self, found: Tuned) -> Prepared:
        """The job's size, and its layout where it is to be chosen: it stays what it is for all settings."""
        self.draft, job = settled(self.draft, "flow")
        found.ranks, found.servers = job.cluster.ranks, job.cluster.servers
        found.nics = job.cluster.plans["back_end"].nics
        return job

    def _judge(self, found: Tuned, trials: Trials, cases: Sequence[Case]) -> None:
        """Steps on what the search has not seen, as written and with the settings."""

        def told(share: float) -> None:
            self.report("draws, loads and jobs that it has not seen", SEARCH + (1.0 - SEARCH) * share)

        ways: list[Mapping[str, Any]] = [{}, found.settings] if found.settings else [{}]
        rows: list[Run | str] = [""] * (len(ways) * len(cases))
        try:
            trials.runs([(settings, case) for case in cases for settings in ways], rows, told)
        finally:
            before, after = rows[:: len(ways)], rows[len(ways) - 1 :: len(ways)]
            for case, default, tuned in zip(cases, before, after, strict=True):
                if isinstance(default, Run) and isinstance(tuned, Run):
                    found.unseen.append((case, (default, tuned)))
        if not found.unseen:
            raise InputError(f"nothing of what the settings are judged on can run: {before[0]}", key="tune")


def settled(draft: Draft, engine: str) -> tuple[Draft, Prepared]:
    """A scenario with its fabric's name and its layout written out, and its job, ready to run.

    Args:
        draft: The scenario.
        engine: Name.
    """
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
