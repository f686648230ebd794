"""Other layouts: one key changed, or the layout that the closed form finds fastest."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from railyard.kit.errors import InputError
from railyard.model.machine import Machine
from railyard.work.remedies import Proposals, Remedy, proposals
from railyard.work.study import compose
from railyard.work.study.study import prepare
from railyard.work.training.fastest import closed_s
from railyard.work.training.layout import candidates
from railyard.work.training.likely import PARALLELISM
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
