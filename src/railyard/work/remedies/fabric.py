"""Another fabric on the same switches and cables, and the one without any contention as the bound."""

from __future__ import annotations

from typing import TYPE_CHECKING

from railyard.cluster.fabric.fabric import bought, fabrics
from railyard.work.remedies import Proposals, Remedy, proposals

if TYPE_CHECKING:
    from collections.abc import Iterator

    from railyard.work.remedies import Waits
    from railyard.work.training.prepare import Prepared

_BOUND = "ideal"
# Share of the step that waits for the network, below which no other fabric is tried.
_WORTH = 0.005


def propose(job: Prepared, waits: Waits) -> Iterator[Remedy]:
    """The bound, then the fabrics on sale that spread packets over all links, then reduction in the switches."""
    fabric = job.cluster.fabric
    if waits.network < _WORTH or fabric.name == _BOUND:
        return
    spreading = (name for name in bought() if name != _BOUND and fabrics.get(name).bundled)
    for name in (_BOUND, *spreading):
        if name != fabric.name:
            bound = name == _BOUND
            note = "a bound: no such fabric is sold" if bound else ""
            other = {"cluster.back_end.fabric": {"name": name}}
            yield Remedy(f"fabric {name}", "fabric", "exposed communication", other, note, bound)
    if fabric.name == "infiniband" and not fabric.sharp:
        changes = {"cluster.back_end.fabric.sharp": True}
        yield Remedy(
            "SHARP", "collectives", "exposed communication", changes, "its Quantum switches have SHARP licensed"
        )


proposals.add("fabric", Proposals("fabric", propose, in_run=True, bounded=True))
