"""Federated learning: rounds on clients that keep their data."""

from __future__ import annotations

from typing import TYPE_CHECKING

from railyard.kit.files import write_frame
from railyard.work.federated.measuring import measure
from railyard.work.federated.prepare import prepare
from railyard.work.federated.simulate import simulate
from railyard.work.scenario.variants import expand, resolved
from railyard.work.study.distributed import refuse_engine
from railyard.work.study.folder import write_inputs
from railyard.work.study.kind import StudyKind, kinds

if TYPE_CHECKING:
    from pathlib import Path

    from railyard.work.federated.measuring import MeasuredLearning
    from railyard.work.federated.simulate import Learned


def _write(folder: Path, learned: Learned, _found: MeasuredLearning) -> None:
    """Every round as Parquet."""
    import polars as pl

    log = learned.log
    columns = {"at_s": log.at_s, "took_s": log.took_s, "used": log.used, "left": log.left, "ok": log.ok}
    write_frame(folder / "rounds.parquet", pl.DataFrame(columns))


FEDERATED = kinds.add(
    "federated",
    StudyKind(
        name="federated",
        check=refuse_engine,
        expand=expand,
        resolved=resolved,
        prepare=prepare,
        engine=lambda _job: "rounds",
        run=simulate,
        measure=measure,
        write=_write,
        write_inputs=write_inputs,
    ),
)
