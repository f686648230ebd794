"""The online loop judged on draws and loads: against the scenario as written, and every fixed setting of its list.

One run beside one other says little. With marks less likely by a part in 2,000, which nobody could mean, packets of
a crowded network meet otherwise, and a step ends some percent sooner or later. So every case is run several times
(twins), each with another such part, and cases are compared by the means of their twins. As written there are twice as
many: the second half, compared with the first, is what is left of chance.
"""

from __future__ import annotations

import statistics
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from railyard.ask.tune.settings.search import settled
from railyard.ask.tune.settings.space import unseen_cases
from railyard.ask.tune.settings.trials import STEP
from railyard.engine.packet.fabrics import ROCE, following
from railyard.kit.errors import InputError, Interrupted
from railyard.work.study.tasks import Task

if TYPE_CHECKING:
    from collections.abc import Mapping

    from railyard.ask.tune.settings.search import Report
    from railyard.ask.tune.settings.space import Case
    from railyard.work.scenario.load import Draft
    from railyard.work.scenario.model import TuneSection
    from railyard.work.study.tasks import Workers
    from railyard.work.training.prepare import Prepared

WRITTEN, AGAIN, ONLINE = "as written", "as written, again", "online"

_PART = 1 / 2000
"""Of the probability of marks, from one twin to the next."""


@dataclass(frozen=True)
class Followed:
    """What came of it.

    Attributes:
        name: Of the scenario.
        cases: Draws and loads; nothing was chosen by them.
        twins_s: Steps in seconds, of each case its twins, by what they ran with: `as written`, the same again, a fixed
            setting, `online`.
        stopped: Whether Ctrl-C or SIGTERM ended it: the cases are those that had run by then.
    """

    name: str
    cases: tuple[Case, ...]
    twins_s: Mapping[str, tuple[tuple[float, ...], ...]]
    stopped: bool = False

    @property
    def steps_s(self) -> Mapping[str, tuple[float, ...]]:
        """Means of twins, case by case."""
        return {way: tuple(map(statistics.fmean, cases)) for way, cases in self.twins_s.items()}

    def worst_run(self, way: str) -> float:
        """By which share a run was longer than one as written of the same case, at most."""
        pairs = zip(self.twins_s[way], self.twins_s[WRITTEN], strict=True)
        return max(own / other for twins, others in pairs for own, other in zip(twins, others, strict=True)) - 1.0

    def worst_case(self, way: str) -> float:
        """By which share a case was longer than as written, at most: by the means of its twins."""
        return max(own / other for own, other in zip(self.steps_s[way], self.steps_s[WRITTEN], strict=True)) - 1.0

    def mean_s(self, way: str) -> float:
        """Mean step."""
        return statistics.fmean(self.steps_s[way])

    @property
    def gains(self) -> list[float]:
        """By which share steps are shorter than as written, case by case."""
        return [1.0 - own / other for own, other in zip(self.steps_s[ONLINE], self.steps_s[WRITTEN], strict=True)]

    @property
    def best_fixed(self) -> str:
        """The fixed setting with the shortest mean step; as written is one."""
        return min((way for way in self.twins_s if way not in (ONLINE, AGAIN)), key=self.mean_s)


def fixed() -> dict[str, dict[str, Any]]:
    """The settings of the list beyond the first, as dotted keys, by what they are called."""
    found = {}
    for one in ROCE[1:]:
        gbps, wait_us = one["dcqcn_additive_bps"] / 1e9, one["dcqcn_increase_interval_ps"] / 1e6
        words = {"packet.set.dcqcn_additive": f"{gbps:g} Gb/s", "packet.set.dcqcn_increase_interval": f"{wait_us:g} us"}
        found[f"fixed {gbps:g} Gb/s every {wait_us:g} us"] = words
    return found


def follow(draft: Draft, section: TuneSection, workers: Workers, report: Report) -> Followed:
    """Runs a scenario in packets on every case: as written, with each fixed setting, and with the loop.

    Raises:
        InputError: One of them cannot run.
        Interrupted: It was stopped before every way had run on a case.
    """
    cases = tuple(unseen_cases(draft.seed, section))
    ways: dict[str, dict[str, Any]] = {WRITTEN: {}, AGAIN: {}, **fixed(), ONLINE: {"packet.online": True}}
    draft, job = settled(draft, "packet")
    most = _marked(job)
    shared = {"values": draft.tree.plain(), "folder": str(draft.folder.resolve()), "engine": "packet"}
    tasks = [
        Task(STEP, {**shared, "settings": {**settings, **part}, "seed": case.seed, "load": case.load})
        for case in cases
        for way, settings in ways.items()
        for part in _twins(most, section.twins if way == AGAIN else 0, section.twins)
    ]
    steps = [0.0] * len(tasks)
    stopped = False
    try:
        for count, done in enumerate(workers.run(tasks)):
            if done.error:
                raise InputError(f"a step cannot run: {done.error}", key="tune")
            steps[done.number] = float(done.value)
            report("steps in packets", (count + 1) / len(tasks))
    except Interrupted:
        stopped = True
    each = len(ways) * section.twins
    rows = [steps[each * at : each * (at + 1)] for at in range(len(cases))]
    ran = [(case, row) for case, row in zip(cases, rows, strict=True) if all(row)]
    if not ran:
        raise Interrupted
    twins_s = {
        way: tuple(tuple(row[section.twins * at : section.twins * (at + 1)]) for _, row in ran)
        for at, way in enumerate(ways)
    }
    return Followed(draft.title, tuple(case for case, _ in ran), twins_s, stopped)


def _marked(job: Prepared) -> float:
    """The probability of marks that the scenario has at the upper threshold.

    Raises:
        InputError: Nothing in it could follow the run.
    """
    settings = job.engine.settings  # type: ignore[attr-defined]  # the packet engine
    following(settings)
    return float(settings.marking_most)


def _twins(most: float, first: int, count: int) -> list[dict[str, Any]]:
    """What sets so many twins apart, from number `first` on."""
    return [{"packet.set.marking_most": f"{most * (1.0 - _PART * (first + twin)):.9g}"} for twin in range(count)]
