"""Classes of traffic: what jobs of a higher class leave to those of lower ones on links that they share."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from railyard.engine.faults import REROUTED

if TYPE_CHECKING:
    from collections.abc import Sequence

    from railyard.engine.faults import Row
    from railyard.engine.lowering import Lowered
    from railyard.graph import Merged

ABOVE = 32.0
"""Times a class gets what the one below it gets of a full link: 97 %, near to strict priority, and no class starves.

Weights of 802.1Qaz (ETS) go from 1 to 100 %; Crux (SIGCOMM 2024) sets strict priorities, of which there are eight.
"""
CLASSES = 8


def prioritized(lowered: Lowered, rows: Sequence[Row], merged: Merged) -> Lowered:
    """Weights by the classes of jobs; where all jobs are of one class nothing changes.

    Args:
        lowered: Entities of all jobs.
        rows: Changes of state; rows that entities take while links are dead are of the same class.
        merged: The jobs.
    """
    priority = np.array([job.priority for job in merged.jobs])
    if np.all(priority == priority[0]):
        return lowered
    named = lowered.entity >= 0
    factor = np.ones(len(lowered.entities))
    factor[lowered.entity[named]] = ABOVE ** priority[merged.job[named]]
    for _, kind, entity, row, _ in rows:
        if kind == REROUTED:
            factor[int(row)] = factor[entity]
    entities = replace(lowered.entities, fair_weight=lowered.entities.fair_weight * factor)
    return replace(lowered, entities=entities)
