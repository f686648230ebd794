"""Shapes of matrix products that a trace recorded, which a second pass over the file reads."""

from __future__ import annotations

import re
from collections import Counter
from typing import TYPE_CHECKING, Any

from railyard.ask.observe.gather import EventFile
from railyard.ask.observe.reader import sources
from railyard.kit.errors import InputError

if TYPE_CHECKING:
    from pathlib import Path

_PRODUCTS = ("aten::mm", "aten::addmm", "aten::bmm", "aten::_grouped_mm", "aten::_scaled_mm")
_WANTED = re.compile(rb'"aten::(?:mm|addmm|bmm|_grouped_mm|_scaled_mm)"|"ProfilerStep#')
_SHOWN = 24


def products(path: Path) -> Counter[tuple[int, int, int]]:
    """How often a step of the first trace calls each matrix product, by rows, depth and columns.

    A trace without marks of steps counts as one step. Batched products count once for each of their batch.
    """
    for source in sources(path):
        file = EventFile(source, _WANTED)
        found: Counter[tuple[int, int, int]] = Counter()
        marks = set()
        try:
            for event in file.events():
                name = str(event.get("name", ""))
                if name.startswith("ProfilerStep#") and event.get("cat") == "user_annotation":
                    marks.add(name)
                if name in _PRODUCTS and (sizes := _sizes(event.get("args"))):
                    found[sizes[1:]] += sizes[0]
        except InputError:
            continue
        if found:
            return Counter({sizes: round(times / max(len(marks), 1)) for sizes, times in found.items()})
    return Counter()


def _sizes(args: Any) -> tuple[int, int, int, int] | None:
    """Batch, rows, depth and columns; None where no shapes were recorded."""
    listed = args.get("Input Dims") if isinstance(args, dict) else None
    dims = [one for one in listed if isinstance(one, list) and len(one) in (2, 3)] if isinstance(listed, list) else []
    if len(dims) < 2 or not all(isinstance(size, int) for one in dims[-2:] for size in one):
        return None
    left, right = dims[-2:]
    return (left[0] if len(left) == 3 else 1, left[-2], left[-1], right[-1]) if left[-1] == right[-2] else None


def gemms(path: Path) -> tuple[str, ...]:
    """The most frequent matrix products in words."""
    rows = sorted(products(path).items(), key=lambda one: (-one[1], one[0]))
    return tuple(f"{m} x {k} x {n}, {times} times" for (m, k, n), times in rows[:_SHOWN])
