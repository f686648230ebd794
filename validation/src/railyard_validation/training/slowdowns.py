"""How much collectives slow concurrent kernels, against what was published."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from railyard.model.machine import MachineColumns
from railyard.work.training import Layout, Machine, Training
from railyard.work.training import operators as op
from railyard.work.training.columns import Columns
from railyard.work.training.passes import concurrent_passes, layer_passes
from railyard.work.training.spec import SoftwareProfile

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from railyard.catalog import Catalog

OVERLAP, WAVES = "arXiv 2507.03114", "NVIDIA developer forum 337991"


@dataclass(frozen=True)
class Slowdown:
    """One published figure: share of its speed that a computation loses while a collective runs.

    Attributes:
        what: That was measured.
        source: Who did.
        measured, predicted: The share, 0 to 1.
    """

    what: str
    source: str
    measured: float
    predicted: float


def slowdowns(known: Catalog) -> tuple[Slowdown, ...]:
    """Passes during FSDP's collectives on 4 GPUs of A100, H100 and MI250, and a product of exactly one wave of tiles.

    FSDP: 18.9 % slower on average, 40.0 % at most, where NCCL takes 16 to 24 units. The product: 132 tiles on the 132
    units of an H100 fell from 80 to 47 % of peak while NCCL held 24 units.
    """
    cases = [("a100-sxm-80gb", 16), ("a100-sxm-80gb", 24), ("h100-sxm", 16), ("h100-sxm", 24), ("mi250x", 16)]
    times = 1 / (1 - np.concatenate([beside_fsdp(known, device, ctas) for device, ctas in cases]))
    return (
        Slowdown("passes during FSDP, mean", OVERLAP, 1 - 1 / 1.189, 1 - 1 / float(times.mean())),
        Slowdown("passes during FSDP, most", OVERLAP, 1 - 1 / 1.4, 1 - 1 / float(times.max())),
        Slowdown("a product of one wave", WAVES, 1 - 47 / 80, beside_a_wave(known)),
    )


def beside_fsdp(known: Catalog, name: str, ctas: int) -> NDArray[np.float64]:
    """float64[passes], what forward and backward passes of small models lose on four GPUs of one server."""
    device, found = known.accelerator(name), []
    rates = Machine(
        accelerator=device, scale_up_bps=device.scale_up_collective_bps, scale_up_domain=8, scale_out_bps=4e11
    )
    for model in map(known.model, ("llama-2-7b", "llama-2-13b", "llama-3-8b")):
        for micro_batch in (1, 4, 8):
            layout = Layout(dp=4, zero=3, micro_batch=micro_batch, global_batch=4 * micro_batch)
            software = SoftwareProfile(name="test", data_ctas=ctas)
            columns = Columns.of([Training(model=model, layout=layout, seq_len=2048, software=software)], [device])
            held = (float(model.layers), 0.0, 1.0, 1.0)
            passes = concurrent_passes(columns, MachineColumns.of([rates]))
            loss = passes.loss(layer_passes(columns).stage(*held), held)
            found += [float(side["dp"][0]) for side in (loss.forward, loss.backward)]
    return np.array(found)


def beside_a_wave(known: Catalog) -> float:
    """What a product of 132 tiles loses when 24 of 132 units are taken."""
    device, model = known.accelerator("h100-sxm"), known.model("llama-3-8b")
    job = Training(model=model, layout=Layout(global_batch=1), seq_len=2048, software=SoftwareProfile(name="test"))
    columns = Columns.of([job], [device])
    fewer = columns.device.replace(units=columns.device.units - 24, gemm16=columns.device.gemm16 * 108 / 132)
    m, n, k, sixteen, two, one = (np.array([float(x)]) for x in (12 * 128, 11 * 256, 8192, 16, 2, 1))

    def seconds(on: Columns) -> float:
        rate = op.gemm_rate(on, sixteen)
        return float(op.gemm_s(on, m, n, k, bits=sixteen, out_bytes=two, batch=one, rate=rate)[0])

    return 1 - seconds(columns) / seconds(dataclasses.replace(columns, device=fewer))
