"""Ranks in another order over the servers."""

from __future__ import annotations

from typing import TYPE_CHECKING

from railyard.cluster.placement import policies
from railyard.work.remedies import Proposals, Remedy, proposals

if TYPE_CHECKING:
    from collections.abc import Iterator

    from railyard.work.remedies import Waits
    from railyard.work.training.prepare import Prepared

_WORTH = 0.005


def propose(job: Prepared, waits: Waits) -> Iterator[Remedy]:
    """Every policy that keeps neighbouring ranks in one domain and leaves nothing to chance."""
    here = job.variant.draft.scenario.cluster.placement
    if waits.network < _WORTH:
        return
    for name, policy in policies.items():
        if name != here and policy.keeps_domains and not policy.seeded:
            changes = {"cluster.placement": name}
            yield Remedy(f"placement {name}", "placement", "exposed communication", changes)


proposals.add("placement", Proposals("placement", propose, in_run=True))
