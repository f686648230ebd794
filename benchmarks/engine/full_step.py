"""One training step of Llama 3 405B on 16,384 GPUs the whole way: cluster, task graph, lowering, engine.

    python benchmarks/engine/full_step.py [GPUS ...] [--fabric NAME] [--engine NAME] [--jitter SIGMA] [--every]

TP 8, PP 16, the rest DP, 8 virtual stages, 16 micro-batches of one sequence of 8,192 tokens, on a rail-optimized Clos.
Replicas that do the same are simulated once, unless `--every` is given; "copies" says how many one stands for. The goal
for 16,384 GPUs: less than 2 s on one core, all parts together; for 100,000: 30 s and 4 GB.
"""

from __future__ import annotations

import argparse
import json
import resource
import subprocess
import sys
import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from railyard import catalog, cluster, engine
from railyard.cluster import ClusterSpec, FabricSpec, NetworkSpec
from railyard.engine.contract import joint
from railyard.engine.lowering import lower
from railyard.engine.symmetric import first_copy
from railyard.graph import Job
from railyard.work.training.expand import copies_in, expand
from railyard.work.training.graphs import program_of
from railyard.work.training.spec import Layout, SoftwareProfile, Training

if TYPE_CHECKING:
    from railyard.work.training.slots import StepProgram

PARTS = ("catalogue", "cluster", "graph", "lowering", "engine")


@dataclass
class Laps:
    """Wall and processor seconds of each part."""

    wall_s: dict[str, float] = field(default_factory=dict)
    cpu_s: dict[str, float] = field(default_factory=dict)
    last: tuple[float, float] = field(default_factory=lambda: (time.perf_counter(), time.process_time()))

    def lap(self, part: str) -> None:
        """Ends a part, or a further stretch of it."""
        now = (time.perf_counter(), time.process_time())
        self.wall_s[part] = self.wall_s.get(part, 0.0) + now[0] - self.last[0]
        self.cpu_s[part] = self.cpu_s.get(part, 0.0) + now[1] - self.last[1]
        self.last = now


def measure(gpus: int, given: argparse.Namespace) -> dict[str, object]:
    laps = Laps()
    known = catalog.load()
    laps.lap("catalogue")
    rails = cluster.topologies.get("rail-optimized")(oversubscription=given.oversubscription)
    network = NetworkSpec(topology=rails, fabric=FabricSpec(given.fabric))
    machine = cluster.build(ClusterSpec(accelerators=gpus, server="hgx-h100", back_end=network), known)
    laps.lap("cluster")
    batch = gpus // 128 * 16
    layout = Layout(
        tp=8, pp=16, dp=gpus // 128, vp=8, schedule="interleaved", global_batch=batch, zero=1, sequence_parallel=True
    )
    model, software = known.model("llama-3-405b"), SoftwareProfile(name="benchmark")
    program = program_of(Training(model=model, layout=layout, seq_len=8192, software=software), machine)
    alike = given.engine == "flow" and not given.jitter and not given.every
    found = one_copy(program, machine, laps) if alike else None
    if found is None:
        found = every_copy(program, machine, laps, given)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024 / 1e9
    times = {"wall_s": laps.wall_s, "cpu_s": laps.cpu_s, "peak_gb": peak}
    return {"gpus": gpus, "links": len(machine.links), **found, **times}


def one_copy(program: StepProgram, machine: cluster.Cluster, laps: Laps) -> dict[str, object] | None:
    """The step of replicas that do the same; None where they do not."""
    symmetry = copies_in(program)
    laps.lap("graph")
    if symmetry is None:
        return None
    _, machine = joint([Job(symmetry.requests)], machine)
    lowered = lower(symmetry.requests, machine)
    laps.lap("lowering")
    found = first_copy(symmetry, lowered, machine.links, probes=engine.Probes())
    laps.lap("engine")
    if found is None:
        return None
    step_s = int(found.result.end_ps.max()) * 1e-12
    return {"tasks": int(symmetry.widths.sum()), "copies": symmetry.count, "step_s": step_s}


def every_copy(
    program: StepProgram, machine: cluster.Cluster, laps: Laps, given: argparse.Namespace
) -> dict[str, object]:
    """The step of all replicas."""
    graph = expand(program)
    laps.lap("graph")
    merged, machine = joint([Job(graph)], machine)
    lowered = lower(merged.graph, machine)
    laps.lap("lowering")
    timeline = engine.get(given.engine).run(merged, lowered, machine.links, jitter=engine.Jitter(given.jitter))
    laps.lap("engine")
    return {"tasks": len(graph), "copies": 1, "step_s": timeline.makespan_ps * 1e-12}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("gpus", nargs="*", type=int, default=[1024, 2048, 4096, 8192, 16384])
    parser.add_argument("--fabric", default="roce")
    parser.add_argument("--engine", default="flow")
    parser.add_argument("--jitter", type=float, default=0.0)
    parser.add_argument("--oversubscription", type=float, default=1.0)
    parser.add_argument("--every", action="store_true", help="simulate every replica by itself")
    parser.add_argument("--one", action="store_true", help="measure in this process and print JSON")
    given = parser.parse_args()
    if given.one:
        print(json.dumps(measure(given.gpus[0], given)))
        return
    heads = (
        "GPUs",
        "tasks",
        "copies",
        *(f"{part} (s)" for part in PARTS),
        "total (s)",
        "CPU (s)",
        "peak (GB)",
        "step (s)",
    )
    print("".join(f"{head:>14}" for head in heads))
    for gpus in given.gpus:
        again = [argument for argument in sys.argv[1:] if not argument.isdigit()]
        told = subprocess.run(
            [sys.executable, __file__, str(gpus), "--one", *again], check=True, stdout=subprocess.PIPE
        )
        row = json.loads(told.stdout)
        cells = [
            f"{gpus:,}",
            f"{row['tasks']:,}",
            f"{row['copies']}",
            *(f"{row['wall_s'][part]:.2f}" for part in PARTS),
        ]
        cells += [f"{sum(row[clock].values()):.2f}" for clock in ("wall_s", "cpu_s")]
        cells += [f"{row['peak_gb']:.2f}", f"{row['step_s']:.3f}"]
        print("".join(f"{cell:>14}" for cell in cells), flush=True)


if __name__ == "__main__":
    main()
