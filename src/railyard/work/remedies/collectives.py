"""The fastest algorithm of every collective, where the library's own choice is another."""

from __future__ import annotations

from typing import TYPE_CHECKING

from railyard.work.remedies import Proposals, Remedy, proposals

if TYPE_CHECKING:
    from collections.abc import Iterator

    from railyard.work.remedies import Waits
    from railyard.work.training.prepare import Prepared

_WORTH = 0.005


def propose(job: Prepared, waits: Waits) -> Iterator[Remedy]:
    """A tuner that takes the algorithm and protocol of the shortest predicted time."""
    if job.variant.draft.scenario.collectives.selector == "best" or waits.network < _WORTH:
        return
    note = "a tuner plugin, or `NCCL_ALGO` and `NCCL_PROTO`, chooses them by size"
    yield Remedy("fastest collectives", "collectives", "exposed communication", {"collectives.selector": "best"}, note)


proposals.add("collectives", Proposals("collectives", propose, in_run=True))
