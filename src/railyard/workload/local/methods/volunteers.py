"""Volunteers: DiLoCo among those who are there; they come and go as they like."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from railyard.workload.local.method import methods
from railyard.workload.training.sync.local import DiLoCo


@dataclass(frozen=True)
class Volunteers(DiLoCo):
    """Volunteers: DiLoCo among those who are there; who goes takes its steps since the last meeting with it.

    Attributes:
        inner_steps: Steps between two outer updates (H).
        outer_bits: Of an outer gradient as sent.
    """

    kind: ClassVar[str] = "volunteers"
    meets: ClassVar[str] = "present"

    inner_steps: int = 100
    outer_bits: int = 8


methods.add(Volunteers.kind, Volunteers)
