"""A model that answers in a cloud, at sites at the edge, or on the device."""

from __future__ import annotations

from typing import TYPE_CHECKING

from railyard.kit.files import write_frame
from railyard.work.edge.measuring import measure
from railyard.work.edge.prepare import prepare
from railyard.work.edge.simulate import simulate
from railyard.work.study.distributed import distributed_kind
from railyard.work.study.kind import kinds

if TYPE_CHECKING:
    from pathlib import Path

    from railyard.work.edge.simulate import Answers


def _write(folder: Path, answers: tuple[Answers, ...]) -> None:
    """Every request at every place as Parquet."""
    import polars as pl

    tables = [
        pl.DataFrame(
            {"place": [one.name] * len(one.e2e_s), "ttft_s": one.ttft_s, "e2e_s": one.e2e_s, "done": one.answered},
            schema_overrides={"place": pl.String},  # a place may have no answers
        )
        for one in answers
    ]
    write_frame(folder / "answers.parquet", pl.concat(tables))


EDGE = kinds.add(
    "edge", distributed_kind("edge", "serving", prepare=prepare, run=simulate, measure=measure, write=_write)
)
