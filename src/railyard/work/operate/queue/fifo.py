"""`fifo`: in the order of submission."""

from __future__ import annotations

from typing import TYPE_CHECKING

from railyard.work.operate.discipline import Discipline, disciplines

if TYPE_CHECKING:
    from railyard.work.operate.state import State


def _key(_state: State, _job: int) -> tuple[float, ...]:
    return ()


FIFO = disciplines.add("fifo", Discipline("fifo", "In the order of submission.", _key))
