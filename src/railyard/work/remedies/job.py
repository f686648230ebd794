"""Remedies of a job's own: software, precision, checkpoints, repair, and other layouts."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from railyard.kit.errors import InputError
from railyard.model.machine import Machine
from railyard.work.remedies import Proposals, Remedy, proposals
from railyard.work.scenario.section import fault_of
from railyard.work.study import compose
from railyard.work.study.deaths import listed, words
from railyard.work.study.study import prepare
from railyard.work.training import profiles
from railyard.work.training.fastest import closed_s
from railyard.work.training.layout import candidates
from railyard.work.training.likely import PARALLELISM
from railyard.work.training.parameters import supports
from railyard.work.training.spec import Layout

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from railyard.work.remedies import Waits
    from railyard.work.training.prepare import Prepared
    from railyard.work.training.spec import Training


_DOMAINS = "cluster.ranks_per_domain"


def changed(job: Prepared, changes: Mapping[str, Any]) -> Prepared:
    """The job with other values under some scenario keys; a layout that was searched for is kept.

    Its faults are those of the scenario, not sorted by effect.

    Raises:
        InputError: The job then does not divide, does not fit or cannot be built.
    """
    fixed: dict[str, Any] = {PARALLELISM: job.training.layout.parallelism()}
    if job.cluster.spec.ranks_per_domain is not None:
        fixed[_DOMAINS] = job.cluster.spec.ranks_per_domain
    text = ", ".join(f"{key} {value}" for key, value in changes.items())
    draft = job.variant.draft.with_values({**fixed, **changes}, text)
    other: Prepared = prepare(draft, engine=job.engine.name)[0]
    use = compose.domain_use_of(other.cluster, other.training.layout)
    if use is not None and other.cluster.spec.ranks_per_domain is None:
        raise InputError("tensor or expert groups would straddle scale-up domains", key="ranks_per_domain")
    compose.check_step(other.training)
    return other


def of_layout(**changes: Any) -> dict[str, Any]:
    """Layout keys as scenario keys."""
    return {f"{PARALLELISM}.{name}": value for name, value in changes.items()}


def propose_layout(job: Prepared, waits: Waits) -> Iterator[Remedy]:
    """Less recomputation, other micro-batches, more virtual stages, another schedule."""
    layout = job.training.layout
    if job.layouts:  # `auto` has already tried these
        return
    if layout.recompute == "full":
        yield Remedy("selective recomputation", "layout", "recompute", of_layout(recompute="selective"))
    if layout.recompute != "none":
        yield Remedy("no recomputation", "layout", "recompute", of_layout(recompute="none"))
    if layout.replica_batch >= 2 * layout.micro_batch:
        size = 2 * layout.micro_batch
        yield Remedy(f"micro-batch {size}", "layout", "computation", of_layout(micro_batch=size))
    if layout.micro_batch > 1 and layout.micro_batch % 2 == 0 and layout.pp > 1:
        size = layout.micro_batch // 2
        yield Remedy(f"micro-batch {size}", "layout", "pipeline bubble", of_layout(micro_batch=size))
    if layout.pp > 1:
        yield from _pipelined(job)
    if layout.zero == 3 and layout.reshard and waits.of("exposed communication") > 0:
        changes = of_layout(reshard=False)
        yield Remedy("parameters kept after forward", "layout", "exposed communication", changes)


def _pipelined(job: Prepared) -> Iterator[Remedy]:
    layout = job.training.layout
    has = job.training.software.schedules
    if layout.schedule != "zero-bubble" and "interleaved" in has:
        stages = 2 * layout.vp
        changes = of_layout(vp=stages, schedule="interleaved")
        yield Remedy(f"{stages} virtual stages", "layout", "pipeline bubble", changes)
    if layout.schedule == "1f1b" and "zero-bubble" in has:
        changes = of_layout(schedule="zero-bubble")
        yield Remedy("zero-bubble schedule", "layout", "pipeline bubble", changes)


proposals.enter(Proposals("layout", propose_layout, in_run=True))


WORTH = 0.02
"""Relative speedup in the closed form that makes a simulation worthwhile."""


def propose_other_layout(job: Prepared, waits: Waits) -> Iterator[Remedy]:
    """One other layout, if one looks worth a simulation."""
    del waits
    if job.layouts or job.training.communication is not None:
        return
    found = _fastest(job)
    if found is not None:
        changes = {PARALLELISM: found.layout.parallelism()}
        yield Remedy(f"layout {found.layout}", "layout", "exposed communication", changes)


def _fastest(job: Prepared) -> Training | None:
    plain = job.training.replace(layout=Layout(global_batch=job.training.layout.global_batch))
    try:
        fit = candidates(plain, Machine.of(job.cluster), job.cluster.ranks, fixed={})
    except InputError:
        return None
    # A layout that needs other scale-up domains is another cluster.
    found = [one for one in fit if compose.domain_use_of(job.cluster, one.layout) is None]
    if not found:
        return None
    steps = closed_s([*found, job.training], job.cluster)
    best = int(np.argmin(steps[:-1]))
    return found[best] if steps[best] < (1 - WORTH) * steps[-1] else None


proposals.enter(Proposals("other layout", propose_other_layout, in_run=True))


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
