"""How one replica of a model is spread over accelerators, and in how many bits it is served."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from railyard.kit.errors import InputError
from railyard.model.architecture import ModelColumns
from railyard.model.machine import DeviceColumns, MachineColumns, RecordColumns

if TYPE_CHECKING:
    from railyard.catalog import Accelerator, Model
    from railyard.model.machine import F, Machine


class ServingLayoutColumns(RecordColumns):
    """Layout and widths: parallel degrees, bits of weights stored (with scales) and multiplied, of a cached one.

    `expert_padding`: elements of an expert in memory, over those of the checkpoint.
    """

    @property
    def ranks(self) -> F:
        """Accelerators of a pipeline stage that split no sequence: the ranks of tensor parallelism of all copies."""
        return self.tp * self.dp


@dataclass(frozen=True, slots=True)
class Deployments:
    """Rows of replicas."""

    model: ModelColumns
    layout: ServingLayoutColumns
    device: DeviceColumns
    machine: MachineColumns

    @classmethod
    def of(cls, *replicas: tuple[Model, ServingLayout, Machine]) -> Deployments:
        """One row a replica.

        What other traffic and collisions take of a machine's network (`Machine.share`) is left out: engines of serving
        have the network's links themselves, and the law's constants were fitted on whole systems.
        """
        machines = [machine for _, _, machine in replicas]
        return cls(
            ModelColumns([model for model, _, _ in replicas]),
            ServingLayoutColumns(replicas, _layout_row),
            DeviceColumns([machine.accelerator for machine in machines]),
            MachineColumns.of([replace(machine, share=1.0) for machine in machines]),
        )


def _layout_row(replica: tuple[Model, ServingLayout, Machine]) -> dict[str, float]:
    """Widths are those that the engines choose for that precision on that device."""
    model, layout, machine = replica
    dense, expert = layout.weight_bits(model)
    return {
        "tp": layout.tp,
        "pp": layout.pp,
        "dp": layout.dp_attention,
        "cp": layout.cp,
        "ep": layout.ep,
        "expert_tp": max(layout.stage_ranks // layout.ep, 1),
        "dense_bits": dense + layout.scale_bits(dense),
        "expert_bits": expert + layout.scale_bits(expert),
        "dense_math": layout.math_bits(dense, machine.accelerator),
        "expert_math": layout.math_bits(expert, machine.accelerator),
        "kv_bits": layout.stored_kv_bits,
        "expert_padding": layout.expert_padding(model, machine.accelerator),
    }


PRECISIONS = ("bf16", "fp16", "fp8", "fp4", "mxfp4")
_BITS = {"bf16": 16, "fp16": 16, "fp8": 8, "fp4": 4, "mxfp4": 4}
KV_BITS = (4, 8, 16)
_FOUR = 4
# Devices on which MXFP4 experts are multiplied by Marlin's kernels, whose tiles are whole: hidden and intermediate.
_MARLIN = ("ampere", "ada")
_MARLIN_TILE = (256, 128)


@dataclass(frozen=True, slots=True, kw_only=True)
class ServingLayout:
    """Parallel degrees of one replica.

    Attributes:
        tp: Ranks that split each attention head group and each dense matrix.
        pp: Pipeline stages.
        dp_attention: Copies of attention, each with its own sequences and cache; experts stay shared by all.
        ep: Ranks that hold different experts; the others of `tp * dp_attention` split each expert.
        cp: Ranks that split one long sequence; each holds its part of the cache.
        precision: Of the weights: `bf16`, `fp16`, `fp8`, `fp4` (block scales, latent attention stays in 8 bits) or
            `mxfp4` (experts only).
        kv_bits: Of a cached element; 4 have a scale for each block, see `stored_kv_bits`.
    """

    tp: int = 1
    pp: int = 1
    dp_attention: int = 1
    ep: int = 1
    cp: int = 1
    precision: str = "bf16"
    kv_bits: int = 16

    def __post_init__(self) -> None:
        """Refuses degrees that are no degrees and names that are no precisions."""
        for name in ("tp", "pp", "dp_attention", "ep", "cp"):
            if getattr(self, name) < 1:
                raise InputError(f"{name} must be at least 1", key=name, found=getattr(self, name))
        if self.precision not in PRECISIONS:
            raise InputError("unknown precision", key="precision", found=self.precision, allowed=PRECISIONS)
        if self.kv_bits not in KV_BITS:
            raise InputError("unknown width of the cache", key="kv_bits", found=self.kv_bits, allowed=KV_BITS)
        if self.stage_ranks % self.ep:
            raise InputError(
                f"ep {self.ep} does not divide tp * dp_attention = {self.stage_ranks}", key="ep", found=self.ep
            )

    def __str__(self) -> str:
        degrees = (("pp", self.pp), ("dp", self.dp_attention), ("ep", self.ep), ("cp", self.cp))
        more = "".join(f" {name} {size}" for name, size in degrees if size > 1)
        return f"tp {self.tp}{more} in {self.precision}"

    @property
    def stage_ranks(self) -> int:
        """Ranks of one pipeline stage, without context parallelism."""
        return self.tp * self.dp_attention

    @property
    def ranks(self) -> int:
        """Accelerators of the replica."""
        return self.stage_ranks * self.pp * self.cp

    @property
    def stored_kv_bits(self) -> float:
        """Bits that a cached element takes with its scales.

        Four-bit caches have a scale of 8 bits for each 16 elements (NVFP4: NVIDIA, "Optimizing inference for long
        context and large batch sizes with NVFP4 KV cache", 2025); eight-bit ones one for each tensor or head.
        """
        return self.kv_bits + (8.0 / 16.0 if self.kv_bits == 4 else 0.0)

    @staticmethod
    def math_bits(bits: int, device: Accelerator) -> int:
        """Bits in which weights of so many are multiplied: of 4 without 4-bit matrix units, in 16."""
        narrowest = 4 if "fp4" in device.flops else (8 if "fp8" in device.flops else 16)
        return bits if bits >= narrowest else 16

    def scale_bits(self, bits: int) -> float:
        """Bits of block scales for a weight of so many bits.

        NVFP4 has a scale of 8 bits for each 16 elements, MXFP4 for each 32 (OCP Microscaling formats 1.0); those of
        eight-bit weights, one for 128 x 128 elements or a channel, are left out.
        """
        if bits > _FOUR:
            return 0.0
        return 8.0 / 32.0 if self.precision == "mxfp4" else 8.0 / 16.0

    def expert_padding(self, model: Model, device: Accelerator) -> float:
        """Elements of a routed expert as they lie in memory, over those of the checkpoint.

        Without 4-bit matrix units MXFP4 experts are multiplied by Marlin's kernels on Ampere and Ada, and vLLM fills
        their rows up to whole tiles: hidden to 256, a rank's part of the intermediate dimension to 128
        (`Mxfp4MoEMethod.create_weights`). Other kernels, some of which pad too, are taken as without.
        """
        if self.precision != "mxfp4" or device.architecture not in _MARLIN or model.experts == 0:
            return 1.0
        intermediate = model.moe_ffn / max(self.stage_ranks // self.ep, 1)
        return math.prod(
            math.ceil(size / tile) * tile / size
            for size, tile in zip((model.expert_dim or model.hidden, intermediate), _MARLIN_TILE, strict=True)
        )

    def weight_bits(self, model: Model) -> tuple[int, int]:
        """Bits of a dense weight and of a routed expert's.

        Published 4-bit checkpoints of models with latent attention keep attention in 8 bits or more
        (nvidia/DeepSeek-R1-NVFP4 quantises the MLPs only); MXFP4 ones keep all but the experts in 16.
        """
        bits = _BITS[self.precision]
        if self.precision == "mxfp4":
            return 16, 4
        if bits == 4 and model.mla is not None:
            return 8, 4
        return bits, bits
