"""Designs as columns: one row a training job on one machine, one array a quantity.

Every formula of the training model is written once, over these arrays. A single job is a table of one row, so the
scalar answer and the answer for ten thousand designs are the same numbers.
"""

from __future__ import annotations

from dataclasses import dataclass, fields, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from railyard.model.architecture import ModelColumns, imbalance
from railyard.model.machine import DeviceColumns, columns_of
from railyard.work.training.pace import pace_of
from railyard.work.training.spec import BITS, Layout
from railyard.work.training.sync.shapes import kept_bytes, worker_job

if TYPE_CHECKING:
    from collections.abc import Sequence

    from railyard.catalog import Accelerator
    from railyard.model.machine import F
    from railyard.work.training.spec import SoftwareProfile, Training


@dataclass(frozen=True, slots=True)
class LayoutColumns:
    """How the job is spread; flags are 0 or 1, `recompute_full` the share of layers computed again.

    `offloaded` is the number of layers whose activations go to the host.
    `again_core` and the others after it: modules computed again by themselves.
    """

    tp: F
    pp: F
    dp: F
    cp: F
    ep: F
    expert_tp: F
    vp: F
    zero: F
    sequence: F
    micro_batch: F
    micro_batches: F
    recompute_full: F
    recompute_core: F
    recompute_operators: F
    offloaded: F
    again_core: F
    again_norm: F
    again_up: F
    again_mlp: F
    again_moe: F
    again_moe_act: F
    again_shared: F
    shard: F
    reshard: F
    bucket_bytes: F
    overlap_gradient: F
    overlap_parameter: F
    overlap_tensor: F
    overlap_expert: F
    zero_bubble: F
    dual: F
    context_heads: F


@dataclass(frozen=True, slots=True)
class SoftwareColumns:
    """Constants of the training software; times in seconds."""

    flash: F
    gemm_fraction: F
    fp8_fraction: F
    fp4_fraction: F
    joule16: F
    joule8: F
    grouped_fraction: F
    grouped_narrow: F
    narrow_group_s: F
    grouped_kernel: F
    fused_experts: F
    fused_adapters: F
    head_bits: F
    attention_bits: F
    attention_forward: F
    attention_backward: F
    memory_fraction: F
    fused_norm: F
    fused_activation: F
    fused_residual: F
    fused_rope: F
    fused_loss: F
    loss_bytes: F
    loss_width: F
    cast_bytes: F
    launch_s: F
    layer_host_s: F
    communication_sms: F
    tensor_ctas: F
    data_ctas: F
    expert_ctas: F
    tensor_overlap: F
    backward_overlap: F
    gradient_overlap: F
    shard_overlap: F
    shard_messages: F
    gather_copies: F
    prefetch_parameters: F
    expert_overlap: F
    pipeline_overlap: F
    context_overlap: F
    scattered_sends: F
    collective_host_s: F
    recompute_stops: F
    collective_fraction: F
    expert_fraction: F
    expert_once: F
    dispatch_bytes: F
    expert_host_s: F
    overlap_host: F
    alltoall: F
    graph_attention: F
    graph_mlp: F
    graph_router: F
    graph_preprocess: F
    graph_experts: F
    optimizer_bytes: F
    gradient_bytes: F
    bucket_parameters: F
    bucket_parameters_per_rank: F
    fully_shard: F
    local_batches: F
    master_copy: F
    moment_bytes: F
    keeps_products: F
    keeps_outputs: F
    gate_bytes: F
    narrow_parameter_bytes: F
    keeps_placeholders: F
    step_s: F


@dataclass(frozen=True, slots=True)
class JobColumns:
    """What the job itself adds: sequence length, width of its GEMM operands in bits, load of its busiest expert rank.

    `kept_dense` and `kept_expert` are bytes a parameter that its way of communicating keeps on the device; `dispatch`
    the bytes of tokens on their way to experts, over those of 16 bits; `dispatch_cast` the traffic of coding a number;
    `resident` the share of the optimizer's state that lies in the accelerator's own memory; `pace` by what a rank's
    part of a layer takes longer, as own runs say; `frozen` 1 where only adapters are trained, of rank `adapter_rank`,
    beside MLPs too where `adapter_mlp` is 1.
    """

    seq_len: F
    bits: F
    causal: F
    imbalance: F
    kept_dense: F
    kept_expert: F
    dispatch: F
    dispatch_cast: F
    resident: F
    pace: F
    frozen: F
    adapter_rank: F
    adapter_mlp: F


