"""More queue pairs a connection, where the fabric sends each by a path of its own."""

from __future__ import annotations

from typing import TYPE_CHECKING

from railyard.work.remedies import Proposals, Remedy, proposals

if TYPE_CHECKING:
    from collections.abc import Iterator

    from railyard.work.remedies import Waits
    from railyard.work.training.prepare import Prepared

_COUNTS = (4, 16)
_WORTH = 0.005


def propose(job: Prepared, waits: Waits) -> Iterator[Remedy]:
    """Counts above the fabric's."""
    fabric = job.cluster.fabric
    if waits.network < _WORTH or not (fabric.hashed and fabric.tells_queue_pairs_apart):
        return
    for count in _COUNTS:
        if count > fabric.qps:
            changes = {"cluster.back_end.fabric.qps": count}
            yield Remedy(f"{count} queue pairs", "queue pairs", "exposed communication", changes)


proposals.add("queue pairs", Proposals("queue pairs", propose, in_run=True, bounded=True))
