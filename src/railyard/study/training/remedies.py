"""What could be changed about a job, and what the step would then be: each remedy is applied and the step simulated.

A remedy changes the software, the layout, the precision or the fabric of the job as it is, one thing at a time; better
hardware is tried as in `measure.bottleneck`. One that the job does not allow (it would not fit in memory, it does not
divide, the device has no units for it) is listed with the reason.
"""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Literal

from railyard.errors import InputError
from railyard.schema.yaml import Mark, from_plain
from railyard.study import bounds, compose
from railyard.study.study import prepare
from railyard.workload.training import profiles
from railyard.workload.training.layout import check, check_fit
from railyard.workload.training.precision import supports

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from railyard.measure.explain import TimeTree
    from railyard.study.training.prepare import Prepared
    from railyard.workload.training.spec import Layout, SoftwareProfile, Training

Family = Literal["software", "layout", "precision", "fabric", "hardware"]

# Of the alternatives to a fabric, those that are sold beside it, and the one without any contention as the bound.
_FABRICS = ("infiniband", "spectrum-x", "uec", "scheduled", "ideal")
_BOUND = "a bound: no such fabric is sold"
# Exposed network time below which no other fabric is tried.
_WORTH = 0.005
# Megatron's user-buffer overlap hides about this share of tensor-parallel collectives (spec.py's own default).
_TENSOR_OVERLAP = 0.7
_FUSED = ("fused_norm", "fused_activation", "fused_residual", "fused_rope", "fused_loss")


@dataclass(frozen=True)
class Remedy:
    """One change of a job.

    Attributes:
        name: In the user's words.
        family: What kind of thing is changed.
        removes: Name of the branch of the tree that it is meant to shorten.
        apply: The job with the change; raises `InputError` where the job does not allow it.
        assumes: What it takes for granted, "" where nothing.
        bound: Whether nobody sells it, so that it has no price.
    """

    name: str
    family: Family
    removes: str
    apply: Callable[[], Prepared]
    assumes: str = ""
    bound: bool = False


def remedies(job: Prepared, tree: TimeTree) -> list[Remedy]:
    """Changes that speak to something in the tree of the job; what is done already is left out."""
    found = [*_software(job, tree), *_layout(job, tree), *_precision(job)]
    return [*found, *_fabrics(job, tree)]


def _changed(job: Prepared, training: Training) -> Prepared:
    """The job with another training, if it divides and fits.

    Raises:
        InputError: It does not.
    """
    check(training.model, training.layout, training.seq_len, job.cluster.ranks)
    bounds.check_step(training)
    check_fit(training, job.cluster.accelerator)
    return replace(job, training=training)


def _with_layout(job: Prepared, **changes: Any) -> Callable[[], Prepared]:
    return lambda: _changed(job, job.training.replace(layout=job.training.layout.replace(**changes)))


def _with_software(job: Prepared, **changes: Any) -> Callable[[], Prepared]:
    software = dataclasses.replace(job.training.software, **changes)
    return lambda: _changed(job, job.training.replace(software=software))


def _share(tree: TimeTree, *names: str) -> float:
    node = tree.find(*names)
    return tree.share(node) if node else 0.0


def _software(job: Prepared, tree: TimeTree) -> Iterator[Remedy]:
    software, layout = job.training.software, job.training.layout
    if not software.cuda_graphs and _share(tree, "waiting for the host") > 0:
        yield Remedy("CUDA graphs", "software", "waiting for the host", _with_software(job, cuda_graphs=True))
    plain = [name for name in _FUSED if not getattr(software, name)]
    if plain:
        words = ", ".join(name.removeprefix("fused_") for name in plain)
        changes = dict.fromkeys(plain, True)
        yield Remedy(f"fused kernels ({words})", "software", "passes over memory", _with_software(job, **changes))
    if layout.tp > 1 and not layout.overlap_tensor:
        yield _tensor_overlap(job, software, layout)
    newest = profiles.default(job.cluster.accelerator)
    if newest.name != software.name:
        name = f"software {newest.name} in place of {software.name}"
        yield Remedy(name, "software", "computation", lambda: _changed(job, job.training.replace(software=newest)))


