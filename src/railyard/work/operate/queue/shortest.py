"""`shortest`: what needs the fewest accelerator-hours for the rest of its work first."""

from __future__ import annotations

from typing import TYPE_CHECKING

from railyard.work.operate.discipline import Discipline, disciplines

if TYPE_CHECKING:
    from railyard.work.operate.state import State


def _key(state: State, job: int) -> tuple[float, ...]:
    return (float(state.left_us(job) * state.accelerators[job]),)


SHORTEST = disciplines.add(
    "shortest", Discipline("shortest", "The fewest accelerator-hours left first; a bound: nobody knows them.", _key)
)
