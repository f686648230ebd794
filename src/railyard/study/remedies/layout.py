"""One key of the layout changed."""

from __future__ import annotations

from typing import TYPE_CHECKING

from railyard.study.remedies import Proposals, Remedy, proposals
from railyard.study.remedies.changed import with_layout

if TYPE_CHECKING:
    from collections.abc import Iterator

    from railyard.study.remedies import Waits
    from railyard.study.training.prepare import Prepared


def propose(job: Prepared, waits: Waits) -> Iterator[Remedy]:
    """Less recomputation, other micro-batches, more virtual stages, another schedule."""
    layout = job.training.layout
    if layout.recompute == "full":
        yield Remedy("selective recomputation", "layout", "recompute", with_layout(job, recompute="selective"))
    if layout.recompute != "none":
        yield Remedy("no recomputation", "layout", "recompute", with_layout(job, recompute="none"))
    if layout.replica_batch >= 2 * layout.micro_batch:
        size = 2 * layout.micro_batch
        yield Remedy(f"micro-batch {size}", "layout", "computation", with_layout(job, micro_batch=size))
    if layout.micro_batch > 1 and layout.micro_batch % 2 == 0 and layout.pp > 1:
        size = layout.micro_batch // 2
        yield Remedy(f"micro-batch {size}", "layout", "pipeline bubble", with_layout(job, micro_batch=size))
    if layout.pp > 1:
        yield from _pipelined(job)
    if layout.zero == 3 and layout.reshard and waits.of("exposed communication") > 0:
        changed = with_layout(job, reshard=False)
        yield Remedy("parameters kept after forward", "layout", "exposed communication", changed)


def _pipelined(job: Prepared) -> Iterator[Remedy]:
    layout = job.training.layout
    if layout.schedule != "zero-bubble":
        stages = 2 * layout.vp
        changed = with_layout(job, vp=stages, schedule="interleaved")
        yield Remedy(f"{stages} virtual stages", "layout", "pipeline bubble", changed)
    if layout.schedule == "1f1b":
        changed = with_layout(job, schedule="zero-bubble")
        yield Remedy("zero-bubble schedule", "layout", "pipeline bubble", changed)


proposals.add("layout", Proposals("layout", propose))
