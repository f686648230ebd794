"""What each fact of a configuration explains of MLPerf Training v6.0: alone, and all together but one.

A cause is what a run's configuration says or a mechanism does; without it a run takes what the model assumed before,
so that the same rows are forecast with none, with one, with all but one, and with all.
"""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from railyard_validation.training.cases import predicted_s

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from railyard.workload.training.spec import Training
    from railyard_validation.training.cases import Case

    Change = Callable[[Case], Training]

# FLOP of 4-bit products that a joule paid for, as fitted while power and not the peak was taken to limit them.
_JOULE4 = 4.06e12
_MOVED = 1e-3


@dataclass(frozen=True)
class Cause:
    """One cause.

    Attributes:
        name: Of the cause.
        without: What stands in its place.
        off: A run's job without it.
    """

    name: str
    without: str
    off: Change


@dataclass(frozen=True)
class Effect:
    """What a cause explains: mean |error| of the rows.

    Attributes:
        cause: Which.
        rows: Rows that it moves by more than 0.1 %.
        alone: With this cause and no other.
        others: With all others.
    """

    cause: Cause
    rows: int
    alone: float
    others: float


def _software(**values: object) -> Change:
    def off(case: Case) -> Training:
        software = dataclasses.replace(case.training.software, **values)  # type: ignore[arg-type]
        return case.training.replace(software=software)

    return off


def _by_power(case: Case) -> Training:
    device, job = case.machine.accelerator, case.training
    peak = device.flops.get("fp4")
    if not peak or job.precision != "fp4":
        return job
    share = min(_JOULE4 * device.tdp_w / (peak * device.gemm_efficiency_8bit), 1.0)
    return job.replace(software=dataclasses.replace(job.software, fp4_fraction=share))


CAUSES = (
    Cause("output projection in 8 bits", "16 bits", _software(head_precision="bf16")),
    Cause("attention core in 8 bits", "16 bits", _software(attention_precision="bf16")),
    Cause("experts' MLP in one kernel", "bias, clamp, activation, casts apart", _software(fused_experts=False)),
    Cause(
        "gradient buckets as configured",
        "as the framework sizes them",
        lambda case: case.training.replace(layout=case.training.layout.replace(bucket_bytes=0)),
    ),
    Cause("router that nothing balances", "balanced", lambda case: case.training.replace(routing_skew=0.0)),
    Cause("4-bit products follow the peak", f"{_JOULE4 / 1e12:.2f} TFLOP a joule, as fitted before", _by_power),
)


def effects(cases: Sequence[Case]) -> tuple[float, list[Effect], float]:
    """Mean |error| of the rows without any cause, what each explains, and with all of them."""
    none = _without(cases, CAUSES)
    before, found = predicted_s(none), []
    for cause in CAUSES:
        alone = _without(cases, [other for other in CAUSES if other is not cause])
        moved = sum(abs(one / other - 1.0) > _MOVED for one, other in zip(predicted_s(alone), before, strict=True))
        found.append(Effect(cause, moved, _error(alone), _error(_without(cases, [cause]))))
    return _error(none), found, _error(cases)


def _without(cases: Sequence[Case], causes: Sequence[Cause]) -> list[Case]:
    found = list(cases)
    for cause in causes:
        found = [dataclasses.replace(case, training=cause.off(case)) for case in found]
    return found


def _error(cases: Sequence[Case]) -> float:
    return float(np.mean([abs(one / case.measured - 1.0) for one, case in zip(predicted_s(cases), cases, strict=True)]))
