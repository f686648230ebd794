"""What collectives take from computation beside them: compute units and memory bandwidth.

A collective's kernel holds a number of compute units from its start to its end, and moves its bytes through the memory
of every rank. A pass beside it is the same pass on a smaller device: output tiles take whole waves of the units that
are left, streams the bandwidth that is left. What share of its speed the pass loses that way is its *loss*; a
collective of t seconds beside it makes it t * loss seconds longer.

Collectives that are pipelined with one product or one attention core (tensor and context parallelism) run beside
kernels that compute units bound: they take the share of the units. Those that run beside whole passes (experts' tokens
under another micro-batch, gradients, parameters) are worked out on the smaller device.
"""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from railyard.work.training.alpha_beta import Group, wire_bytes_s
from railyard.work.training.passes import layer_passes

if TYPE_CHECKING:
    from railyard.model.columns import F
    from railyard.model.machine import MachineColumns
    from railyard.work.training.columns import Columns
    from railyard.work.training.passes import LayerPasses, Pass

# Kinds of collectives by what they take, in the order of a graph's columns of losses.
CONTENDERS = ("tp", "cp", "ep", "dp")

# Times that a byte on the wire goes through a rank's memory. A gather and an exchange read what they send and write
# what they receive; a reduction reads its own operand too, so that gathers and reductions together do it 2.5 times.
_EXCHANGE_ACCESSES, _REDUCTION_ACCESSES = 2.0, 2.5
# Streams are handed out in turn, so that neither side is left without memory bandwidth.
_MOST_MEMORY = 0.5


@dataclass(frozen=True, slots=True)
class Loss:
    """Shares of the speed of a forward and of a backward pass, by what runs beside them; keys of `CONTENDERS`."""

    forward: dict[str, F]
    backward: dict[str, F]

    def of(self, group: str, phase: str) -> F:
        """What collectives of a group take from the passes of a phase."""
        return (self.backward if phase == "backward" else self.forward)[group]


@dataclass(frozen=True, slots=True)
class ConcurrentPasses:
    """Passes of every part of the model while a collective runs beside them.

    Attributes:
        tensor: Share of the compute units that tensor- and context-parallel collectives take.
        expert: The passes beside an expert exchange, None where no design has one.
        data: The passes beside reductions and gathers, None where no design has any.
    """

    tensor: F
    expert: LayerPasses | None
    data: LayerPasses | None

    def loss(self, alone: Pass, stage: tuple[F | float, F | float, F | float, F | float]) -> Loss:
        """Losses of the passes through what a rank holds.

        Args:
            alone: The passes with the device to themselves.
            stage: Layers, layers with experts, embeddings and heads, as `LayerPasses.stage` takes them.
        """
        forward = {"tp": self.tensor, "cp": self.tensor}
        backward = dict(forward)
        for group, passes in (("ep", self.expert), ("dp", self.data)):
            ahead = back = np.zeros_like(self.tensor)
            if passes is not None:
                slowed = passes.stage(*stage)
                ahead = _lost(alone.forward, slowed.forward)
                back = _lost(
                    alone.backward_input + alone.backward_weight, slowed.backward_input + slowed.backward_weight
                )
            forward[group], backward[group] = ahead, back
        return Loss(forward, backward)


def concurrent_passes(columns: Columns, machine: MachineColumns) -> ConcurrentPasses:
    """Passes of every part of the model while the collectives of each design run."""
    layout, software = columns.layout, columns.software
    units = columns.device.units
    expert, data = None, None
    if np.any((layout.overlap_expert > 0) & (layout.ep > 1)):
        group, seen = Group(layout.ep, layout.expert_tp), machine.seen_by("ep")
        wire = wire_bytes_s(group, seen, software.expert_fraction, exchange=True)
        expert = layer_passes(_smaller(columns, software.expert_ctas / units, _EXCHANGE_ACCESSES * wire))
    if np.any((layout.dp * layout.cp > 1) & ((layout.overlap_gradient > 0) | (layout.overlap_parameter > 0))):
        group = Group(np.where(layout.zero >= 3, layout.shard, layout.dp * layout.cp), layout.tp)
        wire = wire_bytes_s(group, machine.seen_by("dp"), software.collective_fraction)
        data = layer_passes(_smaller(columns, software.data_ctas / units, _REDUCTION_ACCESSES * wire))
    return ConcurrentPasses(_share(columns, software.tensor_ctas / units), expert, data)


def _share(columns: Columns, stated: F) -> F:
    """The stated share of the compute units, else what the software's collectives take in general."""
    return np.clip(np.where(np.isnan(stated), columns.software.communication_sms, stated), 0.0, 0.9)


def _smaller(columns: Columns, stated: F, memory_bytes_s: F) -> Columns:
    """The same designs on what a collective leaves of their devices."""
    device = columns.device
    left = np.maximum(np.floor(device.units * (1.0 - _share(columns, stated)) + 1e-9), 1.0)
    part = left / device.units
    memory = 1.0 - np.minimum(memory_bytes_s / device.hbm_bytes_s, _MOST_MEMORY)
    rates = {name: getattr(device, name) * part for name in ("gemm16", "gemm8", "gemm4", "attention")}
    smaller = dataclasses.replace(device, units=left, hbm_bytes_s=device.hbm_bytes_s * memory, **rates)
    return dataclasses.replace(columns, device=smaller)


def _lost(alone: F, slowed: F) -> F:
    return np.clip(1.0 - alone / np.maximum(slowed, 1e-15), 0.0, 0.9) * (alone > 0)
