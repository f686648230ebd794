"""Layouts that `parallelism: auto` chose among, in words."""

from __future__ import annotations

from typing import TYPE_CHECKING

from railyard.kit.quantities import format_memory
from railyard.measure import numbers
from railyard.measure.result.variants import TrainingVariant

if TYPE_CHECKING:
    from railyard.measure.result.variants import StepVariant

HEADINGS = ("layout", "step", "against the chosen", "memory of the fullest rank", "step is")
RIGHT = (1, 2, 3)


def title(variant: StepVariant, *, alone: bool) -> str:
    """What the table is of."""
    of = "" if alone else f"{variant.name}: "
    return f"{of}layouts by `auto`, the chosen one first"


def rows(variant: StepVariant) -> list[tuple[str, ...]]:
    """A row a layout under `HEADINGS`; none where the layout was written out."""
    if not isinstance(variant, TrainingVariant) or not variant.layouts:
        return []
    first = variant.layouts[0].step_seconds
    return [
        (
            row.layout.words,
            numbers.seconds(row.step_seconds),
            f"{100 * (row.step_seconds / first - 1):+.1f} %",
            f"{row.memory_bytes / 2**30:.1f} of {format_memory(row.capacity_bytes)}",
            "simulated" if row.simulated else "estimated",
        )
        for row in variant.layouts
    ]
