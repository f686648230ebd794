"""The part of a step that does not grow with its micro-batches, predicted against measured.

Runs of one software and layout that differ in data-parallel replicas alone lie on a line: step = fixed + M x time of a
micro-batch. Two of them, one of many micro-batches and one of few, give both numbers; the same two runs predicted give
the model's own. So the fixed part (gradients, parameters, optimizer, bubble, host, interruptions) is judged by itself.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Sequence

    from railyard_validation.training.cases import Case

# Of two runs with less between them the difference of their steps says little about either number.
_LEAST_RATIO = 4.0
TARGET = 0.15


@dataclass(frozen=True)
class FixedPart:
    """One pair of runs.

    Attributes:
        many, few: Ids of the run with many micro-batches, and of that with few, whose fixed part this is.
        model, device: What ran on what.
        ranks: Of the run with few.
        micro_batches: Of the run with few.
        step_s: Its measured step.
        micro_batch_s, predicted_micro_batch_s: Slope of the line.
        fixed_s, predicted_fixed_s: What is left of the step with few micro-batches.
    """

    many: str
    few: str
    model: str
    device: str
    ranks: int
    micro_batches: int
    step_s: float
    micro_batch_s: float
    predicted_micro_batch_s: float
    fixed_s: float
    predicted_fixed_s: float

    @property
    def error(self) -> float:
        """Of the fixed part, relative."""
        return self.predicted_fixed_s / self.fixed_s - 1.0

    def to_json(self) -> dict[str, Any]:
        """One entry of the report's `fixed_part`."""
        return {**asdict(self), "error": self.error}


def fixed_parts(cases: Sequence[Case], predicted_s: Sequence[float]) -> list[FixedPart]:
    """Fixed parts of all families of a table in which two runs differ enough.

    Args:
        cases: The runs.
        predicted_s: Their predicted steps.
    """
    families: dict[tuple[object, ...], list[tuple[Case, float]]] = defaultdict(list)
    for case, seconds in zip(cases, predicted_s, strict=True):
        if case.metric == "step seconds" and case.training.layout.zero < 3:
            families[_family(case)].append((case, seconds))
    found = [_line(runs) for runs in families.values()]
    return sorted((one for one in found if one is not None), key=lambda one: (one.model, one.device, one.ranks))


def _family(case: Case) -> tuple[object, ...]:
    training, layout = case.training, case.training.layout
    who = case.row.get("source_doc").partition(",")[0]
    sizes = (layout.tp, layout.pp, layout.vp, layout.cp, layout.ep, layout.micro_batch, layout.recompute)
    device = case.machine.accelerator.name
    return who, training.model.name, training.seq_len, training.precision, device, training.software.name, *sizes


def _line(runs: Sequence[tuple[Case, float]]) -> FixedPart | None:
    def batches(run: tuple[Case, float]) -> tuple[int, int]:
        layout = run[0].training.layout
        return layout.micro_batches, -layout.ranks

    ordered = sorted(runs, key=batches)
    (few, few_s), (many, many_s) = ordered[0], ordered[-1]
    low, high = few.training.layout.micro_batches, many.training.layout.micro_batches
    if high < _LEAST_RATIO * low:
        return None
    slope, predicted = (many.measured - few.measured) / (high - low), (many_s - few_s) / (high - low)
    fixed = few.measured - low * slope
    if fixed <= 0 or slope <= 0:
        return None
    return FixedPart(
        many=many.row.id,
        few=few.row.id,
        model=few.training.model.name,
        device=few.machine.accelerator.name,
        ranks=few.training.layout.ranks,
        micro_batches=low,
        step_s=few.measured,
        micro_batch_s=slope,
        predicted_micro_batch_s=predicted,
        fixed_s=fixed,
        predicted_fixed_s=few_s - low * predicted,
    )
