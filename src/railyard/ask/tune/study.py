"""The online loop judged on draws and loads: against the scenario as written, and every fixed setting of its list.

One run against one other says little. With marks less likely by a part in 2,000, which nobody could mean, packets of
a crowded network meet otherwise, and a step ends some percent sooner or later. So every case is run several times
(twins), each with another such part, and cases are compared by the means of their twins. As written there are twice as
many: the second half, compared with the first, is what is left of chance.
"""

from __future__ import annotations

import json
import math
import statistics
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from railyard.ask.trials import Ahead, Trials, journal_of
from railyard.ask.tune.search import Tuner, settled
from railyard.ask.tune.space import unseen_cases, value_at
from railyard.ask.tune.trials import STEP, SettingsTrials, curves, tail_gains
from railyard.collective import tuner
from railyard.engine.packet.fabrics import ROCE, following
from railyard.kit.errors import InputError, Interrupted
from railyard.measure.result.choices import TuneAnswer
from railyard.work.scenario import load
from railyard.work.scenario.model import TuneSection
from railyard.work.study.folder import Journal
from railyard.work.study.provenance import version

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from pathlib import Path

    from railyard.ask.trials import Report
    from railyard.ask.tune.search import SettingsTrial, TuneResult
    from railyard.ask.tune.space import Kind, TuneCase
    from railyard.work.scenario.load import Draft
    from railyard.work.study.tasks import Workers
    from railyard.work.training.prepare import Prepared


def environment(tuned: TuneResult) -> str:
    """Lines of a shell script; what NCCL has no variable for is a comment."""
    lines = ["# NCCL 2.24 or newer, from railyard tune"]
    settings, fixed = tuned.settings, _fixed(tuned)
    if "qps" in settings:
        lines += [f"export NCCL_IB_QPS_PER_CONNECTION={settings['qps']}", "export NCCL_IB_SPLIT_DATA_ON_QPS=0"]
    for name, value in fixed.variables():
        lines.append(f"export {name}={value}" if value.isdigit() else f'export {name}="{value}"')
    lines += [f"# collectives.{table} {key}: {word}: not NCCL's to set" for table, key, word in fixed.untold()]
    for key, value in settings.items():
        if key.startswith(("packet.", "cluster.", "workload.")) or key == "collectives.selector":
            lines.append(f"# {key}: {value}: not NCCL's to set")
    return "\n".join(lines) + "\n"


def tuner_table(tuned: TuneResult) -> str:
    """Rows of the example tuner's table: one a collective that is fixed."""
    return tuner.tuner_table(_fixed(tuned).tuner_rows(tuned.servers, tuned.ranks))


def _fixed(tuned: TuneResult) -> tuner.FixedChoices:
    settings = tuned.settings
    each = settings.get("collectives.connections")
    return tuner.FixedChoices(
        algorithm={key: str(word) for key, word in settings.get("collectives.algorithm", {}).items()},
        protocol={key: str(word) for key, word in settings.get("collectives.protocol", {}).items()},
        connections=None if each is None else int(each),
        pxn=settings.get("collectives.pxn") is not False,
        nics=tuned.nics,
    )


CONFIDENCE = 0.9
"""Confidence of the interval of `Tuned.gain`."""


def answer_of(found: TuneResult, written: Mapping[str, Any]) -> TuneAnswer:
    """The document."""
    plain = {
        "format": "railyard-tune/1",
        "name": found.name,
        "version": version(),
        "engine": found.engine,
        "stopped": found.stopped,
        "settings": found.settings,
        "recommended": found.settings if found.sure else {},
        "changes": [
            {
                "key": key,
                "before": value_at(written, key),
                "after": found.settings[key],
                "alone": alone,
                "without": without,
            }
            for key, (alone, without) in found.parts.items()
        ],
        "seen": {"default_s": found.default_s, "tuned_s": found.tuned_s, "gain": 1.0 - found.tuned_s / found.default_s},
        "unseen": _unseen(found) if len(found.unseen) > 1 else None,
        "trials": [_trial(design, kept=design.settings == found.settings) for design in found.tried],
        "environment": environment(found),
        "tuner": tuner_table(found),
    }
    return TuneAnswer.model_validate_json(json.dumps(plain, ensure_ascii=False, allow_nan=False))


def _unseen(found: TuneResult) -> dict[str, Any]:
    mean, low, high = found.gain()
    pairs = [pair for _, pair in found.unseen]
    return {
        "gain": mean,
        "low": low,
        "high": high,
        "confidence": CONFIDENCE,
        "kinds": [_kind(found, kind) for kind in found.kinds],
        "cases": [
            {
                "kind": case.kind,
                "seed": case.seed,
                "load": case.load,
                "job": case.words,
                "default_s": default.step_s,
                "tuned_s": tuned.step_s,
            }
            for case, (default, tuned) in found.unseen
        ],
        "tails": [one.plain() for one in tail_gains(pairs)],
        "curves": [
            {
                "what": what,
                "before_count": sum(default.times[what].count for default, _ in pairs),
                "after_count": sum(tuned.times[what].count for _, tuned in pairs),
                "before": before,
                "after": after,
            }
            for what, (before, after) in curves(pairs).items()
        ],
        "slice": max(run.slice for pair in pairs for run in pair),
    }


