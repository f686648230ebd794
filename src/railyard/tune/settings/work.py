"""A step under some settings, on an engine, a draw and a load: what a worker does for `railyard tune`."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from railyard.scenario import load
from railyard.schema.yaml import Mark, from_plain
from railyard.study import study
from railyard.study.training.hash_seeds import redrawn
from railyard.study.training.step_runs import StepRuns

if TYPE_CHECKING:
    from collections.abc import Mapping

STEP = "railyard.tune.settings.work:step_s"


def step_s(task: Mapping[str, Any]) -> float:
    """Length of a step, seconds.

    Args:
        task: `values` and `folder` of the scenario, `settings` (dotted keys and values, in order), `engine`, `seed`,
            `load` (share of the back-end that others take).

    Raises:
        InputError: The settings are not possible.
        SimulationError: The step cannot end.
    """
    from threading import Event

    draft = replace(load.from_values(task["values"]), folder=Path(task["folder"]))
    changes = dict(task["settings"])
    if task["load"]:
        changes["cluster.background"] = [{"network": "back_end", "load": task["load"]}]
    changes |= {"tune": None, "compare": {}, "repeat": 1, "seed": task["seed"]}
    mark = Mark("railyard tune")
    draft = draft.changed({key: from_plain(value, mark) for key, value in changes.items()})
    (job,) = study.prepare(draft, engine=task["engine"])
    graph = job.graphs.of(job.training, job.cluster)
    bench = StepRuns(job, job.graphs, Event(), lambda _what: None)
    return float(bench.step(graph, redrawn(job.cluster, task["seed"]), seed=task["seed"]).makespan_ps * 1e-12)
