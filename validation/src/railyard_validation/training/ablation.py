"""What each detail of the training model is worth: it is switched off, and the error of the same runs counted again.

Twice: with the constants as they are, and with constants fitted anew without the detail, for a constant may take over
what the detail explained. A detail whose loss neither way raises the error does not earn its place on these runs.
"""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from railyard.workload.training import profiles
from railyard.workload.training.estimate import estimate
from railyard_validation.training.cases import kind
from railyard_validation.training.fit import fit, refitted, scored, smallest_scale

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from railyard.workload.training.columns import Columns
    from railyard_validation.training.cases import Case


@dataclass(frozen=True)
class Detail:
    """One detail of the model.

    Attributes:
        name: Of the detail.
        without: What stands in its place when it is off.
        change: Of the columns; None where only parts of the step are left out.
        parts: Parts of the estimate (`bubble_s`, ...) that are left out.
    """

    name: str
    without: str
    change: Callable[[Columns], Columns] | None = None
    parts: tuple[str, ...] = ()

    def predict(self, cases: Sequence[Case]) -> list[float]:
        """Step seconds without the detail."""
        found = estimate([case.training for case in cases], [case.machine for case in cases], change=self.change)
        left_out = np.sum([getattr(found, part) for part in self.parts], axis=0) if self.parts else 0.0
        return [float(seconds) for seconds in found.step_s - left_out]


@dataclass(frozen=True)
class Worth:
    """What the runs say of a detail: mean |error| by source family, and over all families.

    Attributes:
        detail: Which; None for the whole model.
        kept: With the constants as they are.
        refitted: With constants fitted without the detail.
    """

    detail: Detail | None
    kept: dict[str, float]
    refitted: dict[str, float]


def _set(part: str, **values: float) -> Callable[[Columns], Columns]:
    """Columns of one part with other values in every row."""

    def change(columns: Columns) -> Columns:
        held: Any = getattr(columns, part)
        new = {name: np.full_like(getattr(held, name), value) for name, value in values.items()}
        return dataclasses.replace(columns, **{part: dataclasses.replace(held, **new)})

    return change


def _all_units_one_tile(columns: Columns) -> Columns:
    """Work spreads evenly over the compute units, however little of it there is."""
    return _set("device", units=1.0)(columns)


DETAILS: tuple[Detail, ...] = (
    Detail("waves", "products and attention spread evenly over all compute units", _all_units_one_tile),
    Detail(
        "passes over memory", "norms, activations, residuals, casts cost nothing", _set("software", memory_fraction=1e9)
    ),
    Detail(
        "fusion",
        "every pass is fused",
        _set("software", fused_norm=1.0, fused_activation=1.0, fused_residual=1.0, fused_rope=1.0, fused_loss=1.0),
    ),
    Detail("attention kernel", "every attention is a fused kernel", _set("software", flash=1.0)),
    Detail("causal attention", "all keys are computed", _set("job", causal=0.0)),
    Detail("casts", "casting to 8 and 4 bits is free", _set("software", cast_bytes=0.0)),
    Detail("power", "products run as a cold benchmark does", _set("software", joule16=0.0, joule8=0.0)),
    Detail("gaps between kernels", "none", _set("device", gap_s=0.0)),
    Detail("host", "launching is free", _set("software", launch_s=0.0, layer_host_s=0.0, expert_host_s=0.0)),
    Detail("recomputation", "nothing is computed again", _set("layout", recompute_full=0.0, recompute_core=0.0)),
    Detail(
        "tensor overlap",
        "tensor-parallel collectives are exposed",
        _set("software", tensor_overlap=0.0, backward_overlap=0.0),
    ),
    Detail("tensor collectives", "free", parts=("tensor_s",)),
    Detail("expert all-to-all", "free", parts=("expert_s",)),
    Detail("one copy a domain", "a token is sent once for each of its experts", _set("software", expert_once=0.0)),
    Detail("grouped products", "experts run at the dense rate", _set("software", grouped_fraction=1.0)),
    Detail("context parallel traffic", "free", parts=("context_s",)),
    Detail("pipeline bubble", "none", parts=("bubble_s",)),
    Detail("pipeline sends", "free", parts=("pipeline_s",)),
    Detail("gradient and parameter traffic", "all hidden", parts=("gradient_s", "parameter_s")),
    Detail("overlap of gradients", "all exposed", _set("layout", overlap_gradient=0.0, overlap_parameter=0.0)),
    Detail("optimizer", "free", parts=("optimizer_s",)),
    Detail("fixed part of a step", "none", parts=("fixed_s",)),
    Detail("contention", "collectives take nothing from computation", _set("software", communication_sms=0.0)),
)


def ablation(cases: Sequence[Case], details: Sequence[Detail] = DETAILS) -> list[Worth]:
    """What each detail is worth on these runs; the whole model first.

    Args:
        cases: Runs as read; only scored ones are counted.
        details: Which to switch off, one at a time.
    """
    judged = [case for case in cases if scored(case)]
    small = smallest_scale(judged)
    found = [_worth(judged, small, None)]
    return found + [_worth(judged, small, detail) for detail in details]


def _worth(judged: Sequence[Case], small: Sequence[Case], detail: Detail | None) -> Worth:
    predict = (detail or Detail("", "")).predict
    known = profiles.assemble(fit(small, predict=predict).values)
    return Worth(detail, _errors(judged, predict), _errors(refitted(judged, known), predict))


def _errors(cases: Sequence[Case], predict: Callable[[Sequence[Case]], list[float]]) -> dict[str, float]:
    missed: dict[str, list[float]] = {}
    for case, predicted in zip(cases, predict(cases), strict=True):
        missed.setdefault(kind(case), []).append(abs(predicted / case.measured - 1.0))
    every = [error for errors in missed.values() for error in errors]
    return {name: float(np.mean(errors)) for name, errors in {**missed, "all": every}.items()}
