"""A step under some settings, on an engine, a draw and a load: what a worker does for `railyard tune`."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from railyard.ask.tune.settings.judging import COLLECTIVES, FLOWS, Times
from railyard.graph import Kind
from railyard.kit.schema.yaml import Mark, from_plain
from railyard.work.scenario import load
from railyard.work.study import study
from railyard.work.training.hash_seeds import redrawn
from railyard.work.training.step_runs import StepRuns

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import NDArray

    from railyard.graph import Record, TaskGraph

STEP = "railyard.ask.tune.settings.work:step_s"
JUDGED = "railyard.ask.tune.settings.work:judged"


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
