"""Builds the task graph of Llama 3.1 405B on more and more ranks; prints seconds, tasks and peak memory of each.

    python benchmarks/graph_build.py [RANKS ...]

Each size runs in a process of its own, so that peak memory is that of one build.
"""

from __future__ import annotations

import json
import resource
import subprocess
import sys
import time

from railyard import catalog, cluster
from railyard.cluster import ClusterSpec, FabricSpec, NetworkSpec
from railyard.work.training.graphs import build
from railyard.work.training.spec import Layout, SoftwareProfile, Training

SIZES = (1024, 4096, 16384, 65536)
GOALS = {16384: (3.0, 1.2e9)}  # seconds, bytes


def measure(ranks: int) -> dict[str, float]:
    known = catalog.load()
    dp = ranks // 128
    layout = Layout(global_batch=16 * dp, tp=8, pp=16, dp=dp, vp=8, schedule="interleaved")
    software = SoftwareProfile(name="benchmark")
    job = Training(model=known.model("llama-3-405b"), layout=layout, seq_len=8192, software=software)
    network = NetworkSpec(topology=cluster.topologies.get("rail-optimized")(), fabric=FabricSpec("roce"))
    machine = cluster.build(ClusterSpec(accelerators=ranks, server="hgx-h100", back_end=network), known)
    begun = time.perf_counter()
    graph = build(job, machine)
    seconds = time.perf_counter() - begun
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    return {"ranks": ranks, "seconds": seconds, "tasks": len(graph), "waits": len(graph.dep_idx), "peak_bytes": peak}


def main() -> int:
    if sys.argv[1:2] == ["--one"]:
        print(json.dumps(measure(int(sys.argv[2]))))
        return 0
    missed = 0
    print(f"{'ranks':>8} {'tasks':>12} {'waits':>12} {'seconds':>8} {'Mtask/s':>8} {'peak GB':>8}")
    for ranks in [int(text) for text in sys.argv[1:]] or SIZES:
        command = [sys.executable, __file__, "--one", str(ranks)]
        row = json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)
        seconds, peak = GOALS.get(ranks, (float("inf"), float("inf")))
        held = row["seconds"] <= seconds and row["peak_bytes"] <= peak
        missed += not held
        rate = row["tasks"] / row["seconds"] / 1e6
        figures = (
            f"{row['tasks']:12,} {row['waits']:12,} {row['seconds']:8.2f} {rate:8.1f} {row['peak_bytes'] / 1e9:8.2f}"
        )
        goal = f"  goal {seconds:.0f} s, {peak / 1e9:.1f} GB: {'met' if held else 'MISSED'}" if ranks in GOALS else ""
        print(f"{ranks:8,} {figures}{goal}", flush=True)
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
