"""Work that was recorded or written elsewhere, run again: traces, schedules, connection matrices, task graphs."""

from __future__ import annotations

from typing import TYPE_CHECKING

from railyard.work.study.folder import write_timeline
from railyard.work.study.kind import TRIALS, StudyKind, kinds
from railyard.work.trace.prepare import prepare
from railyard.work.trace.simulate import measure, simulate

if TYPE_CHECKING:
    from railyard.work.study.tasks import Control
    from railyard.work.trace.prepare import PreparedTrace
    from railyard.work.trace.simulate import SimulatedTrace


def _run(job: PreparedTrace, control: Control) -> SimulatedTrace:
    count = control.counted(len(job.seeds) + TRIALS)
    return simulate(job, stop=control.stop, done=count)


TRACE = kinds.add(
    "trace",
    StudyKind(
        name="trace",
        prepare=prepare,
        engine=lambda job: job.engine.name,
        run=_run,
        measure=measure,
        write=lambda folder, simulated, found: write_timeline(folder, simulated.by_trace, found.sampled_ranks),
        parallel=True,
        faulty=True,
    ),
)
