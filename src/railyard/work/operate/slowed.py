"""Who slowed whom, and what that cost."""

from __future__ import annotations

from typing import TYPE_CHECKING

from railyard.measure.result.operate import SlowedRow
from railyard.work.operate.rules import HOUR, PPM

if TYPE_CHECKING:
    from railyard.work.operate.loop import Operation
    from railyard.work.operate.steady import Period

WORST = 10
"""Pairs of a job and its noisy neighbour that are named."""


def slowed_by(run: Operation, window: Period) -> tuple[SlowedRow, ...]:
    """Who cost whom most: pairs by the accelerator time that a job lost while a neighbour sent most of what it met.

    Args:
        run: That has ended.
        window: Whose time counts.
    """
    state, last = run.state, run.ledger.time_us
    lost: dict[tuple[int, int], int] = {}
    since: dict[int, tuple[int, int, int]] = {}
    ends = [(end if end >= 0 else last, job, PPM, -1) for job, end in enumerate(state.end_us) if state.attempts[job]]
    for time, job, speed, culprit in sorted([*state.slowed, *ends]):
        begun, before, who = since.pop(job, (time, PPM, -1))
        if who >= 0:
            span = max(min(time, window.end_us) - max(begun, window.start_us), 0)
            lost[job, who] = lost.get((job, who), 0) + span * (PPM - before) // PPM * state.accelerators[job]
        since[job] = (time, speed, culprit)
    worst = sorted(lost.items(), key=lambda pair: (-pair[1], pair[0]))[:WORST]
    names = run.jobs.name
    return tuple(
        SlowedRow(job=names[job], by=names[who], accelerator_hours=value / HOUR) for (job, who), value in worst if value
    )
