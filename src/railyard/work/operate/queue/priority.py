"""`priority`: larger priorities first; a job may take the place of running ones of smaller priority."""

from __future__ import annotations

from typing import TYPE_CHECKING

from railyard.work.operate.discipline import Discipline, disciplines

if TYPE_CHECKING:
    from railyard.work.operate.state import State


def _key(state: State, job: int) -> tuple[float, ...]:
    return (-int(state.jobs.priority[job]),)


PRIORITY = disciplines.add(
    "priority", Discipline("priority", "Larger priorities first; they preempt smaller ones.", _key, preempts=True)
)
