"""What each part of the training model explains: it is switched off, and the error of the same runs is counted again.

A `Detail` is a part of the model. Without it the older runs are forecast twice: with the constants as they are, and
with constants fitted again, for a constant may take over what the detail explained. A detail whose loss raises the
error neither way does not earn its place on these runs.

A cause is a detail that was sought after MLPerf Training v6.0 had been forecast blind. Those steps are forecast without
any cause, with one, with all but one, and with all of them. Everything here is in closed form.
"""

from __future__ import annotations

import dataclasses
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any
from unittest.mock import patch

import numpy as np

from railyard.work.training import compute, profiles, rank_times, stages
from railyard.work.training.designs import estimate
from railyard_validation.training.cases import kind, predicted_s
from railyard_validation.training.fit import fit, refitted, scored, smallest_scale

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from railyard.catalog import Model
    from railyard.model.machine import F
    from railyard.work.training.columns import Columns
    from railyard.work.training.spec import Layout
    from railyard_validation.training.cases import Case

# FLOP of 4-bit products that a joule paid for, as fitted while power and not the peak was taken to limit them.
_JOULE4 = 4.06e12
# What a server of GB200 or GB300 has without its rack, and the NICs that rows without one were given.
_SERVER, _NIC_BPS = 4, 400e9
_MOVED = 1e-3


@dataclass(frozen=True)
class Detail:
    """One part of the model.

    Attributes:
        name: Of the detail.
        without: What stands in its place when it is off.
        change: Of the columns; None where they stay.
        parts: Parts of the estimate (`bubble_s`, ...) that are left out.
        case: A run without it; None where runs stay as they are.
        swap: A function of the model and what replaces it: module, name, replacement.
    """

    name: str
    without: str
    change: Callable[[Columns], Columns] | None = None
    parts: tuple[str, ...] = ()
    case: Callable[[Case], Case] | None = None
    swap: tuple[object, str, Callable[..., object]] | None = None

    def predict(self, cases: Sequence[Case]) -> list[float]:
        """Step seconds without the detail."""
        return without((self,), cases)


@dataclass(frozen=True)
class Worth:
    """What older runs say of a detail: mean |error| by source family, and over all families.

    Attributes:
        detail: Which; None for the whole model.
        kept: With the constants as they are.
        refitted: With constants fitted without the detail.
    """

    detail: Detail | None
    kept: dict[str, float]
    refitted: dict[str, float]


@dataclass(frozen=True)
class Effect:
    """What a cause explains: rows that it moves by more than 0.1 %, and mean |error|.

    Attributes:
        cause: Which.
        newest: Rows of the newest steps that it moves.
        older: Rows of the older steps that it moves.
        alone: Error of the newest with this cause and no other.
        others: Error of the newest with all other causes.
        older_others: Error of the older with all other causes.
    """

    cause: Detail
    newest: int
    older: int
    alone: float
    others: float
    older_others: float


def _set(part: str, **values: float) -> Callable[[Columns], Columns]:
    """Columns of one part with other values in every row."""

    def change(columns: Columns) -> Columns:
        held: Any = getattr(columns, part)
        new = {name: np.full_like(getattr(held, name), value) for name, value in values.items()}
        return dataclasses.replace(columns, **{part: dataclasses.replace(held, **new)})

    return change


def _job(change: Callable[[Case], dict[str, Any]]) -> Callable[[Case], Case]:
    """Runs with other fields of their job."""
    return lambda case: dataclasses.replace(case, training=case.training.replace(**change(case)))


def _software(**values: object) -> Callable[[Case], Case]:
    """Runs with other fields of their software."""
    return _job(lambda case: {"software": dataclasses.replace(case.training.software, **values)})  # type: ignore[arg-type]


def _by_power(case: Case) -> dict[str, Any]:
    device, job = case.machine.accelerator, case.training
    peak = device.flops.get("fp4")
    if not peak or job.precision != "fp4":
        return {}
    share = min(_JOULE4 * device.tdp_w / (peak * device.gemm_efficiency_8bit), 1.0)
    return {"software": dataclasses.replace(job.software, fp4_fraction=share)}


def _no_rack(case: Case) -> Case:
    """A rack of 72 as 18 servers of 4, with the NICs that were assumed where a row names none."""
    machine = case.machine
    domain = _SERVER if machine.scale_up_domain > 8 else machine.scale_up_domain
    named = case.row.get("scale_out")
    rate = machine.scale_out_bps if named else min(machine.scale_out_bps, _NIC_BPS)
    machine = dataclasses.replace(machine, scale_up_domain=domain, scale_out_bps=rate)
    return dataclasses.replace(case, machine=machine)


def _as_trained(columns: Columns, weights: F | float) -> F:
    """Casts of frozen weights as of trained ones: once a step."""
    trained = columns.job.replace(frozen=np.zeros_like(columns.job.frozen))
    return compute.weight_cast_s(dataclasses.replace(columns, job=trained), weights)


