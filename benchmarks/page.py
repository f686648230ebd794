"""How long the page waits for what it draws: windows of a long timeline, the hall of a large cluster.

    .venv/bin/python benchmarks/page.py [--slices 5000000] [--accelerators 102400]

Prints a line a figure: best and median of the repetitions in milliseconds of the clock, and the best of the
processors, which says more on a busy machine; without HTTP.
"""

from __future__ import annotations

import argparse
import statistics
import tempfile
import time
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from railyard.face import api
from railyard.face.verbs.init import template
from railyard.face.web.views import floor, packed
from railyard.face.web.views.timeline import Strips, strips_of
from railyard.graph import Record
from railyard.graph.parquet import read_record, write_record
from railyard.graph.task_graph import Label
from railyard.work.training.simulate import windows_of

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
    with tempfile.TemporaryDirectory() as folder:
        kept = loaded(Path(folder), given.accelerators)
        for name, view, more in (
            ("load over time", floor.windows, {}),
            ("load of a window's cables", floor.cables_over_time, {"first": 0, "count": 1}),
        ):
            show(f"{name}, opened", 3, lambda view=view, more=more: forgotten(view, {**kept, **more}))
            show(f"{name}, again", 5, lambda view=view, more=more: view({**kept, **more}))


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


SMALL = """\
name: loads
cluster: {accelerators: 16, server: hgx-h100, back_end: {topology: rail-optimized, fabric: roce}}
workload:
  training: {model: llama-3-8b, tokens: 1 B, global_batch: 16, sequence: 2048, parallelism: {tp: 8, pp: 1, zero: 1}}
"""


def loaded(folder: Path, accelerators: int) -> dict[str, Any]:
    """A kept run that says it was made on that many accelerators, with drawn loads in as many windows as it would keep.

    The run itself takes minutes at that size; what the page opens is of the same size and form.
    """
    (folder / "small.yaml").write_text(SMALL)
    run = api.run(folder / "small.yaml", out=folder / "runs").folder
    written = (run / "scenario.yaml").read_text()
    (run / "scenario.yaml").write_text(written.replace("accelerators: 16\n", f"accelerators: {accelerators}\n"))
    question = {"folder": str(run), "variant": 0, "person": str(folder)}
    cluster = floor._of_run(question)[0].cluster
    windows, links = windows_of(cluster), len(cluster.links)
    record = read_record(run / "timeline.parquet")
    end_ps = int(record.end_ps.max())
    table = {
        "time_ps": np.arange(windows, dtype=np.int64) * (end_ps // windows),
        "load": np.random.default_rng(1).integers(0, 255, (windows, links), dtype=np.uint8),
    }
    write_record(replace(record, tables={**record.tables, "link_windows": table}), run / "timeline.parquet")
    print(f"{windows} windows of {links:,} links")
    return question


def forgotten(view: Callable[[dict[str, Any]], bytes], question: dict[str, Any]) -> bytes:
    floor._built.cache_clear()
    floor._read_windows.cache_clear()
    return view(question)


def drawn(strips: Strips, end: float) -> bytes:
    look, busy = strips.window(range(LANES), 0.0, end, PIXELS)
    return packed({}, {"look": look, "busy": busy})


def fresh(view: Callable[[dict[str, str]], bytes], question: dict[str, str]) -> bytes:
    floor._planned.cache_clear()
    return view(question)


def show(name: str, repetitions: int, work: Callable[[], object]) -> None:
    times, used = [], []
    for _ in range(repetitions):
        begin, spent = time.perf_counter(), time.process_time()
        work()
        times.append(1e3 * (time.perf_counter() - begin))
        used.append(1e3 * (time.process_time() - spent))
    clock = f"best {min(times):9.1f} ms  median {statistics.median(times):9.1f} ms"
    print(f"{name:48} {clock}  processors {min(used):9.1f} ms", flush=True)


if __name__ == "__main__":
    main()
