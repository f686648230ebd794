"""Repairing what is broken."""

from __future__ import annotations

from typing import TYPE_CHECKING

from railyard.work.remedies import Proposals, Remedy, proposals
from railyard.work.scenario.section import fault_of
from railyard.work.study.deaths import listed, words

if TYPE_CHECKING:
    from collections.abc import Iterator

    from railyard.work.remedies import Waits
    from railyard.work.training.prepare import Prepared


def propose(job: Prepared, waits: Waits) -> Iterator[Remedy]:
    """All faults of the scenario at once: `run` knows the step without them already and does not try it."""
    del waits
    names = [words(fault_of(fault)) for fault in job.variant.draft.scenario.faults]
    if names:
        yield Remedy(f"repair of {listed(names)}", "repair", "faults", {"faults": []})


proposals.add("repair", Proposals("repair", propose))