@dataclass(frozen=True, slots=True)
class Columns:
    """Rows of (model, layout, software, device, job).

    `as_graph`: what hides does so as in the task graph of a step: gradients and parameters under all computation there
    is. Measured steps hide less (`gradient_overlap`, `shard_overlap`).
    """

    model: ModelColumns
    layout: LayoutColumns
    software: SoftwareColumns
    device: DeviceColumns
    job: JobColumns
    as_graph: bool = False

    @property
    def tokens(self) -> F:
        """Tokens of one micro-batch in one rank's attention: the sequence is split by context parallelism."""
        return self.layout.micro_batch * self.job.seq_len / self.layout.cp

    @property
    def split_tokens(self) -> F:
        """Tokens of one micro-batch that a rank's norms and residuals see: split over TP under sequence parallelism."""
        return self.tokens / np.where(self.layout.sequence > 0, self.layout.tp, 1.0)

    def recomputing(self, **changes: Any) -> Columns:
        """The same designs with the extra recomputation of some fields of a layout."""
        row = _recompute_row(Layout(global_batch=1, **changes))
        again = {name: np.maximum(getattr(self.layout, name), value) for name, value in row.items()}
        return replace(self, layout=replace(self.layout, **again)) if changes else self

    @classmethod
    def of(cls, trainings: Sequence[Training], accelerators: Sequence[Accelerator]) -> Columns:
        """Columns of many jobs, row by row on their accelerators; of jobs with local updates, those of one worker."""
        jobs = [worker_job(training) for training in trainings]
        return cls(
            model=ModelColumns.of([t.model for t in trainings]),
            layout=columns_of(LayoutColumns, [t.layout for t in jobs], _layout_row),
            software=columns_of(SoftwareColumns, [t.software for t in trainings], _software_row),
            device=DeviceColumns.of(accelerators),
            job=columns_of(JobColumns, list(zip(trainings, accelerators, strict=True)), _job_row),
        )


_AGAIN = {
    "again_core": "core_attn",
    "again_norm": "layernorm",
    "again_up": "mla_up_proj",
    "again_mlp": "mlp",
    "again_moe": "moe",
    "again_moe_act": "moe_act",
    "again_shared": "shared_experts",
}


def _layout_row(layout: Layout) -> dict[str, float]:
    row = {name: float(getattr(layout, name)) for name in ("tp", "pp", "dp", "cp", "ep", "expert_tp", "vp", "zero")}
    row |= {"bucket_bytes": layout.bucket_bytes}
    row |= {"sequence": layout.sequence_parallel and layout.tp > 1, "micro_batch": layout.micro_batch}
    row |= {"micro_batches": layout.global_batch / (layout.dp * layout.micro_batch)}
    row |= {"offloaded": layout.offload_layers, **_recompute_row(layout)}
    row |= {"shard": layout.shard_ranks, "reshard": layout.reshard, "zero_bubble": layout.schedule == "zero-bubble"}
    row |= {"dual": layout.schedule == "dualpipe"}
    overlaps = ("overlap_gradient", "overlap_parameter", "overlap_tensor", "overlap_expert", "context_heads")
    return row | {name: float(getattr(layout, name)) for name in overlaps}


def _recompute_row(layout: Layout) -> dict[str, float]:
    row: dict[str, float] = {
        "recompute_full": layout.recompute_share * (layout.recompute == "full"),
        "recompute_core": layout.recompute == "selective" or "core_attn" in layout.recompute_modules,
        "recompute_operators": layout.recompute_by_operator and layout.recompute == "full",
    }
    return row | {column: module in layout.recompute_modules for column, module in _AGAIN.items()}