def _even(model: Model, layout: Layout) -> tuple[stages.StageCounts, ...]:
    """Pipeline ranks with the same share of the layers each."""
    real = stages.rank_stages(model, layout)
    share: dict[str, Any] = {
        name: sum(getattr(rank, name) for rank in real) / len(real) for name in ("layers", "moe_layers")
    }
    return tuple(dataclasses.replace(rank, **share) for rank in real)


CAUSES: tuple[Detail, ...] = (
    Detail("output projection in 8 bits", "16 bits", case=_software(head_precision="bf16")),
    Detail("attention core in 8 bits", "16 bits", case=_software(attention_precision="bf16")),
    Detail(
        "experts' MLP in one kernel",
        "bias, clamp, activation, casts in kernels of their own",
        case=_software(fused_experts=False),
    ),
    Detail(
        "gradient buckets as configured",
        "as the framework sizes them",
        case=_job(lambda case: {"layout": case.training.layout.replace(bucket_bytes=0)}),
    ),
    Detail("router that nothing balances", "balanced", case=_job(lambda _: {"routing_skew": 0.0})),
    Detail(
        "4-bit products follow the peak", f"{_JOULE4 / 1e12:.2f} TFLOP a joule, as fitted before", case=_job(_by_power)
    ),
    Detail(
        "NVFP4 recipe",
        "MXFP8",
        case=_job(lambda case: {"precision": "fp8" if case.training.precision == "fp4" else case.training.precision}),
    ),
    Detail("casts of MXFP8 and NVFP4", "free", _set("software", cast_bytes=0.0)),
    Detail("frozen weights stay cast", "cast once a step", swap=(rank_times, "weight_cast_s", _as_trained)),
    Detail("frozen weights have no gradient", "all weights are trained", case=_job(lambda _: {"lora": None})),
    Detail("adapters' products", "free", _set("job", adapter_rank=0.0)),
    Detail("one adapter for fused matrices", "one a matrix", case=_software(fused_adapters=False)),
    Detail("racks of 72, NICs of the server", "servers of 4, 400 Gb/s", case=_no_rack),
    Detail("CUDA graphs", "none", case=_software(graphs=(), cuda_graphs=False)),
    Detail("dispatcher (DeepEP, HybridEP)", "all-to-all", case=_software(dispatcher="alltoall")),
    Detail(
        "prediction layers (MTP)",
        "none",
        case=_job(lambda case: {"model": dataclasses.replace(case.training.model, mtp_layers=0)}),
    ),
    Detail("uneven stages", "the same share of the layers", swap=(stages, "rank_stages", _even)),
)

DETAILS: tuple[Detail, ...] = (
    Detail("waves", "products and attention spread evenly over all compute units", _set("device", units=1.0)),
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


def without(details: Sequence[Detail], cases: Sequence[Case]) -> list[float]:
    """Step seconds of runs without any of these details, in closed form."""
    runs = list(cases)
    for detail in details:
        runs = runs if detail.case is None else [detail.case(case) for case in runs]
    with _swapped(details):
        found = estimate(
            [case.training for case in runs], [case.machine for case in runs], change=lambda held: _off(details, held)
        )
    parts = [getattr(found, part) for detail in details for part in detail.parts]
    return [float(seconds) for seconds in found.step_s - (np.sum(parts, axis=0) if parts else 0.0)]


def _off(details: Sequence[Detail], columns: Columns) -> Columns:
    for detail in details:
        columns = columns if detail.change is None else detail.change(columns)
    return columns


@contextmanager
def _swapped(details: Sequence[Detail]) -> Iterator[None]:
    with ExitStack() as stack:
        for detail in details:
            if detail.swap is not None:
                stack.enter_context(patch.object(*detail.swap))
        yield


def effects(newest: Sequence[Case], older: Sequence[Case]) -> list[Effect]:
    """What each cause explains.

    Args:
        newest: Runs that were forecast blind before the causes were known.
        older: Runs before them, which must not get worse by the causes.
    """
    plain = without(CAUSES, newest)
    whole = predicted_s(older)
    found = []
    for cause in CAUSES:
        alone = without([other for other in CAUSES if other is not cause], newest)
        lacking = cause.predict(older)
        found.append(
            Effect(
                cause=cause,
                newest=_moved(alone, plain, cause.predict(newest), predicted_s(newest)),
                older=_moved(lacking, whole),
                alone=mean_error(newest, alone),
                others=mean_error(newest, cause.predict(newest)),
                older_others=mean_error(older, lacking),
            )
        )
    return found


def _moved(*pairs: Sequence[float]) -> int:
    """Rows in which two of the predictions of any pair differ."""
    apart = [np.abs(np.divide(one, other) - 1.0) > _MOVED for one, other in zip(pairs[::2], pairs[1::2], strict=True)]
    return int(np.sum(np.any(apart, axis=0)))


def mean_error(cases: Sequence[Case], predicted: Sequence[float]) -> float:
    """Mean |error| of predicted step seconds."""
    return float(np.mean([abs(one / case.measured - 1.0) for one, case in zip(predicted, cases, strict=True)]))


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
