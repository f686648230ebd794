"""The online loop judged on draws and loads: against the scenario as written, and every fixed setting of its list."""

from __future__ import annotations

import statistics
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from railyard.engine.packet.follow import ROCE
from railyard.errors import InputError
from railyard.study.tasks import Task
from railyard.tune.settings.search import unseen_cases
from railyard.tune.settings.work import STEP

if TYPE_CHECKING:
    from collections.abc import Mapping

    from railyard.scenario.load import Draft
    from railyard.scenario.tune_section import TuneSection
    from railyard.study.tasks import Workers
    from railyard.tune.settings.search import Case, Report

WRITTEN, ONLINE = "as written", "online"


@dataclass(frozen=True)
class Followed:
    """What came of it.

    Attributes:
        name: Of the scenario.
        cases: Draws and loads; nothing was chosen by them.
        steps_s: Steps in seconds, case by case, by what they ran with: `as written`, a fixed setting, `online`.
    """

    name: str
    cases: tuple[Case, ...]
    steps_s: Mapping[str, tuple[float, ...]]

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
        return min((way for way in self.steps_s if way != ONLINE), key=self.mean_s)


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
    """
    cases = tuple(unseen_cases(draft.seed, section))
    ways: dict[str, dict[str, Any]] = {WRITTEN: {}, **fixed(), ONLINE: {"packet.online": True}}
    values, folder = draft.tree.plain(), str(draft.folder.resolve())
    shared = {"values": values, "folder": folder, "engine": "packet"}
    tasks = [
        Task(STEP, {**shared, "settings": settings, "seed": seed, "load": share})
        for settings in ways.values()
        for seed, share in cases
    ]
    steps = [0.0] * len(tasks)
    for count, done in enumerate(workers.run(tasks)):
        if done.error:
            raise InputError(f"a step cannot run: {done.error}", key="tune")
        steps[done.number] = float(done.value)
        report("steps in packets", (count + 1) / len(tasks))
    every = len(cases)
    return Followed(
        draft.title, cases, {way: tuple(steps[at * every : (at + 1) * every]) for at, way in enumerate(ways)}
    )