def _tensor_overlap(job: Prepared, software: SoftwareProfile, layout: Layout) -> Remedy:
    share = software.tensor_overlap or _TENSOR_OVERLAP
    assumes = "" if software.tensor_overlap else f"tensor_overlap {share:g}, which profile {software.name} lacks"
    training = job.training.replace(
        layout=layout.replace(overlap_tensor=True), software=dataclasses.replace(software, tensor_overlap=share)
    )
    return Remedy(
        "tensor-parallel overlap", "software", "exposed communication", lambda: _changed(job, training), assumes
    )


def _layout(job: Prepared, tree: TimeTree) -> Iterator[Remedy]:
    layout = job.training.layout
    if layout.recompute == "full":
        yield Remedy("selective recomputation", "layout", "recompute", _with_layout(job, recompute="selective"))
    if layout.recompute != "none":
        yield Remedy("no recomputation", "layout", "recompute", _with_layout(job, recompute="none"))
    if layout.replica_batch >= 2 * layout.micro_batch:
        size = 2 * layout.micro_batch
        yield Remedy(f"micro-batch {size}", "layout", "computation", _with_layout(job, micro_batch=size))
    if layout.micro_batch > 1 and layout.micro_batch % 2 == 0 and layout.pp > 1:
        size = layout.micro_batch // 2
        yield Remedy(f"micro-batch {size}", "layout", "pipeline bubble", _with_layout(job, micro_batch=size))
    if layout.pp > 1 and layout.schedule != "zero-bubble":
        stages = 2 * layout.vp
        yield Remedy(
            f"{stages} virtual stages", "layout", "pipeline bubble",
            _with_layout(job, vp=stages, schedule="interleaved"),
        )  # fmt: skip
    if layout.pp > 1 and layout.schedule == "1f1b":
        changed = _with_layout(job, schedule="zero-bubble")
        yield Remedy("zero-bubble schedule", "layout", "pipeline bubble", changed)
    if layout.ep > 1 and not layout.overlap_expert:
        changed = _with_layout(job, overlap_expert=True)
        yield Remedy("expert all-to-all overlapped", "software", "exposed communication", changed)
    if layout.dp > 1 and not (layout.overlap_gradient and layout.overlap_parameter):
        changed = _with_layout(job, overlap_gradient=True, overlap_parameter=True)
        yield Remedy("gradients and parameters overlapped", "software", "exposed communication", changed)
    if layout.zero == 3 and layout.reshard and _share(tree, "exposed communication") > 0:
        changed = _with_layout(job, reshard=False)
        yield Remedy("parameters kept after forward", "layout", "exposed communication", changed)


def _precision(job: Prepared) -> Iterator[Remedy]:
    training, accelerator = job.training, job.cluster.accelerator
    if training.precision in ("bf16", "fp16") and supports("fp8", accelerator):
        yield Remedy(
            "FP8 products", "precision", "computation", lambda: _changed(job, training.replace(precision="fp8"))
        )


def _fabrics(job: Prepared, tree: TimeTree) -> Iterator[Remedy]:
    outside = [tier.name for tier in job.cluster.back_end.tiers]
    carried = sum(
        tree.share(node)
        for path, node in tree.root.walk()
        if not node.children and "exposed communication" in path and path[-1] in outside
    )
    if carried + _share(tree, "stragglers") < _WORTH:
        return
    here = job.cluster.fabric.name
    for name in _FABRICS:
        if name != here:
            bound = name == "ideal"
            change, note = _other_fabric(job, name), _BOUND if bound else ""
            yield Remedy(f"fabric {name}", "fabric", "exposed communication", change, note, bound)


def _other_fabric(job: Prepared, name: str) -> Callable[[], Prepared]:
    def apply() -> Prepared:
        node = from_plain({"name": name}, Mark(f"fabric {name}"))
        draft = job.variant.draft.changed({"cluster.back_end.fabric": node})
        other: Prepared = prepare(draft, engine=job.engine.name)[0]
        use = compose.domain_use_of(other.cluster, job.training.layout)
        if use is not None and other.cluster.spec.ranks_per_domain is None:
            raise InputError("tensor or expert groups would straddle scale-up domains", key="ranks_per_domain")
        return replace(other, training=job.training)

    return apply
