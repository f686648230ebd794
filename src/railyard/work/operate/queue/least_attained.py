"""`least-attained`: jobs that had least accelerator time first, in two classes, first come first served in each.

Tiresias' discretized two-dimensional least attained service with two queues; the threshold is `attained_us` of the
rules. Source: J. Gu et al., "Tiresias: A GPU Cluster Manager for Distributed Deep Learning", NSDI 2019, section 4.2.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from railyard.work.operate.discipline import Discipline, disciplines

if TYPE_CHECKING:
    from railyard.work.operate.state import State


def _key(state: State, job: int) -> tuple[float, ...]:
    return (float(state.done_us[job] * state.accelerators[job] >= state.rules.attained_us),)


LEAST_ATTAINED = disciplines.add(
    "least-attained",
    Discipline(
        "least-attained",
        "Jobs with little service so far first; they preempt those with much.",
        _key,
        renews=True,
        preempts=True,
    ),
)
