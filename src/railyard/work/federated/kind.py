"""Federated learning: rounds on clients that keep their data."""

from __future__ import annotations

from typing import TYPE_CHECKING

from railyard.kit.files import write_frame
from railyard.work.federated.measuring import measure
from railyard.work.federated.prepare import prepare
from railyard.work.federated.simulate import simulate
from railyard.work.study.distributed import distributed_kind
from railyard.work.study.kind import kinds

if TYPE_CHECKING:
    from pathlib import Path

    from railyard.work.federated.messages import RoundLog


def _write(folder: Path, log: RoundLog) -> None:
    """Every round as Parquet."""
    import polars as pl

    columns = {"at_s": log.at_s, "took_s": log.took_s, "used": log.used, "left": log.left, "ok": log.ok}
    write_frame(folder / "rounds.parquet", pl.DataFrame(columns))


FEDERATED = kinds.add(
    "federated", distributed_kind("federated", "rounds", prepare=prepare, run=simulate, measure=measure, write=_write)
)
