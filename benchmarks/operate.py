"""Times a cluster in time: drawn jobs on up to 10,000 nodes, and all of a trace with contention; CPU of one core.

    python benchmarks/operate.py [PHILLY.csv] [--nodes MOST]

Without PHILLY.csv (the trace as Sia publishes it) the week in examples/operate stands in. Goals: 100,000 jobs on 10,000
nodes with a tree policy in 60 s, 82,000 jobs of Philly with contention in 300 s, growth no worse than jobs x log nodes.
"""

from __future__ import annotations

import argparse
import math
import time
from pathlib import Path

from railyard.work.operate.prepare import prepare
from railyard.work.scenario.load import expand, from_values

WEEK = Path(__file__).parents[1] / "examples" / "operate" / "philly_week.csv"
SIZES = {"8": 0.4, "16": 0.2, "32": 0.15, "64": 0.1, "128": 0.08, "256": 0.05, "512": 0.02}
SHARES = (0.25, 0.5, 1.0)
GOAL_S = {100_000: 60.0}
CLASSES = [
    {"name": "language", "share": 0.5, "model": "llama-3.2-1b", "tokens": 8192, "overlap": 0.5},
    {"name": "vision", "share": 0.5, "compute": "150 ms", "message": "12 GB", "overlap": 0.3},
]


def played(nodes: int, topology: object, section: dict[str, object]) -> tuple[float, int]:
    """CPU seconds of a run, and its jobs."""
    cluster = {"accelerators": 8 * nodes, "server": "hgx-h100", "back_end": {"topology": topology, "fabric": "roce"}}
    values = {"name": "bench", "cluster": cluster, "workload": {"operate": {"placement": "slurm-tree", **section}}}
    run = prepare(expand(from_values(values))[0]).operation()
    start = time.process_time()
    run.run()
    return time.process_time() - start, len(run.jobs)


def main() -> None:
    """Prints a line a case."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("trace", nargs="?", type=Path)
    parser.add_argument("--nodes", type=int, default=10_000)
    given = parser.parse_args()
    base = 0.0
    for nodes in (int(share * given.nodes) for share in SHARES):
        count = 10 * nodes
        drawn = {"count": count, "load": 0.9, "sizes": SIZES, "median": "1 h", "p90": "8 h"}
        took, jobs = played(nodes, "three-tier", {"jobs": {"synthetic": drawn}, "sample": "1 d"})
        growth = took / (count * math.log(nodes))
        base = base or growth
        goal = f", goal {GOAL_S[count]:.0f} s" if count in GOAL_S else ""
        print(f"{jobs:,} jobs on {nodes:,} nodes: {took:.1f} s{goal}; {growth / base:.2f} of jobs x log nodes")
    trace = (given.trace or WEEK).resolve()
    topology = {"kind": "leaf-spine", "oversubscription": "4:1", "ports_per_leaf": 32}
    replayed = {"trace": str(trace), "faster": 2.2 if given.trace else 1.0, "shrink": True}
    took, jobs = played(128, topology, {"jobs": replayed, "contention": {"classes": CLASSES}})
    print(f"{jobs:,} jobs of {trace.name} on 128 nodes with contention: {took:.1f} s, goal 300 s for 82,000")


if __name__ == "__main__":
    main()
