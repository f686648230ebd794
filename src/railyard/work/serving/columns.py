"""Deployments as columns: one row a replica on one kind of device, one array a quantity.

Every formula of the serving model is written once, over these arrays; one replica is a table of one row.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from railyard.model.architecture import ModelColumns
from railyard.model.columns import columns_of
from railyard.model.device import DeviceColumns
from railyard.model.machine import MachineColumns

if TYPE_CHECKING:
    from railyard.catalog import Model
    from railyard.model.columns import F
    from railyard.model.machine import Machine
    from railyard.work.serving.layout import ServingLayout


@dataclass(frozen=True, slots=True)
class ServingLayoutColumns:
    """Layout and widths: parallel degrees, bits of weights stored (with scales) and multiplied, of a cached one.

    `expert_padding`: elements of an expert in memory, over those of the checkpoint.
    """

    tp: F
    pp: F
    dp: F
    cp: F
    ep: F
    expert_tp: F
    dense_bits: F
    expert_bits: F
    dense_math: F
    expert_math: F
    kv_bits: F
    expert_padding: F

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
            ModelColumns.of([model for model, _, _ in replicas]),
            columns_of(ServingLayoutColumns, replicas, _layout_row),
            DeviceColumns.of([machine.accelerator for machine in machines]),
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
