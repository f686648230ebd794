"""Software: graphs, fused kernels, overlap, the newest profile."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING

from railyard.study.remedies import Proposals, Remedy, proposals
from railyard.study.remedies.changed import retrained, with_layout
from railyard.workload.training import profiles

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from typing import Any

    from railyard.study.remedies import Waits
    from railyard.study.training.prepare import Prepared

# Megatron's user-buffer overlap hides about this share of tensor-parallel collectives (spec.py's own default).
_TENSOR_OVERLAP = 0.7
_FUSED = ("fused_norm", "fused_activation", "fused_residual", "fused_rope", "fused_loss")


def propose(job: Prepared, waits: Waits) -> Iterator[Remedy]:
    """What other software of the job would do."""
    software, layout = job.training.software, job.training.layout
    if not software.cuda_graphs and waits.of("waiting for the host") > 0:
        yield Remedy("CUDA graphs", "software", "waiting for the host", _with_software(job, cuda_graphs=True))
    plain = [name for name in _FUSED if not getattr(software, name)]
    if plain:
        words = ", ".join(name.removeprefix("fused_") for name in plain)
        changes = dict.fromkeys(plain, True)
        yield Remedy(f"fused kernels ({words})", "software", "passes over memory", _with_software(job, **changes))
    if layout.tp > 1 and not layout.overlap_tensor:
        yield _tensor_overlap(job)
    newest = profiles.default(job.cluster.accelerator)
    if newest.name != software.name:
        name = f"software {newest.name} in place of {software.name}"
        yield Remedy(name, "software", "computation", lambda: retrained(job, job.training.replace(software=newest)))
    if layout.ep > 1 and not layout.overlap_expert:
        changed = with_layout(job, overlap_expert=True)
        yield Remedy("expert all-to-all overlapped", "software", "exposed communication", changed)
    if layout.dp > 1 and not (layout.overlap_gradient and layout.overlap_parameter):
        changed = with_layout(job, overlap_gradient=True, overlap_parameter=True)
        yield Remedy("gradients and parameters overlapped", "software", "exposed communication", changed)


def _with_software(job: Prepared, **changes: Any) -> Callable[[], Prepared]:
    software = dataclasses.replace(job.training.software, **changes)
    return lambda: retrained(job, job.training.replace(software=software))


def _tensor_overlap(job: Prepared) -> Remedy:
    software, layout = job.training.software, job.training.layout
    share = software.tensor_overlap or _TENSOR_OVERLAP
    assumes = "" if software.tensor_overlap else f"tensor_overlap {share:g}, which profile {software.name} lacks"
    training = job.training.replace(
        layout=layout.replace(overlap_tensor=True), software=dataclasses.replace(software, tensor_overlap=share)
    )
    return Remedy(
        "tensor-parallel overlap", "software", "exposed communication", lambda: retrained(job, training), assumes
    )


proposals.add("software", Proposals("software", propose))
