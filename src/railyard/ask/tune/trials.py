"""Steps under settings: run once each, on any workers, and known from then on."""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from railyard.graph import Kind
from railyard.kit.quantities import interval, percentile
from railyard.kit.schema.yaml import Mark, from_plain
from railyard.measure.result.choices import TailChange
from railyard.work.scenario import load
from railyard.work.study import study
from railyard.work.study.folder import key_of
from railyard.work.study.provenance import version
from railyard.work.study.tasks import Task
from railyard.work.training.graphs import redrawn
from railyard.work.training.step_runs import StepRuns

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from numpy.typing import NDArray

    from railyard.ask.trials import TrialResult, Trials
    from railyard.ask.tune.space import TuneCase
    from railyard.graph import Record, TaskGraph
    from railyard.work.scenario.load import Draft

    Asked = tuple[Mapping[str, Any], TuneCase]


COLLECTIVES, FLOWS = "collectives", "flows"
"""What is timed: collectives from when the last rank has come to them to their end, the same before and after; and on
packets flows between NICs until the sender has the last acknowledgement, whose number and size settings may change."""

SHARES: tuple[float, ...] = tuple(
    np.concatenate(
        [np.arange(1, 100) / 100, 1 - np.arange(9, 0, -1) / 1e3, 1 - np.arange(9, 0, -1) / 1e4, [1.0]]
    ).tolist()
)
"""Shares of which quantiles are kept."""

TAILS: Mapping[str, float] = {"p50": 0.5, "p99": 0.99, "p99.9": 0.999, "slowest": 1.0}
"""Quantiles that are compared."""

_FEWEST = {"p99": 100, "p99.9": 1000}
"""Fewest samples for a quantile; of fewer the slowest is taken."""


@dataclass(frozen=True)
class Times:
    """Durations in one run.

    Attributes:
        quantiles_us: At `SHARES`, microseconds.
    """

    count: int
    quantiles_us: tuple[float, ...]

    @classmethod
    def of(cls, values_us: NDArray[np.float64]) -> Times:
        """Summarizes values in microseconds, at least one."""
        ordered = np.sort(values_us)
        return cls(len(ordered), tuple(float(percentile(ordered, share)) for share in SHARES))

    def at(self, share: float) -> float:
        """A quantile that is kept."""
        return self.quantiles_us[SHARES.index(share)]

    def plain(self) -> dict[str, Any]:
        """Plain values."""
        return asdict(self)


@dataclass(frozen=True)
class TimedStep:
    """A step of a draw and a load.

    Attributes:
        slice: Of how many bytes one was simulated; times of flows are of such a slice.
    """

    step_s: float
    slice: float
    times: Mapping[str, Times]

    @classmethod
    def read(cls, plain: Mapping[str, Any]) -> TimedStep:
        """Reads what a worker gave."""
        times = {what: Times(one["count"], tuple(one["quantiles_us"])) for what, one in plain["times"].items()}
        return cls(float(plain["step_s"]), float(plain["slice"]), times)


Pair = tuple[TimedStep, TimedStep]
"""Times as written, and with the settings."""


def tail_gains(pairs: Sequence[Pair]) -> list[TailChange]:
    """Every quantile of which there are enough, of everything that all runs timed."""
    found = []
    for what in _timed(pairs):
        fewest = min(run.times[what].count for pair in pairs for run in pair)
        for tail, share in TAILS.items():
            if fewest < _FEWEST.get(tail, 0):
                continue
            before, after = (np.array([pair[at].times[what].at(share) for pair in pairs]) for at in (0, 1))
            if not (before > 0).all() or not (after > 0).all():
                continue
            gain, low, high = _shorter(before, after)
            row = {"what": what, "tail": tail, "before_us": _middle(before), "after_us": _middle(after)}
            found.append(TailChange.model_validate({**row, "gain": gain, "low": low, "high": high}))
    return found


def _shorter(before: NDArray[np.float64], after: NDArray[np.float64]) -> tuple[float, float, float]:
    """Mean of the logarithms of ratios, so that what doubles and what halves cancel."""
    mean, low, high = interval(np.log(after / before).tolist())
    return -math.expm1(mean), -math.expm1(high) if high < math.inf else -math.inf, -math.expm1(low)


def _middle(values: NDArray[np.float64]) -> float:
    return float(np.exp(np.log(values).mean()))


def _timed(pairs: Sequence[Pair]) -> list[str]:
    return [what for what in (COLLECTIVES, FLOWS) if pairs and all(what in run.times for pair in pairs for run in pair)]


Curve = tuple[tuple[float, float], ...]


