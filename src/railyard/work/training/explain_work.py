"""What the computation of a step is made of, operator by operator, from the formulas that gave its durations.

The task graph knows one duration a stage and pass. It is the sum of operators (`workload.training.blocks`), so each
operator's part is found by asking the same functions again; gaps between kernels and casts are what a device without
gaps, or a software without casts, would not need. What a duration holds beyond its operators is waiting for the host.
"""

from __future__ import annotations

import dataclasses
from collections import defaultdict
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from railyard.work.training import blocks
from railyard.work.training.columns import Columns
from railyard.work.training.stages import virtual_stages

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from railyard.catalog import Accelerator
    from railyard.work.training.operators import Operator
    from railyard.work.training.spec import Training
    from railyard.work.training.stages import VirtualStage

    Block = Callable[[Columns], list[Operator]]

GEMM, GROUPED, CORE, PASS, CAST, GAP = (
    "GEMM",
    "grouped GEMM",
    "attention core",
    "passes over memory",
    "casts",
    "launch gaps",
)
FORWARD, BACKWARD, WEIGHT, RECOMPUTE = "forward", "backward", "weight gradient", "recompute"

# Field of an operator that holds the device time of a phase, and the one that counts its kernels.
_FIELDS = {FORWARD: "forward", BACKWARD: "backward_input", WEIGHT: "backward_weight", RECOMPUTE: "forward"}
_BLOCKS: dict[str, Block] = {
    "attention": blocks.attention_block,
    "MLP": blocks.mlp_block,
    "experts": blocks.moe_block,
    "embedding": blocks.embedding,
    "head": blocks.head,
}


@dataclass(frozen=True)
class Work:
    """Device time of one kind of work in one phase, as the formulas give it.

    Attributes:
        part: Of the model.
        kind: Of the operator.
        phase: When.
        operator: Its name; of gaps and casts, that of the operator that they belong to.
        seconds: Of a step, summed over ranks.
        kernels: Launched in a step, summed over ranks.
    """

    part: str
    kind: str
    phase: str
    operator: str
    seconds: float
    kernels: float


def work_of(training: Training, accelerator: Accelerator) -> list[Work]:
    """Every operator of a step, over all ranks; those of no time are left out."""
    times = _times(training, accelerator)
    total: dict[tuple[str, str, str, str], list[float]] = defaultdict(lambda: [0.0, 0.0])
    replicas = training.layout.ranks // training.layout.pp * training.layout.micro_batches
    for stage in virtual_stages(training.model, training.layout):
        for part, block, count in _passes(training, stage):
            for kind, phase, name, seconds, kernels in times[block]:
                often = count * replicas * _again(training, block, phase, kind, name)
                entry = total[part, kind, phase, name]
                entry[0] += often * seconds
                entry[1] += often * kernels
    return [Work(*key, seconds, kernels) for key, (seconds, kernels) in total.items() if seconds > 0]


def _passes(training: Training, stage: VirtualStage) -> Iterator[tuple[str, str, float]]:
    """Parts of the model that a stage holds: what it is called, the block it consists of, how often."""
    dense = stage.layers - stage.moe_layers
    counts = {
        "attention": stage.layers,
        "MLP": dense,
        "experts": stage.moe_layers,
        "embedding": int(stage.embedding),
        "head": int(stage.head),
    }
    yield from ((part, part, float(count)) for part, count in counts.items() if count)
    ahead = training.model.mtp_layers * int(stage.head)
    if ahead:
        last = "experts" if training.model.experts else "MLP"
        yield from (("token prediction", block, float(ahead)) for block in ("attention", last, "joint", "head"))


def _again(training: Training, block: str, phase: str, kind: str, name: str) -> float:
    """How often a phase runs for one forward pass: once, but what is computed again as the layout says."""
    del kind
    if phase != RECOMPUTE:
        return 1.0
    layout = training.layout
    if layout.recompute == "full" and block in ("attention", "MLP", "experts"):
        return layout.recompute_share
    return float(layout.recompute == "selective" and name in _CORES)


_CORES = frozenset({"attention"})


def _times(training: Training, accelerator: Accelerator) -> dict[str, list[tuple[str, str, str, float, float]]]:
    """For each block rows of (kind, phase, operator, seconds, kernels) of one micro-batch on one rank."""
    columns = Columns.of([training], [accelerator])
    zero = np.zeros(1)
    smooth = dataclasses.replace(columns, device=dataclasses.replace(columns.device, gap_s=zero))
    plain = dataclasses.replace(columns, software=dataclasses.replace(columns.software, cast_bytes=zero))
    found = {}
    for name, block in {**_BLOCKS, "joint": blocks.prediction_joint}.items():
        found[name] = [
            row
            for operator, without_gap, without_cast in zip(block(columns), block(smooth), block(plain), strict=True)
            for row in _operator(operator, without_gap, without_cast)
        ]
    return found


def _operator(
    operator: Operator, without_gap: Operator, without_cast: Operator
) -> Iterator[tuple[str, str, str, float, float]]:
    kind = _kind(operator)
    for phase, name in _FIELDS.items():
        seconds = _first(getattr(operator, name))
        if seconds <= 0:
            continue
        gap = max(seconds - _first(getattr(without_gap, name)), 0.0)
        cast = max(seconds - _first(getattr(without_cast, name)), 0.0)
        kernels = _first(operator.launches if phase in (FORWARD, RECOMPUTE) else operator.launches_backward)
        if phase == WEIGHT:
            kernels = 1.0
        elif phase == BACKWARD and _first(operator.backward_weight) > 0:
            kernels = max(kernels - 1.0, 1.0)
        yield kind, phase, operator.name, max(seconds - gap - cast, 0.0), kernels
        yield GAP, phase, operator.name, gap, kernels
        yield CAST, phase, operator.name, cast, 1.0


def _kind(operator: Operator) -> str:
    if operator.core:
        return CORE
    if _first(operator.flops) <= 0:
        return PASS
    return GROUPED if operator.name.startswith("experts ") else GEMM


def _first(column: object) -> float:
    return float(np.asarray(column, np.float64).reshape(-1)[0])
