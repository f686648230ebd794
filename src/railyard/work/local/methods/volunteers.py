"""Volunteers: DiLoCo among those who are there; they come and go as they like."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import ClassVar

from railyard.kit.schema.bounds import COUNTED, WIDTHS, bounded
from railyard.work.local.method import methods
from railyard.work.training.sync.local import DiLoCo


@dataclass(frozen=True)
class Volunteers(DiLoCo):
    """Volunteers: DiLoCo among those who are there; who goes takes its steps since the last meeting with it.

    Attributes:
        inner_steps: Steps between two outer updates (H).
        outer_bits: Of an outer gradient as sent.
    """

    kind: ClassVar[str] = "volunteers"
    meets: ClassVar[str] = "present"

    inner_steps: int = field(default=100, metadata=bounded(COUNTED))
    outer_bits: int = field(default=8, metadata=bounded(WIDTHS))


methods.add(Volunteers.kind, Volunteers)
