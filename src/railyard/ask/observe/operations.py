"""Tables of measured operations of hybrid-parallel training: a row an operation of a rank in a step.

Columns: `dp_rank`, `stage`, `rank`, `step`, `optype`, `start_ts` and `duration` (s), `seq_id` (which of its kind in the
step), `mc` and `gmc` (model chunk of the stage, and of the model), `mb_id`: the form in which ByteDance published
traces of "Understanding Stragglers in Large Model Training Using What-if Analysis" (OSDI 2025, Apache-2.0).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from railyard.kit.errors import InputError, did_you_mean
from railyard.kit.files import read_frame

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    Times = NDArray[np.float64]
    from pathlib import Path

    import polars as pl


@dataclass(frozen=True)
class OperationGroup:
    """Operations that wait for one another.

    Attributes:
        members: Numbers of operations; one alone for a computation.
        moves: Whether it is a communication, which begins when the last member has started.
        across: Whether it also waits for the same operations of all data-parallel ranks.
    """

    members: tuple[int, ...]
    moves: bool
    across: bool


@dataclass(frozen=True)
class Dependencies:
    """What waits for what, the same in every step and for every data-parallel rank.

    Attributes:
        waits: Of each operation, the operations that must have ended.
    """

    waits: Sequence[Sequence[int]]
    groups: Sequence[OperationGroup]

    def ordered(self) -> list[OperationGroup]:
        """The groups in an order in which none comes before what its members wait for.

        Raises:
            InputError: They wait for each other in a cycle.
        """
        group_of = {member: number for number, group in enumerate(self.groups) for member in group.members}
        before = [{group_of[op] for member in group.members for op in self.waits[member]} for group in self.groups]
        after: list[list[int]] = [[] for _ in self.groups]
        for number, earlier in enumerate(before):
            for one in earlier:
                after[one].append(number)
        open_ = [len(earlier) for earlier in before]
        ready = [number for number, count in enumerate(open_) if count == 0]
        for number in ready:  # grows as it is read
            for later in after[number]:
                open_[later] -= 1
                if open_[later] == 0:
                    ready.append(later)
        if len(ready) < len(self.groups):
            raise InputError("operations of the trace wait for each other in a cycle")
        return [self.groups[number] for number in ready]


@dataclass(frozen=True)
class Replayed:
    """Times of operations; float64[operations, steps, data-parallel ranks], seconds from the start of the step."""

    start: Times
    end: Times

    @property
    def step_s(self) -> Times:
        """float64[steps], how long each step takes."""
        return np.asarray(self.end.max(axis=(0, 2)) - self.start.min(axis=(0, 2)))


def replay(order: Sequence[OperationGroup], waits: Sequence[Sequence[int]], duration: Times) -> Replayed:
    """Runs the operations.

    Args:
        order: See `Dependencies.ordered`.
        waits: See `Dependencies.waits`.
        duration: float64[operations, steps, data-parallel ranks], s; of a communication, its transfer time.
    """
    start, end = np.zeros_like(duration), np.zeros_like(duration)
    for group in order:
        members = list(group.members)
        for member in members:
            if waits[member]:
                start[member] = end[list(waits[member])].max(axis=0)
        begins = start[members]
        if group.moves:
            begins = begins.max(axis=0)
            if group.across:
                begins = begins.max(axis=1, keepdims=True)
        end[members] = begins + duration[members]
    return Replayed(start, end)


FORWARD, BACKWARD = "forward-compute", "backward-compute"
SENDS = ("forward-send", "backward-send")
RECEIVES = ("forward-recv", "backward-recv")
POINT_TO_POINT = ("forward-send", "forward-recv", "backward-send", "backward-recv")
GATHER, SCATTER, SEPARATE = "params-all-gather", "grads-reduce-scatter", "separate-grads-all-reduce"
NORM, EMBEDDING = "layernorm-grads-all-reduce", "embedding-grads-all-reduce"
CLIP, OPTIMIZER, COLLECTOR = "optimizer-clip-main-grad", "optimizer", "gc"
DATA_PARALLEL = (GATHER, SCATTER, SEPARATE)
COMMUNICATION = (*POINT_TO_POINT, *DATA_PARALLEL, NORM, EMBEDDING, CLIP)
"""What counts as communication where a typical duration is taken: the median, of computations the mean."""
KINDS = (FORWARD, BACKWARD, *POINT_TO_POINT, *DATA_PARALLEL, NORM, EMBEDDING, CLIP, OPTIMIZER, COLLECTOR)
COLUMNS = ("dp_rank", "stage", "rank", "step", "optype", "start_ts", "duration", "seq_id", "mc", "mb_id", "gmc")


@dataclass(frozen=True, order=True)
class PipelineOperation:
    """An operation of every step and data-parallel rank.

    Attributes:
        kind: One of `KINDS`.
        number: Which of its kind in the step, from 0.
    """

    kind: str
    number: int
    stage: int


@dataclass(frozen=True)
class Operations:
    """Measured operations as dense arrays: [operations, steps, data-parallel ranks].

    Attributes:
        steps: Numbers of the steps, ascending.
        start: float32, s from the start of the step.
        end: float32, s.
        duration: float32, s.
        chunk: Model chunk of the stage of each operation, -1 where it has none.
        rank: int64[stages, data-parallel ranks].
    """

    operations: tuple[PipelineOperation, ...]
    steps: tuple[int, ...]
    start: NDArray[np.float32]
    end: NDArray[np.float32]
    duration: NDArray[np.float32]
    chunk: tuple[int, ...]
    model_chunk: tuple[int, ...]
    rank: NDArray[np.int64]

    @property
    def stages(self) -> int:
        """Pipeline stages."""
        return len(self.rank)

    @property
    def data_parallel(self) -> int:
        """Data-parallel ranks."""
        return len(self.rank[0])


def read_operations(path: Path) -> Operations:
    """Reads a Parquet file.

    Raises:
        InputError: It is no such table, or operations are missing or there twice.
    """
    frame = read_frame(path)
    try:
        return operations_of(frame)
    except InputError as error:
        raise error.located(file=path) from None


def operations_of(frame: pl.DataFrame) -> Operations:
    """The operations of a table.

    Raises:
        InputError: A column, an operation or a rank is missing or there twice.
    """
    import polars as pl

    _check_columns(frame)
    frame = frame.select(COLUMNS).with_columns(
        pl.col("optype").cast(pl.String), pl.col("start_ts", "duration").cast(pl.Float32)
    )
    frame = frame.drop_nulls().filter(pl.col("start_ts").is_finite() & pl.col("duration").is_finite())
    if frame.is_empty():
        raise InputError("the table has no operations")
    _check_kinds(frame["optype"].unique().to_list())
    key = ["optype", "seq_id", "stage"]
    names = frame.select(key).unique().sort(key)
    steps = frame["step"].unique().sort().to_list()
    members = frame["dp_rank"].unique().sort().to_list()
    if members != list(range(len(members))):
        raise InputError("data-parallel ranks are not numbered from 0", key="dp_rank", found=members[:8])
    shape = (len(names), len(steps), len(members))
    full = names.join(pl.DataFrame({"step": steps}), how="cross").join(pl.DataFrame({"dp_rank": members}), how="cross")
    keys = [*key, "step", "dp_rank"]
    full = full.with_columns(pl.col(name).cast(frame.schema[name]) for name in keys)
    _check_complete(frame, keys, int(np.prod(shape)), full)
    rows = full.join(frame, on=keys, how="left", maintain_order="left")
    start, duration = (rows[name].to_numpy().reshape(shape) for name in ("start_ts", "duration"))
    first = rows.with_row_index().filter(pl.col("index") % (shape[1] * shape[2]) == 0)
    return Operations(
        operations=tuple(PipelineOperation(*row) for row in names.iter_rows()),
        steps=tuple(steps),
        start=start - start.min(axis=(0, 2), keepdims=True),
        end=start + duration - start.min(axis=(0, 2), keepdims=True),
        duration=duration,
        chunk=tuple(first["mc"].to_list()),
        model_chunk=tuple(first["gmc"].to_list()),
        rank=_ranks(frame),
    )


def _check_columns(frame: pl.DataFrame) -> None:
    missing = [name for name in COLUMNS if name not in frame.columns]
    if missing:
        raise InputError(
            f"the table lacks the columns {', '.join(missing)}", found=list(frame.columns), allowed=COLUMNS
        )


def _check_kinds(found: list[str]) -> None:
    for kind in sorted(found):
        if kind not in KINDS:
            raise InputError(
                f"there is no operation `{kind}`",
                key="optype",
                found=kind,
                allowed=KINDS,
                hint=did_you_mean(kind, KINDS),
            )
    if OPTIMIZER not in found:
        raise InputError(f"no step ends: there is no operation `{OPTIMIZER}`", key="optype", found=sorted(found))


def _check_complete(frame: pl.DataFrame, keys: list[str], wanted: int, full: pl.DataFrame) -> None:
    twice = frame.filter(frame.select(keys).is_duplicated())
    if len(twice):
        raise InputError("an operation of a rank appears twice", found=_named(twice, keys))
    if len(frame) != wanted:
        lost = full.join(frame, on=keys, how="anti")
        raise InputError(f"{len(lost)} operations are missing", found=f"none such: {_named(lost, keys)}")


def _named(rows: pl.DataFrame, keys: list[str]) -> str:
    return ", ".join(f"{key} {value}" for key, value in zip(keys, rows.select(keys).row(0), strict=True))


def _ranks(frame: pl.DataFrame) -> NDArray[np.int64]:
    """int64[stages, data-parallel ranks]."""
    found = frame.select("stage", "dp_rank", "rank").unique().sort("stage", "dp_rank")
    stages, members = found["stage"].n_unique(), found["dp_rank"].n_unique()
    numbered = found["stage"].unique().sort().to_list() == list(range(stages))
    if not numbered or len(found) != stages * members or found["rank"].n_unique() != len(found):
        raise InputError(
            "stages and data-parallel ranks do not make a grid of ranks", key="rank", found=f"{len(found)} ranks"
        )
    return found["rank"].cast(int).to_numpy().reshape(stages, members)
