#!/usr/bin/env python3
"""Closed loop of `railyard scale`, and what it recognizes in public traces: one page.

A simulated step on 8 GPUs is written as a trace, scaled, and compared with a direct run.

Usage: validation/tools/scale_validation_report.py [--ranks 8,64,1024] [--hta FOLDER] [--write]

`--write` puts the page into docs/validation/scale.md and needs `--hta`, the folder `tests/data` of a checkout of
facebookresearch/HolisticTraceAnalysis. Some minutes on one core.
"""

from __future__ import annotations

import argparse
import tempfile
import zipfile
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Any

from railyard.ask.scale.forecast import scaled_step
from railyard.graph import Job
from railyard.graph.exporters.kineto import write_archive
from railyard.work.scenario import load
from railyard.work.scenario.load import Variant
from railyard.work.training.prepare import prepare

if TYPE_CHECKING:
    from collections.abc import Iterator

    from railyard.graph import Record

PAGE = Path(__file__).parents[2] / "docs/validation/scale.md"
CLUSTER = {"server": "hgx-h100", "back_end": {"topology": "rail-optimized", "fabric": "roce"}}
FILE = "cluster: {accelerators: 8, server: hgx-h100, back_end: {topology: rail-optimized, fabric: roce}}\n"
JOBS: dict[str, tuple[str, dict[str, Any], int]] = {
    "data parallel, ZeRO-1": ("megatron-1.7b", {}, 4),
    "data parallel, ZeRO-1, own buckets": ("megatron-1.7b", {"bucket": "0 B"}, 4),
    "FSDP": ("llama-3-8b", {"zero": 3}, 2),
    "TP 4, DP": ("megatron-1.7b", {"tp": 4}, 4),
    "PP 2, TP 2, DP": ("megatron-1.7b", {"pp": 2, "tp": 2}, 8),
    "PP 2, TP 2, DP, own buckets": ("megatron-1.7b", {"pp": 2, "tp": 2, "bucket": "0 B"}, 8),
    "EP 4, DP": ("deepseek-v2-lite", {"ep": 4}, 2),
    "EP 4, DP, own buckets": ("deepseek-v2-lite", {"ep": 4, "bucket": "0 B"}, 2),
}
"""Model, layout, and sequences of a replica in a step."""
GROUPS = {"dp": "DATA_PARALLEL_GROUP_WITH_CP", "edp": "EXPERT_DATA_PARALLEL_GROUP"}
"""Names by which Megatron-Core is known, whose buckets grow."""
EXAMPLES = Path(__file__).parents[2] / "examples/traces"
ACCELERATORS = 64
PUBLIC = {
    "HolisticTraceAnalysis `nccl_parser_config/nccl_data`: ResNet-50, DDP on 2 A100": (
        EXAMPLES / "resnet-ddp.json.gz", None,
    ),
    "HolisticTraceAnalysis `trace_diff/control`: DLRM on 8 A100": ("trace_diff/control/control.json.gz", 8),
    "MLCommons Chakra `feeder_tests_trace`, converted from PyTorch: ResNet-50": (
        EXAMPLES / "mlcommons-pytorch.tar.gz", 2,
    ),
}  # fmt: skip
"""File, and the number of ranks where the trace does not say it (`--world`)."""
HEAD = """# Traces scaled, in a closed loop

A step is simulated on 8 H100 and written as traces of PyTorch's profiler (`railyard export --as kineto`).
`railyard scale` forecasts larger clusters from these traces alone, and the same job is simulated there directly:
400 Gb/s RoCE, rails, full recomputation, weak scaling. Buckets of gradients are of 160 MB, or *own*: as
Megatron-Core sizes them, max(40 M, 1 M a data-parallel rank) parameters; groups then have Megatron-Core's names.
*Events*: the traces have `Stream Wait Event`; *times*: all waits are inferred. Both sides use the same network model,
so the page tests the reading of traces and the scaling, and not how close the model is to GPUs: no measured step at
another scale has been compared. Written by `validation/tools/scale_validation_report.py`.

| layout | ranks | direct | by events | by times |
|---|---|---|---|---|
"""
END = """
The largest error by events is {worst:.1%} ({where}). Kernels keep the time that they had next to the communication of
the trace, which lasts longer on more ranks; FSDP, which overlaps the most, shows it. With
own buckets experts show another thing: the simulator lets a share of the buckets wait for the end of the backward pass
or the start of the step, every second one or so, and a joined bucket waits if one of its parts does.

## Public traces

What `railyard scale` recognizes in three public traces of other people, on {accelerators:,} A100, and what it does not.

| trace | step and forecast | recognized | not recognized |
|---|---|---|---|
{public}
No public trace was found that has kernels of GPUs, process groups and shapes of a language model together; models
with experts are tested on traces of simulated steps, with shapes as PyTorch, Transformer Engine and `grouped_gemm`
write them.
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


def rows(name: str, ranks: list[int], folder: Path) -> Iterator[tuple[float, str]]:
    """The lines of a job, each with the error of the forecast by events."""
    events, times = folder / "events.zip", folder / "times.zip"
    write_archive(simulated(name, 8), folder / "all.zip")
    renamed = GROUPS if "bucket" in JOBS[name][1] else {}
    with (zipfile.ZipFile(folder / "all.zip") as archive, zipfile.ZipFile(events, "w") as whole,
          zipfile.ZipFile(times, "w") as kept):  # fmt: skip
        for member in archive.namelist():
            text = archive.read(member).decode()
            for own, theirs in renamed.items():
                text = text.replace(f'"Process Group Description":"{own}"', f'"Process Group Description":"{theirs}"')
            whole.writestr(member, text)
            kept.writestr(member, "\n".join(line for line in text.split("\n") if '"cuda_sync"' not in line))
    (folder / "cluster.yaml").write_text(FILE)
    for count in ranks:
        direct_s = simulated(name, count).makespan_ps * 1e-12
        found = [scaled_step(path, folder / "cluster.yaml", accelerators=count) for path in (events, times)]
        cells = (f"{one.step.seconds:.4f} s ({one.step.seconds / direct_s - 1:+.1%})" for one in found)
        yield found[0].step.seconds / direct_s - 1, f"| {name} | {count:,} | {direct_s:.4f} s | {' | '.join(cells)} |\n"


def public(hta: Path, accelerators: int) -> Iterator[str]:
    """A line of each public trace."""
    for name, (file, world) in PUBLIC.items():
        found = scaled_step(hta / file, EXAMPLES / "scale.yaml", accelerators=accelerators, world=world)
        traced, step = found.traced, found.step
        kinds = Counter({(row.kind, row.group): 0 for row in found.collectives})
        for row in found.collectives:
            kinds[row.kind, row.group] += row.times
        known = [
            *(f"{axis.role} {axis.traced} ({axis.known_by})" for axis in found.layout if axis.role != "?"),
            *(f"{times} {kind} of {group}" for (kind, group), times in kinds.items()),
            f"framework: {traced.framework}" if traced.framework else "",
            f"waits: {traced.exact_waits} by events, {traced.seen_waits} by idle time, {traced.assumed_waits} assumed",
            f"replayed within {abs(traced.replayed_s / traced.step_s - 1):.1%}",
            f"model: {traced.model}" if traced.model else "",
        ]
        lacks = [f"{row.what} ({row.why})" + (f": {1e3 * row.seconds:.3g} ms" if row.seconds else "")
                 for row in found.unrecognized]  # fmt: skip
        unknown = [f"{row.what}: {row.traced}" for row in found.target if row.fits is None]
        given = f" with `--world {world}`" if world else ""
        low, middle, high = (f"{1e3 * one:.4g}" for one in (found.band.low, step.seconds, found.band.high))
        figures = f"{1e3 * traced.step_s:.4g} ms{given}; here {middle} ms ({low} to {high})"
        unseen = "; ".join(short(one) for one in [*lacks, *unknown])
        yield f"| {name} | {figures} | {'; '.join(filter(None, known))} | {unseen} |\n"


def short(words: str) -> str:
    """Words without the path of a file in front of them."""
    return words.rpartition("/")[2].replace("|", ",")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--ranks", default="8,64,1024")
    parser.add_argument("--hta", type=Path)
    parser.add_argument("--write", action="store_true")
    given = parser.parse_args()
    if given.write and given.hta is None:
        parser.error("--write needs --hta")
    page, errors = HEAD, {}
    for name in JOBS:
        with tempfile.TemporaryDirectory() as folder:
            for error, line in rows(name, [int(one) for one in given.ranks.split(",")], Path(folder)):
                print(line, end="", flush=True)
                errors[line.split("|")[1].strip() + " on" + line.split("|")[2].rstrip()] = error
                page += line
    listed = "".join(public(given.hta, ACCELERATORS)) if given.hta else ""
    print(listed)
    worst = max(errors, key=lambda one: abs(errors[one]))
    page += END.format(worst=abs(errors[worst]), where=worst, public=listed, accelerators=ACCELERATORS)
    if given.write:
        PAGE.write_text(page)


if __name__ == "__main__":
    main()
