"""Training steps: seeds, a checkpoint, and trials in which one resource is better, on an engine of the registry."""

from __future__ import annotations

from typing import TYPE_CHECKING

from railyard.scenario.variants import expand, resolved
from railyard.study.inputs import write_inputs
from railyard.study.kind import TRIALS, StudyKind, kinds
from railyard.study.timeline_files import write_timeline
from railyard.study.training.measuring import measure
from railyard.study.training.prepare import prepare
from railyard.study.training.simulate import simulate

if TYPE_CHECKING:
    from pathlib import Path

    from railyard.study.control import Control
    from railyard.study.training.measuring import MeasuredTraining
    from railyard.study.training.prepare import Prepared
    from railyard.study.training.simulate import Simulated


def _run(job: Prepared, control: Control) -> Simulated:
    count = control.counted(job.variant.draft.scenario.repeat + TRIALS)
    return simulate(job, stop=control.stop, done=count, workers=control.workers, searched=control.searched)


def _write(folder: Path, simulated: Simulated, found: MeasuredTraining) -> None:
    write_timeline(folder, simulated.timeline, found.sampled_ranks)


TRAINING = kinds.add(
    "training",
    StudyKind(
        name="training",
        expand=expand,
        resolved=resolved,
        prepare=prepare,
        engine=lambda job: job.engine.name,
        run=_run,
        measure=measure,
        write=_write,
        write_inputs=write_inputs,
        parallel=True,
    ),
)
