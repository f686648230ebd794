"""Training on sites or volunteers that step by themselves and meet now and then."""

from __future__ import annotations

from typing import TYPE_CHECKING

from railyard.work.local.measuring import LocalRun, MeasuredSites, measure
from railyard.work.local.prepare import prepare
from railyard.work.local.sync import sync_times
from railyard.work.scenario.variants import expand, resolved
from railyard.work.study.distributed import refuse_engine
from railyard.work.study.folder import write_inputs
from railyard.work.study.kind import StudyKind, kinds

if TYPE_CHECKING:
    from pathlib import Path


def _write(_folder: Path, _run: LocalRun, _found: MeasuredSites) -> None:
    """Everything stands in `result.json`."""


LOCAL = kinds.add(
    "local",
    StudyKind(
        name="local",
        check=refuse_engine,
        expand=expand,
        resolved=resolved,
        prepare=prepare,
        engine=lambda _job: "closed form",
        run=lambda job, _control: LocalRun(job, sync_times(job)),
        measure=measure,
        write=_write,
        write_inputs=write_inputs,
    ),
)
