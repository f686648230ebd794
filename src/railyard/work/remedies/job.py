"""Software, precision, checkpoints, and repair of what is broken."""

from __future__ import annotations

from typing import TYPE_CHECKING

from railyard.work.remedies import Proposals, Remedy, proposals
from railyard.work.remedies.layouts import of_layout
from railyard.work.scenario.section import fault_of
from railyard.work.study.deaths import listed, words
from railyard.work.training import profiles
from railyard.work.training.parameters import supports

if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any

    from railyard.work.remedies import Waits
    from railyard.work.training.prepare import Prepared


# Megatron's user-buffer overlap hides about this share of tensor-parallel collectives (spec.py's own default).
_TENSOR_OVERLAP = 0.7
_SOFTWARE = "workload.training.software"
_FUSED = ("fused_norm", "fused_activation", "fused_residual", "fused_rope", "fused_loss")


def propose_software(job: Prepared, waits: Waits) -> Iterator[Remedy]:
    """Other software options of the job."""
    software, layout = job.training.software, job.training.layout
    if not software.cuda_graphs and waits.of("waiting for the host") > 0:
        yield Remedy("CUDA graphs", "software", "waiting for the host", _of_software(cuda_graphs=True))
    plain = [name for name in _FUSED if not getattr(software, name)]
    if plain:
        words = ", ".join(name.removeprefix("fused_") for name in plain)
        changes: dict[str, Any] = dict.fromkeys(plain, True)
        yield Remedy(f"fused kernels ({words})", "software", "passes over memory", _of_software(**changes))
    if layout.tp > 1 and not layout.overlap_tensor:
        yield _tensor_overlap(job)
    newest = profiles.default(job.cluster.accelerator)
    if newest.name != software.name:
        name = f"software {newest.name} in place of {software.name}"
        yield Remedy(name, "software", "computation", {_SOFTWARE: newest.name})
    if layout.ep > 1 and not layout.overlap_expert:
        changes = of_layout(overlap_expert=True)
        yield Remedy("expert all-to-all overlapped", "software", "exposed communication", changes)
    if layout.dp > 1 and not (layout.overlap_gradient and layout.overlap_parameter):
        changes = of_layout(overlap_gradient=True, overlap_parameter=True)
        yield Remedy("gradients and parameters overlapped", "software", "exposed communication", changes)


def _of_software(**changes: Any) -> dict[str, Any]:
    return {f"{_SOFTWARE}.{name}": value for name, value in changes.items()}


def _tensor_overlap(job: Prepared) -> Remedy:
    software = job.training.software
    share = software.tensor_overlap or _TENSOR_OVERLAP
    assumes = "" if software.tensor_overlap else f"the software overlaps as `tensor_overlap: {share:g}` says"
    changes = {**of_layout(overlap_tensor=True), **_of_software(tensor_overlap=share)}
    return Remedy("tensor-parallel overlap", "software", "exposed communication", changes, assumes)


proposals.enter(Proposals("software", propose_software))


def propose_precision(job: Prepared, waits: Waits) -> Iterator[Remedy]:
    """FP8 if the device supports it."""
    del waits
    training, accelerator = job.training, job.cluster.accelerator
    if training.precision in ("bf16", "fp16") and supports("fp8", accelerator):
        changes = {"workload.training.precision": "fp8"}
        yield Remedy("FP8 precision", "precision", "computation", changes, "the loss converges as in 16 bits")


proposals.enter(Proposals("precision", propose_precision, in_run=True))


def propose_checkpoints(job: Prepared, waits: Waits) -> Iterator[Remedy]:
    """Daly's interval if the job uses another."""
    section, steps = job.training.checkpoint, waits.best_interval_steps
    if section is None or steps is None or steps == section.interval_steps:
        return
    changes = {"workload.training.checkpoint.interval_steps": steps}
    yield Remedy(f"a checkpoint every {steps:,} steps", "checkpoint interval", "checkpoints", changes)


proposals.enter(Proposals("checkpoint interval", propose_checkpoints, in_run=True))


def propose_repair(job: Prepared, waits: Waits) -> Iterator[Remedy]:
    """Repair of all faults of the scenario at once. `run` does not try it: it already knows the step without faults."""
    del waits
    names = [words(fault_of(fault)) for fault in job.variant.draft.scenario.faults]
    if names:
        yield Remedy(f"repair of {listed(names)}", "repair", "faults", {"faults": []})


proposals.enter(Proposals("repair", propose_repair))
