"""One key of the layout changed."""

from __future__ import annotations

from typing import TYPE_CHECKING

from railyard.work.remedies import Proposals, Remedy, proposals
from railyard.work.remedies.changed import of_layout

if TYPE_CHECKING:
    from collections.abc import Iterator

    from railyard.work.remedies import Waits
    from railyard.work.training.prepare import Prepared


def propose(job: Prepared, waits: Waits) -> Iterator[Remedy]:
    """Less recomputation, other micro-batches, more virtual stages, another schedule."""
    layout = job.training.layout
    if job.layouts:  # `auto` has tried these
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
    if layout.schedule != "zero-bubble":
        stages = 2 * layout.vp
        changes = of_layout(vp=stages, schedule="interleaved")
        yield Remedy(f"{stages} virtual stages", "layout", "pipeline bubble", changes)
    if layout.schedule == "1f1b":
        changes = of_layout(schedule="zero-bubble")
        yield Remedy("zero-bubble schedule", "layout", "pipeline bubble", changes)


proposals.add("layout", Proposals("layout", propose, in_run=True))
