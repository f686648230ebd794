"""Several jobs on one cluster: what each costs the others, on any engine of the registry."""

from __future__ import annotations

from typing import TYPE_CHECKING

from railyard.graph import parquet
from railyard.work.jobs.measuring import Compared, measure
from railyard.work.jobs.prepare import prepare
from railyard.work.jobs.simulate import JobSetRuns
from railyard.work.study.kind import MeasuredVariant, StudyKind, kinds

if TYPE_CHECKING:
    from pathlib import Path

    from railyard.measure.result.variants import JobsVariant
    from railyard.work.jobs.prepare import SharedCluster
    from railyard.work.study.tasks import Control


def _run(shared: SharedCluster, control: Control) -> Compared:
    every = [tenant.number for tenant in shared.tenants]
    bench = JobSetRuns(shared, control.stop, control.counted(2 * len(every) + 1))
    bench.plan()
    together = bench.of(every)
    alone = {number: bench.of([number]) for number in every}
    without = {number: bench.of([one for one in every if one != number]) for number in every if len(every) > 1}
    free = {tenant.number: bench.unlimited(tenant.number) for tenant in shared.tenants if tenant.step is not None}
    return Compared(shared, alone, together, without, free)


def _write(folder: Path, compared: Compared, _found: MeasuredVariant[JobsVariant]) -> None:
    """What happened on the fabric while all jobs ran, as Parquet."""
    if compared.together.record is not None:
        parquet.write_record(compared.together.record, folder / "timeline.parquet")


JOBS = kinds.add(
    "jobs",
    StudyKind(
        name="jobs",
        prepare=prepare,
        engine=lambda shared: shared.engine.name,
        run=_run,
        measure=measure,
        write=_write,
        parallel=True,
        faulty=True,
    ),
)
