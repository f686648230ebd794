"""The flow engine alone, on a step of the shape of Llama 3 405B, from 1,024 to 65,536 GPUs.

    python benchmarks/engine/scaling.py [GPUS ...] [--engine flow|analytic] [--jitter SIGMA]

Every size runs in a process of its own, so that the peak of memory is its own. The last column is CPU seconds over
N log2 N, relative to the first row. It shows the processor's caches as well as the algorithm: instructions alone, by
`valgrind --tool=cachegrind --cache-sim=no`, grow as N log N from the size on at which hashed paths can collide.
"""

from __future__ import annotations

import argparse
import json
import math
import resource
import subprocess
import sys
import time

import synthetic

from railyard import engine

SIZES = (1024, 2048, 4096, 8192, 16384, 32768, 65536)
COLUMNS = ("GPUs", "tasks", "graph (s)", "engine (s)", "CPU (s)", "peak (GB)", "Mtasks/s", "step (s)", "/ N log N")


def measure(gpus: int, name: str, jitter: float) -> dict[str, float]:
    begin = time.perf_counter()
    step = synthetic.build(gpus)
    built = time.perf_counter()
    used = time.process_time()
    timeline = engine.get(name).run(step.graph, step.lowered, step.links, jitter=engine.Jitter(jitter))
    return {
        "gpus": gpus,
        "tasks": len(step.graph),
        "graph_s": built - begin,
        "engine_s": time.perf_counter() - built,
        "cpu_s": time.process_time() - used,
        "peak_gb": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024 / 1e9,
        "step_s": timeline.makespan_ps * 1e-12,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("gpus", nargs="*", type=int, default=list(SIZES))
    parser.add_argument("--engine", default="flow")
    parser.add_argument("--jitter", type=float, default=0.0)
    parser.add_argument("--one", action="store_true", help="measure in this process and print JSON")
    given = parser.parse_args()
    if given.one:
        print(json.dumps(measure(given.gpus[0], given.engine, given.jitter)))
        return
    print("".join(f"{column:>12}" for column in COLUMNS))
    first = None
    for gpus in given.gpus:
        options = ["--one", "--engine", given.engine, "--jitter", str(given.jitter)]
        told = subprocess.run(
            [sys.executable, __file__, str(gpus), *options], check=True, capture_output=True, text=True
        )
        row = json.loads(told.stdout)
        growth = row["cpu_s"] / (gpus * math.log2(gpus))
        first = first or growth
        speed = row["tasks"] / row["cpu_s"] / 1e6
        print(
            f"{gpus:>12,}{row['tasks']:>12,}{row['graph_s']:>12.2f}{row['engine_s']:>12.2f}{row['cpu_s']:>12.2f}",
            end="",
        )
        print(f"{row['peak_gb']:>12.2f}{speed:>12.2f}{row['step_s']:>12.3f}{growth / first:>12.2f}", flush=True)


if __name__ == "__main__":
    main()
