"""An accelerator as columns: the rates that its best kernels reach."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from railyard.model.columns import columns_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from railyard.catalog import Accelerator
    from railyard.model.columns import F


@dataclass(frozen=True, slots=True)
class DeviceColumns:
    """Dense FLOP/s by operand width, and what share of them the best kernels reach.

    Attributes:
        peak16: Stated for 16 bits.
        gemm16, gemm8, gemm4: Matrix products in floating point of that width, or of the next one that there is.
        best8, best4: The same in whatever numbers of that width or wider are fastest: integers too.
        attention: Attention in 16 bits.
        attention8: The same with its products in 8 bits; what else it does (softmax) takes as long.
        hbm_bytes_s: What a streaming kernel reaches.
        units: Compute units.
        gap_s: Between one kernel and the next.
        memory_bytes: As in the catalogue.
        scale_up_bytes_s: What collectives reach inside the scale-up domain.
        tdp_w: Power limit.
    """

    peak16: F
    gemm16: F
    gemm8: F
    gemm4: F
    best8: F
    best4: F
    attention: F
    attention8: F
    hbm_bytes_s: F
    units: F
    gap_s: F
    memory_bytes: F
    scale_up_bytes_s: F
    tdp_w: F

    @classmethod
    def of(cls, accelerators: Sequence[Accelerator]) -> DeviceColumns:
        """Columns of accelerators of the catalogue."""
        return columns_of(cls, accelerators, _row)

    def best_flops_s(self, bits: F) -> F:
        """FLOP/s of a matrix product whose operands have so many bits, in the fastest numbers that hold them."""
        return np.where(bits == 16, self.gemm16, np.where(bits == 8, self.best8, self.best4))


def _row(device: Accelerator) -> dict[str, float]:
    return _products(device) | {
        "hbm_bytes_s": device.memory_bps / 8.0 * device.memory_efficiency,
        "units": max(1, device.sm_count),
        "gap_s": device.launch_ps * 1e-12,
        "memory_bytes": device.memory_bytes,
        "scale_up_bytes_s": device.scale_up_collective_bps / 8.0,
        "tdp_w": device.tdp_w,
    }


def _products(device: Accelerator) -> dict[str, float]:
    flops, narrow = device.flops, device.gemm_efficiency_8bit
    peak16 = flops.get("bf16") or flops["fp16"]
    integers = flops.get("int8", 0.0)
    peak8 = flops.get("fp8") or (integers if device.architecture.startswith("tpu") else 0.0)
    gemm16 = peak16 * device.gemm_efficiency
    # Every row has every column; a training job in a width that its device lacks is refused (`check_precision`).
    gemm8 = peak8 * narrow if peak8 else gemm16
    gemm4 = flops["fp4"] * narrow if flops.get("fp4") else gemm8
    best8 = max(gemm16, gemm8, integers * narrow)
    attention = peak16 * device.attention_efficiency
    # Seconds a FLOP that the kernel takes longer than bare products: exponentials, and what waits for them. 8 bits make
    # only the products shorter. From FlashAttention-3's 740 TFLOP/s on an H100 this gives 1.25 PFLOP/s; the paper has
    # "close to 1.2" (arXiv 2407.08608).
    softmax = max(0.0, 1.0 / attention - 1.0 / gemm16)
    return {
        "peak16": peak16,
        "gemm16": gemm16,
        "gemm8": gemm8,
        "gemm4": gemm4,
        "best8": best8,
        "best4": max(best8, gemm4),
        "attention": attention,
        "attention8": max(attention, 1.0 / (1.0 / gemm8 + softmax)),
    }