# Scopes of CUDA graphs that record a part of a layer.
_RECORDED = {
    "graph_attention": {"attn", "layer", "full"},
    "graph_mlp": {"mlp", "layer", "full"},
    "graph_router": {"moe_router", "moe", "layer", "full"},
    "graph_preprocess": {"moe_preprocess", "moe", "layer", "full"},
    "graph_experts": {"moe", "layer", "full"},
}
# Share of what collectives reach inside a scale-up domain that HybridEP's kernels do: dispatch and combination in 16
# bits on 8 to 36 GB200 with 32 SMs, 0.81 to 0.93 without a rank's own part (deepseek-ai/DeepEP,
# Hybrid-EP_Implementation.md).
_HYBRID_FRACTION = 0.86
# Of the rate and of the traffic of casts of one scale a tensor: with one a row, products run in kernels that multiply
# by both vectors of scales, and an operand is read once for each direction of its scales. torchao's float8 README has
# Llama 3 8B on 8 H100 at 6,150 tokens/s a GPU in bf16, 7,690 with one scale a tensor, 6,768 with one a row.
_SCALINGS = {"tensor": (1.0, 1.0), "row": (0.78, 2.0)}
_TIMES = ("launch_s", "layer_host_s", "expert_host_s", "collective_host_s", "step_s", "narrow_group_s")
_DERIVED = {"flash", "alltoall", "head_bits", "attention_bits", "grouped_kernel", *_TIMES, *_RECORDED}


def _software_row(software: SoftwareProfile) -> dict[str, float]:
    names = {field.name for field in fields(SoftwareColumns)} - _DERIVED
    row = {name: _number(getattr(software, name)) for name in names}
    rate, casts = _SCALINGS[software.fp8_scaling]
    row |= {"fp8_fraction": rate * software.fp8_fraction, "cast_bytes": casts * software.cast_bytes}
    launched = not software.cuda_graphs
    once = software.dispatcher != "alltoall" if software.dispatcher else software.expert_once
    row |= {"head_bits": BITS[software.head_precision], "attention_bits": BITS[software.attention_precision]}
    row |= {"grouped_kernel": software.grouped_kernel or software.fused_experts}
    row |= {"flash": software.attention != "unfused", "launch_s": launched * software.launch_ps * 1e-12}
    row |= {"collective_host_s": launched * software.collective_host_ps * 1e-12}
    row |= {"expert_host_s": launched * software.expert_host_ps * 1e-12, "step_s": software.step_ps * 1e-12}
    if software.dispatcher == "hybridep":
        row["expert_fraction"] = _HYBRID_FRACTION
    row |= {"expert_once": once, "alltoall": not once, "narrow_group_s": software.narrow_group_ps * 1e-12}
    row |= {column: not scopes.isdisjoint(software.graphs) for column, scopes in _RECORDED.items()}
    return row | {"layer_host_s": launched * software.layer_host_ps * 1e-12}


def _number(value: float | None) -> float:
    return float("nan") if value is None else float(value)


def _job_row(job: tuple[Training, Accelerator]) -> dict[str, float]:
    training, device = job
    row: dict[str, float] = {"seq_len": training.seq_len, "bits": BITS[training.precision], "causal": training.causal}
    row["imbalance"] = imbalance(training.model.experts, training.layout.ep, training.routing_skew)
    row |= {f"kept_{name}": kept_bytes(training, name, device.scale_up_domain) for name in ("dense", "expert")}
    coded = None if training.communication is None else training.communication.dispatch
    return row | {
        "resident": 1.0 if training.offload is None else training.offload.resident,
        "dispatch": 1.0 if coded is None else coded.share(),
        "dispatch_cast": 0.0 if coded is None else coded.cast_bytes(),
        "frozen": training.lora is not None,
        "adapter_rank": 0 if training.lora is None else training.lora.rank,
        "adapter_mlp": training.lora is not None and training.lora.targets == "all",
        "pace": pace_of(training, device.name)[0] if training.software.own_runs else 1.0,
    }
