"""Training steps: seeds, a checkpoint, and trials in which one resource is better, on an engine of the registry."""

from __future__ import annotations

from typing import TYPE_CHECKING

from railyard.graph import parquet, perfetto
from railyard.scenario.variants import expand, resolved
from railyard.study.inputs import write_inputs
from railyard.study.kind import StudyKind, kinds
from railyard.study.training.measuring import measure
from railyard.study.training.prepare import prepare
from railyard.study.training.simulate import simulate

if TYPE_CHECKING:
    from pathlib import Path

    from railyard.study.control import Control
    from railyard.study.training.measuring import MeasuredTraining
    from railyard.study.training.prepare import Prepared
    from railyard.study.training.simulate import Simulated

_TRIALS = 10
"""About so many simulations a variant besides those of its seeds, for the progress bar only."""


def _run(job: Prepared, control: Control) -> Simulated:
    count = control.counted(job.variant.draft.scenario.repeat + _TRIALS)
    return simulate(job, stop=control.stop, done=count, workers=control.workers)


def _write(folder: Path, simulated: Simulated, found: MeasuredTraining) -> None:
    """The timeline as Parquet, and a few ranks of it for Perfetto."""
    parquet.write_record(simulated.timeline, folder / "timeline.parquet")
    perfetto.write(simulated.timeline, folder / "trace.json", ranks=found.sampled_ranks)


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
