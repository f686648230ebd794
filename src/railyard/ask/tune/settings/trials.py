"""Steps under settings: run once each, on any workers, and known from then on."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from railyard.ask.tune.settings.judging import COLLECTIVES, FLOWS, Run, Times
from railyard.graph import Kind
from railyard.kit.schema.yaml import Mark, from_plain
from railyard.work.scenario import load
from railyard.work.study import study
from railyard.work.study.journal import Journal, key_of
from railyard.work.study.provenance import version
from railyard.work.study.tasks import Task
from railyard.work.training.graphs import redrawn
from railyard.work.training.step_runs import StepRuns

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from numpy.typing import NDArray

    from railyard.ask.tune.settings.cases import Case
    from railyard.graph import Record, TaskGraph
    from railyard.work.scenario.load import Draft
    from railyard.work.study.tasks import Workers

    Asked = tuple[Mapping[str, Any], Case]


STEP = "railyard.ask.tune.settings.trials:step_s"
JUDGED = "railyard.ask.tune.settings.trials:judged"


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


@dataclass
class Trials:
    """Runs steps of one scenario.

    Attributes:
        draft: The scenario.
        engine: Name.
        workers: Where steps run.
        journal: Steps that are known.
        count: Steps that were run.
    """

    draft: Draft
    engine: str
    workers: Workers
    journal: Journal = field(default_factory=lambda: Journal(None))
    count: int = 0

    def steps(self, asked: Sequence[Asked]) -> list[float | str]:
        """Steps in seconds, or why one cannot be.

        Args:
            asked: Settings (dotted keys and values) and the case that each runs under.
        """
        tasks = [self._task(*one) for one in asked]
        keys = [key_of(version(), task) for task in tasks]
        left = list({key: at for at, key in enumerate(keys) if key not in self.journal.known}.values())
        self.count += len(left)
        errors: dict[str, str] = {}
        for done in self.workers.run([Task(STEP, tasks[at]) for at in left]):
            key = keys[left[done.number]]
            if done.error:
                errors[key] = done.error
            else:
                self.journal.add(key, done.value)
        return [errors[key] if key in errors else float(self.journal.known[key]) for key in keys]

    def runs(self, asked: Sequence[Asked], found: list[Run | str], told: Callable[[float], None]) -> None:
        """Steps with the tails of what was sent in them, or why one cannot be.

        Args:
            asked: Settings and cases.
            found: Filled as they end, in the order of `asked`.
            told: Of the share that is done.
        """
        for count, done in enumerate(self.workers.run([Task(JUDGED, self._task(*one)) for one in asked])):
            told(count / len(asked))
            found[done.number] = done.error or Run.read(done.value)

    def _task(self, settings: Mapping[str, Any], case: Case) -> dict[str, Any]:
        return {
            "values": self.draft.tree.plain(),
            "folder": str(self.draft.folder.resolve()),
            "settings": {**case.job, **settings},
            "engine": self.engine,
            "seed": case.seed,
            "load": case.load,
        }