def _kind(found: TuneResult, kind: Kind) -> dict[str, Any]:
    mean, low, high = found.gain(kind)
    ends = (low, high) if math.isfinite(low) else (None, None)
    return {"kind": kind, "count": len(found.gains(kind)), "gain": mean, "low": ends[0], "high": ends[1]}


def _trial(design: SettingsTrial, *, kept: bool) -> dict[str, Any]:
    change = design.mean - 1.0 if design.ratios and not design.error else None
    return {
        "settings": design.settings,
        "draws": len(design.ratios),
        "change": change,
        "error": design.error,
        "kept": kept,
    }


ENGINES = ("flow", "packet")
"""Engines on which settings have an effect."""


def tune(
    draft: Draft, *, engine: str | None, pool: Callable[[], Workers], report: Report, out: Path | None = None
) -> tuple[TuneResult, TuneAnswer]:
    """Settings that make a step shorter, and the same as a document.

    Args:
        draft: The scenario; its `tune` says what is tried.
        engine: In place of the scenario's.
        pool: Makes what trials run on; closed at the end.
        report: Takes what is being done, and its share from 0 to 1.
        out: Where trials are kept, so that a tuning that was stopped goes on from there.

    Raises:
        InputError: The scenario is wrong, or cannot run as written.
    """
    name = engine or draft.scenario.engine
    if name not in ENGINES:
        key = "--engine" if engine else "engine"
        problem = InputError("settings are tried on an engine that sees them", key=key, found=name, allowed=ENGINES)
        raise problem if engine else draft.blame(problem)
    journal, workers = journal_of(draft, "tune", out), pool()
    try:
        found = Tuner(draft, name, draft.scenario.tune or TuneSection(), workers, report, journal).run()
    finally:
        workers.close()
        journal.close()
    return found, answer_of(found, load.dump(draft.scenario))


STEPS = "steps in packets"
WRITTEN, AGAIN, ONLINE = "as written", "as written, again", "online"

_PART = 1 / 2000
"""Difference of the probability of marks from one twin to the next."""


@dataclass(frozen=True)
class OnlineResult:
    """Result of settings that follow the run.

    Attributes:
        cases: Draws and loads; nothing was chosen by them.
        twins_s: Steps in seconds, of each case its twins, by what they ran with: `as written`, the same again, a fixed
            setting, `online`.
        stopped: Whether Ctrl-C or SIGTERM ended it: the cases are those that had run by then.
    """

    name: str
    cases: tuple[TuneCase, ...]
    twins_s: Mapping[str, tuple[tuple[float, ...], ...]]
    stopped: bool = False

    @property
    def steps_s(self) -> Mapping[str, tuple[float, ...]]:
        """Means of twins, case by case."""
        return {way: tuple(map(statistics.fmean, cases)) for way, cases in self.twins_s.items()}

    def worst_run(self, way: str) -> float:
        """Largest share by which a run was longer than the same case as written."""
        pairs = zip(self.twins_s[way], self.twins_s[WRITTEN], strict=True)
        return max(own / other for twins, others in pairs for own, other in zip(twins, others, strict=True)) - 1.0

    def worst_case(self, way: str) -> float:
        """Largest share by which a case was longer than as written, by the means of its twins."""
        return max(own / other for own, other in zip(self.steps_s[way], self.steps_s[WRITTEN], strict=True)) - 1.0

    def mean_s(self, way: str) -> float:
        """Mean step."""
        return statistics.fmean(self.steps_s[way])

    @property
    def gains(self) -> list[float]:
        """Share by which steps are shorter than as written, for each case."""
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


def follow(draft: Draft, section: TuneSection, workers: Workers, report: Report) -> OnlineResult:
    """Runs a scenario in packets on every case: as written, with each fixed setting, and with the loop.

    Raises:
        InputError: One of them cannot run.
        Interrupted: It was stopped before every way had run on a case.
    """
    cases = tuple(unseen_cases(draft.seed, section))
    ways: dict[str, dict[str, Any]] = {WRITTEN: {}, AGAIN: {}, **fixed(), ONLINE: {"packet.online": True}}
    draft, job = settled(draft, "packet")
    most = _marked(job)
    asked = [
        ({**settings, **part}, case)
        for case in cases
        for way, settings in ways.items()
        for part in _twins(most, section.twins if way == AGAIN else 0, section.twins)
    ]
    ahead = Ahead([(STEPS, len(asked))])
    ahead.step()
    trials = SettingsTrials(draft, "packet", Trials(workers, Journal(None), ahead, report))
    steps = [0.0] * len(asked)
    stopped = False
    try:
        for one in trials.run(asked, STEP, STEPS):
            if one.error:
                raise draft.blame(InputError(f"a step cannot run: {one.error}", key="workload"))
            steps[one.at] = float(one.value)
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
    return OnlineResult(draft.title, tuple(case for case, _ in ran), twins_s, stopped)


def _marked(job: Prepared) -> float:
    """The probability of marks that the scenario has at the upper threshold.

    Raises:
        InputError: Nothing in it could follow the run.
    """
    settings = job.engine.settings  # type: ignore[attr-defined]  # the packet engine
    following(settings)
    return float(settings.marking_most)


def _twins(most: float, first: int, count: int) -> list[dict[str, Any]]:
    """Differences of so many twins, from number `first` on."""
    return [{"packet.set.marking_most": f"{most * (1.0 - _PART * (first + twin)):.9g}"} for twin in range(count)]
