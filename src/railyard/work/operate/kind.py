"""Many jobs on one cluster for months: queue, placement, contention, failures, recovery, goodput."""

from __future__ import annotations

from railyard.work.operate import files
from railyard.work.operate.measuring import ENGINE, check_engine, measure, simulate
from railyard.work.operate.prepare import prepare
from railyard.work.study.kind import StudyKind, kinds

OPERATE = kinds.add(
    "operate",
    StudyKind(
        name="operate",
        check=check_engine,
        prepare=lambda variants, _engine: [prepare(variant) for variant in variants],
        engine=lambda _prepared: ENGINE,
        run=simulate,
        measure=measure,
        write=lambda folder, drawn, _played: files.write(drawn.run, folder),
        faulty=True,
        dated=False,
    ),
)
