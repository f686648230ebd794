"""Repairing what is broken."""

from __future__ import annotations

from typing import TYPE_CHECKING

from railyard.scenario.unions import fault_of
from railyard.study.deaths import listed, words
from railyard.study.remedies import Proposals, Remedy, proposals

if TYPE_CHECKING:
    from collections.abc import Iterator

    from railyard.study.remedies import Waits
    from railyard.study.training.prepare import Prepared


def propose(job: Prepared, waits: Waits) -> Iterator[Remedy]:
    """All faults of the scenario at once: `run` knows the step without them already and does not try it."""
    del waits
    names = [words(fault_of(fault)) for fault in job.variant.draft.scenario.faults]
    if names:
        yield Remedy(f"repair of {listed(names)}", "repair", "faults", {"faults": []})


proposals.add("repair", Proposals("repair", propose))