def curves(pairs: Sequence[Pair]) -> dict[str, tuple[Curve, Curve]]:
    """Curves of everything timed, as written and with the settings: points (us, share that took longer)."""
    return {what: (_pooled(pairs, what, 0), _pooled(pairs, what, 1)) for what in _timed(pairs)}


def _pooled(pairs: Sequence[Pair], what: str, at: int) -> Curve:
    """Share of all that took longer: every kept quantile stands for those between it and the one below."""
    runs = [pair[at].times[what] for pair in pairs]
    steps = np.diff(np.array((0.0, *SHARES)))
    times, place = np.unique(np.concatenate([run.quantiles_us for run in runs]), return_inverse=True)
    counts = np.bincount(place, np.concatenate([steps * run.count for run in runs]))
    longer = np.maximum(1.0 - np.cumsum(counts) / counts.sum(), 0.0)
    kept = np.searchsorted(-longer, -(1.0 - np.array((0.0, *SHARES)))).clip(0, len(times) - 1)
    return tuple((float(times[row]), float(longer[row])) for row in np.unique(kept).tolist())


SEARCHING, JUDGING = "search", "draws, loads and jobs that it has not seen"
STEP = "railyard.ask.tune.trials:step_s"
JUDGED = "railyard.ask.tune.trials:judged"


def step_s(task: Mapping[str, Any]) -> float:
    """Length of a step, seconds.

    Args:
        task: `values` and `folder` of the scenario, `settings` (dotted keys and values, in order), `engine`, `seed`,
            `load` (share of the back-end that others take).

    Raises:
        InputError: The settings are not possible.
        SimulationError: The step cannot end.
    """
    _, record = _step(task)
    return float(record.makespan_ps * 1e-12)


def judged(task: Mapping[str, Any]) -> dict[str, Any]:
    """A step and how long its communications took, plain values: the fields of `judging.Run`.

    Raises:
        InputError: The settings are not possible.
        SimulationError: The step cannot end.
    """
    graph, record = _step(task)
    times = {COLLECTIVES: _us(record, np.flatnonzero((graph.kind == Kind.COLLECTIVE) & record.ended))}
    flows = record.parts.get("flows")
    if flows is not None:
        times[FLOWS] = _us(flows, np.flatnonzero(flows.ended))
    found = {what: Times.of(values).plain() for what, values in times.items() if len(values)}
    slice_ = float(record.meta.get("slice", 1.0)) if flows is not None else 1.0
    return {"step_s": float(record.makespan_ps * 1e-12), "slice": slice_, "times": found}


def _us(record: Record, rows: NDArray[np.int64]) -> NDArray[np.float64]:
    return np.asarray(record.end_ps[rows] - record.start_ps[rows], np.float64) * 1e-6


def _step(task: Mapping[str, Any]) -> tuple[TaskGraph, Record]:
    from threading import Event

    draft = replace(load.from_values(task["values"]), folder=Path(task["folder"]))
    changes = dict(task["settings"])
    if task["load"]:
        changes["cluster.background"] = [{"network": "back_end", "load": task["load"]}]
    changes |= {"tune": None, "compare": {}, "repeat": 1, "seed": task["seed"], "packet.samples": 0}
    mark = Mark("railyard tune")
    draft = draft.changed({key: from_plain(value, mark) for key, value in changes.items()})
    (job,) = study.prepare(draft, engine=task["engine"])
    graph = job.graphs.of(job.training, job.cluster)
    bench = StepRuns(job, job.graphs, Event(), lambda _what: None)
    return graph, bench.step(graph, redrawn(job.cluster, task["seed"]), seed=task["seed"])


@dataclass(frozen=True)
class SettingsTrials:
    """Steps of one scenario under settings."""

    draft: Draft
    engine: str
    trials: Trials

    @property
    def count(self) -> int:
        """Steps that were asked for."""
        return len(self.trials.taken)

    def run(self, asked: Sequence[Asked], function: str, kind: str) -> Iterator[TrialResult]:
        """Steps as they end, by what `function` says of them: of settings (dotted keys and values) and cases."""
        shared = {"values": self.draft.tree.plain(), "folder": str(self.draft.folder.resolve()), "engine": self.engine}
        tasks = [
            Task(function, {**shared, "settings": {**case.job, **settings}, "seed": case.seed, "load": case.load})
            for settings, case in asked
        ]
        keys = [key_of(version(), task.function, task.argument) for task in tasks]
        return self.trials.run(keys, lambda some: tasks[some[0]], kind)

    def steps(self, asked: Sequence[Asked]) -> list[float | str]:
        """Steps in seconds, or why one cannot be."""
        found = {one.at: one.error or float(one.value) for one in self.run(asked, STEP, SEARCHING)}
        return [found[at] for at in range(len(asked))]
