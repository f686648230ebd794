#!/usr/bin/env python3
"""Closed loop of `railyard scale`: a simulated step on 8 GPUs as a trace, scaled, against a direct run: one page.

Usage: validation/tools/scale_page.py [--ranks 8,64,1024] [--write]

`--write` puts the page into docs/validation/scale.md. Some minutes on one core.
"""

from __future__ import annotations

import argparse
import tempfile
import zipfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

from railyard.ask.scale.forecast import scaled_step
from railyard.graph import Job
from railyard.graph.exporters.kineto import write_archive
from railyard.work.scenario import load
from railyard.work.scenario.variants import Variant
from railyard.work.training.prepare import prepare

if TYPE_CHECKING:
    from collections.abc import Iterator

    from railyard.graph import Record

PAGE = Path(__file__).parents[2] / "docs/validation/scale.md"
CLUSTER = {"server": "hgx-h100", "back_end": {"topology": "rail-optimized", "fabric": "roce"}}
FILE = "cluster: {accelerators: 8, server: hgx-h100, back_end: {topology: rail-optimized, fabric: roce}}\n"
JOBS: dict[str, tuple[str, dict[str, Any], int]] = {
    "data parallel, ZeRO-1": ("megatron-1.7b", {}, 4),
    "FSDP": ("llama-3-8b", {"zero": 3}, 2),
    "TP 4, DP": ("megatron-1.7b", {"tp": 4}, 4),
    "PP 2, TP 2, DP": ("megatron-1.7b", {"pp": 2, "tp": 2}, 8),
    "EP 4, DP": ("deepseek-v2-lite", {"ep": 4}, 2),
}
"""Model, layout, and sequences of a replica in a step."""
HEAD = """# Traces scaled, in a closed loop

A step is simulated on 8 H100 and written as traces of PyTorch's profiler (`railyard export --as kineto`).
`railyard scale` forecasts larger clusters from these traces alone, and the same job is simulated there directly:
400 Gb/s RoCE, rails, gradient buckets of 160 MB, full recomputation, weak scaling. *Events*: the traces have
`Stream Wait Event`; *times*: all waits are inferred. Both sides use the same network model, so the page tests the
reading of traces and the scaling, and not how close the model is to GPUs: no measured step at another scale has been
compared. Written by `validation/tools/scale_page.py`.

| layout | ranks | direct | by events | by times |
|---|---|---|---|---|
"""
END = """
Kernels keep the time that they had next to the communication of the trace, which lasts longer on more ranks; FSDP,
which overlaps the most, shows it. With Megatron-LM's own buckets, which grow with the ranks (a million parameters each
beyond 40), the forecast for 1,024 is about 10 % too long for the first layout, because messages keep their size.
"""


def simulated(name: str, ranks: int) -> Record:
    """A step of a job on so many ranks."""
    model, keys, batch = JOBS[name]
    layout = {"micro_batch": 1, "recompute": "full", "bucket": "160 MB", **keys}
    layout["dp"] = ranks // (layout.get("tp", 1) * layout.get("pp", 1))
    training = {"model": model, "tokens": "1 T", "global_batch": batch * layout["dp"], "sequence": 4096,
                "precision": "bf16", "parallelism": layout}  # fmt: skip
    values = {"cluster": {"accelerators": ranks, **CLUSTER}, "workload": {"training": training}}
    job = prepare([Variant(name, {}, load.from_values(values))])[0]
    graph = job.graphs.of(job.training, job.cluster)
    return job.engine.simulate([Job(graph)], job.cluster, seed=0, policy=job.policy)


def rows(name: str, ranks: list[int], folder: Path) -> Iterator[str]:
    """The lines of a job."""
    events, times = folder / "events.zip", folder / "times.zip"
    write_archive(simulated(name, 8), events)
    with zipfile.ZipFile(events) as archive, zipfile.ZipFile(times, "w") as kept:
        for member in archive.namelist():
            lines = archive.read(member).decode().split("\n")
            kept.writestr(member, "\n".join(line for line in lines if '"cuda_sync"' not in line))
    (folder / "cluster.yaml").write_text(FILE)
    for count in ranks:
        direct_s = simulated(name, count).makespan_ps * 1e-12
        found = [scaled_step(path, folder / "cluster.yaml", accelerators=count) for path in (events, times)]
        cells = (f"{one.step.seconds:.4f} s ({one.step.seconds / direct_s - 1:+.1%})" for one in found)
        yield f"| {name} | {count:,} | {direct_s:.4f} s | {' | '.join(cells)} |\n"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--ranks", default="8,64,1024")
    parser.add_argument("--write", action="store_true")
    given = parser.parse_args()
    page = HEAD
    for name in JOBS:
        with tempfile.TemporaryDirectory() as folder:
            for line in rows(name, [int(one) for one in given.ranks.split(",")], Path(folder)):
                print(line, end="", flush=True)
                page += line
    if given.write:
        PAGE.write_text(page + END)


if __name__ == "__main__":
    main()
