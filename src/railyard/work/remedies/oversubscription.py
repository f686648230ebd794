"""Half the oversubscription where the network costs time, twice where it costs only money."""

from __future__ import annotations

from typing import TYPE_CHECKING

from railyard.work.remedies import Proposals, Remedy, proposals

if TYPE_CHECKING:
    from collections.abc import Iterator

    from railyard.work.remedies import Waits
    from railyard.work.training.prepare import Prepared

_KEY = "cluster.back_end.topology.oversubscription"
_WORTH = 0.005
# Beyond it nobody builds a back-end: Meta's RoCE fabrics stop at 7:1 between pods (Llama 3 Herd of Models, 3.3.1).
_MOST = 8.0


def propose(job: Prepared, waits: Waits) -> Iterator[Remedy]:
    """One other ratio between leafs and spines, where the topology has one."""
    ratio: float | None = getattr(job.cluster.spec.back_end.topology, "oversubscription", None)
    if ratio is None or not any(tier.kind == "fabric" for tier in job.cluster.back_end.tiers):
        return
    if waits.network >= _WORTH and ratio > 1.0:
        yield _remedy(max(ratio / 2, 1.0), "exposed communication")
    elif waits.network < _WORTH and 2 * ratio <= _MOST:
        yield _remedy(2 * ratio, "capital")


def _remedy(ratio: float, removes: str) -> Remedy:
    written = f"{ratio:g}:1"
    return Remedy(f"oversubscription {written}", "oversubscription", removes, {_KEY: written})


proposals.add("oversubscription", Proposals("oversubscription", propose, in_run=True))
