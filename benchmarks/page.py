"""How long the page waits for what it draws: windows of a long timeline, the hall of a large cluster.

    .venv/bin/python benchmarks/page.py [--slices 5000000] [--accelerators 102400]

Prints a line a figure: best and median of the repetitions, in milliseconds of the clock, without HTTP.
"""

from __future__ import annotations

import argparse
import statistics
import time
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from railyard.cli.starting import template
from railyard.graph import Record
from railyard.graph.strips import Strips, strips_of
from railyard.graph.task_graph import Label
from railyard.web.views import floor
from railyard.web.views.packed import packed

if TYPE_CHECKING:
    from collections.abc import Callable

RANKS = 256
LANES, PIXELS = 87, 1100
"""What a window of 520 by 1,228 pixels shows."""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--slices", type=int, default=5_000_000)
    parser.add_argument("--accelerators", type=int, default=102_400)
    given = parser.parse_args()
    record = measured(given.slices)
    strips = strips_of(record)
    show("opening a timeline", 3, lambda: strips_of(record))
    for zoom in (1.0, 0.1, 0.001):
        end = zoom * strips.last_ps
        show(f"window, {zoom:g} of {given.slices:,} slices", 20, lambda end=end: drawn(strips, end))
    text = template().replace("accelerators: 256", f"accelerators: {given.accelerators}")
    question = {"text": text, "file": "hall.yaml", "person": str(Path.cwd())}
    for name, view in (("hall", floor.hall), ("cables", floor.cables)):
        show(f"{name} of {given.accelerators:,} accelerators", 3, lambda view=view: fresh(view, question))


def measured(slices: int) -> Record:
    """Kernels one after another on each rank, of drawn lengths."""
    draw = np.random.default_rng(1)
    each = slices // RANKS
    gap, length = (draw.exponential(mean, (RANKS, each)).astype(np.int64) + 1 for mean in (2e6, 5e6))
    end = np.cumsum(gap + length, axis=1)
    return Record(
        rows="kernels",
        who=np.repeat(np.arange(RANKS, dtype=np.int32), each),
        what=draw.integers(0, 4, RANKS * each).astype(np.int32),
        start_ps=(end - length).ravel(),
        end_ps=end.ravel(),
        size_bytes=np.zeros(RANKS * each, np.int64),
        labels=[Label("compute", f"kernel {number}") for number in range(4)],
        optional={},
        tables={},
        parts={},
        meta={},
        work=None,
    )


def drawn(strips: Strips, end: float) -> bytes:
    look, busy = strips.window(range(LANES), 0.0, end, PIXELS)
    return packed({}, {"look": look, "busy": busy})


def fresh(view: Callable[[dict[str, str]], bytes], question: dict[str, str]) -> bytes:
    floor._planned.cache_clear()
    return view(question)


def show(name: str, repetitions: int, work: Callable[[], object]) -> None:
    times = []
    for _ in range(repetitions):
        begin = time.perf_counter()
        work()
        times.append(1e3 * (time.perf_counter() - begin))
    print(f"{name:48} best {min(times):9.1f} ms  median {statistics.median(times):9.1f} ms")


if __name__ == "__main__":
    main()
