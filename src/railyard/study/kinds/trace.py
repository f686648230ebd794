"""Work that was recorded or written elsewhere, run again: traces, schedules, connection matrices, task graphs."""

from __future__ import annotations

from typing import TYPE_CHECKING

from railyard.graph import parquet, perfetto
from railyard.scenario.variants import expand, resolved
from railyard.study.inputs import write_inputs
from railyard.study.kind import StudyKind, kinds
from railyard.study.trace.measuring import measure
from railyard.study.trace.prepare import prepare
from railyard.study.trace.simulate import simulate

if TYPE_CHECKING:
    from pathlib import Path

    from railyard.study.control import Control
    from railyard.study.trace.measuring import MeasuredTrace
    from railyard.study.trace.prepare import PreparedTrace
    from railyard.study.trace.simulate import SimulatedTrace

_TRIALS = 10
"""About so many simulations a variant besides those of its seeds, for the progress bar only."""


def _run(job: PreparedTrace, control: Control) -> SimulatedTrace:
    count = control.counted(len(job.seeds) + _TRIALS)
    return simulate(job, stop=control.stop, done=count)


def _write(folder: Path, simulated: SimulatedTrace, found: MeasuredTrace) -> None:
    """The run as Parquet, and a few of the trace's ranks for Perfetto."""
    parquet.write_record(simulated.by_trace, folder / "timeline.parquet")
    perfetto.write(simulated.by_trace, folder / "trace.json", ranks=found.sampled_ranks)


TRACE = kinds.add(
    "trace",
    StudyKind(
        name="trace",
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
