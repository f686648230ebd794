"""Designs as columns: one row per training job on one machine, one array per quantity.

Every formula of the training model is written once, over these arrays. A single job is a table of one row, so the
scalar
answer and the answers for ten thousand designs agree.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Self

import numpy as np

from railyard.model.architecture import ModelColumns, imbalance
from railyard.model.machine import DeviceColumns, RecordColumns
from railyard.work.training.pace import pace_of
from railyard.work.training.spec import BITS, Layout
from railyard.work.training.sync.shapes import kept_bytes, worker_job

if TYPE_CHECKING:
    from collections.abc import Sequence

    from railyard.catalog import Accelerator
    from railyard.model.machine import F
    from railyard.work.training.spec import SoftwareProfile, Training


@dataclass(frozen=True, slots=True)
class Columns:
    """Rows of (model, layout, software, device, job): attributes of their records, and what is derived below.

    `as_graph`: overlap as in the task graph of a step, where gradients and parameters overlap with all available
    computation. Measured steps overlap less (`gradient_overlap`, `shard_overlap`).
    """

    model: ModelColumns
    layout: RecordColumns
    software: RecordColumns
    device: DeviceColumns
    job: RecordColumns
    as_graph: bool = False

    @property
    def tokens(self) -> F:
        """Tokens of one micro-batch in one rank's attention: the sequence is split by context parallelism."""
        return self.layout.micro_batch * self.job.seq_len / self.layout.cp

    @property
    def split_tokens(self) -> F:
        """Tokens of one micro-batch in a rank's norms and residuals: split over TP under sequence parallelism."""
        return self.tokens / np.where(self.layout.sequence > 0, self.layout.tp, 1.0)

    def recomputing(self, **changes: Any) -> Columns:
        """The same designs with additional recomputation given by fields of a layout."""
        row = _recomputation(Layout(global_batch=1, **changes))
        again = {name: np.maximum(getattr(self.layout, name), value) for name, value in row.items()}
        return replace(self, layout=self.layout.replace(**again)) if changes else self

    @classmethod
    def of(cls, trainings: Sequence[Training], accelerators: Sequence[Accelerator]) -> Columns:
        """Columns of many jobs, row by row on their accelerators; for jobs with local updates, those of one worker."""
        jobs = [worker_job(training) for training in trainings]
        return cls(
            model=ModelColumns([t.model for t in trainings]),
            layout=RecordColumns([t.layout for t in jobs], _layout),
            software=RecordColumns([t.software for t in trainings], _software),
            device=DeviceColumns(accelerators),
            job=RecordColumns(list(zip(trainings, accelerators, strict=True)), _job),
        )


class Summed:
    """Columns of seconds or bytes that add up, field by field."""

    __slots__: tuple[str, ...] = ()

    def __add__(self, other: Self) -> Self:
        return type(self)(*(getattr(self, name) + getattr(other, name) for name in self.__slots__))

    def times(self, count: F | float) -> Self:
        """The same `count` times."""
        return type(self)(*(getattr(self, name) * count for name in self.__slots__))


_AGAIN = {
    "again_core": "core_attn",
    "again_norm": "layernorm",
    "again_up": "mla_up_proj",
    "again_mlp": "mlp",
    "again_moe": "moe",
    "again_moe_act": "moe_act",
    "again_shared": "shared_experts",
}


def _layout(layout: Layout) -> dict[str, float]:
    """Values that formulas read of a layout in addition to its fields; flags are 0 or 1."""
    return {
        "sequence": layout.sequence_parallel and layout.tp > 1,
        "micro_batches": layout.global_batch / (layout.dp * layout.micro_batch),
        "zero_bubble": layout.schedule == "zero-bubble",
        "dual": layout.schedule == "dualpipe",
        **_recomputation(layout),
    }


def _recomputation(layout: Layout) -> dict[str, float]:
    """`recompute_full` is the share of recomputed layers; `again_core` and so on are single modules."""
    row: dict[str, float] = {
        "recompute_full": layout.recompute_share * (layout.recompute == "full"),
        "recompute_core": layout.recompute == "selective" or "core_attn" in layout.recompute_modules,
        "recompute_operators": layout.recompute_by_operator and layout.recompute == "full",
    }
    return row | {column: module in layout.recompute_modules for column, module in _AGAIN.items()}


# Scopes of CUDA graphs that capture part of a layer.
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


def _software(software: SoftwareProfile) -> dict[str, float]:
    """Values that formulas read of a profile in addition to its constants: times in s, widths in bits, flags 0 or 1."""
    rate, casts = _SCALINGS[software.fp8_scaling]
    launched = 0.0 if software.cuda_graphs else 1e-12
    once = software.dispatcher != "alltoall" if software.dispatcher else software.expert_once
    return {
        "fp8_fraction": rate * software.fp8_fraction,
        "cast_bytes": casts * software.cast_bytes,
        "head_bits": BITS[software.head_precision],
        "attention_bits": BITS[software.attention_precision],
        "grouped_kernel": software.grouped_kernel or software.fused_experts,
        "flash": software.attention != "unfused",
        "launch_s": launched * software.launch_ps,
        "layer_host_s": launched * software.layer_host_ps,
        "collective_host_s": launched * software.collective_host_ps,
        "expert_host_s": launched * software.expert_host_ps,
        "step_s": software.step_ps * 1e-12,
        "narrow_group_s": software.narrow_group_ps * 1e-12,
        "expert_fraction": _HYBRID_FRACTION if software.dispatcher == "hybridep" else software.expert_fraction,
        "expert_once": once,
        "alltoall": not once,
        **{column: not scopes.isdisjoint(software.graphs) for column, scopes in _RECORDED.items()},
    }


def _job(job: tuple[Training, Accelerator]) -> dict[str, float]:
    """Values of the job.

    `bits` is the width of its products' operands; `imbalance` the load of its busiest expert rank; `kept_dense` and
    `kept_expert` bytes a parameter that its way of communicating keeps on the device; `dispatch` the bytes of tokens on
    their way to experts, over those of 16 bits; `dispatch_cast` the traffic of coding a number; `resident` the share of
    the optimizer's state in the accelerator's own memory; `pace` by what a rank's part of a layer takes longer, as own
    runs say; `frozen` 1 where only adapters are trained, of rank `adapter_rank`, and of MLPs where `adapter_mlp` is 1.
    """
    training, device = job
    coded = None if training.communication is None else training.communication.dispatch
    return {
        "seq_len": training.seq_len,
        "bits": BITS[training.precision],
        "causal": training.causal,
        "imbalance": imbalance(training.model.experts, training.layout.ep, training.routing_skew, training.routing_own),
        **{f"kept_{name}": kept_bytes(training, name, device.scale_up_domain) for name in ("dense", "expert")},
        "resident": 1.0 if training.offload is None else training.offload.resident,
        "dispatch": 1.0 if coded is None else coded.share(),
        "dispatch_cast": 0.0 if coded is None else coded.cast_bytes(),
        "frozen": training.lora is not None,
        "adapter_rank": 0 if training.lora is None else training.lora.rank,
        "adapter_mlp": training.lora is not None and training.lora.targets == "all",
        "pace": pace_of(training, device.name)[0] if training.software.own_runs else 1.0,
    }
