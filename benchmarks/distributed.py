"""What Ray adds to points of one second: the same tasks on processes of this machine and on a Ray of local nodes.

python benchmarks/distributed.py [--nodes 4] [--points 80]: needs `pip install railyard[distributed]`. A point sleeps
for a second, so that the figure is Ray's and not that of a busy machine; each node runs one point at a time.
"""

from __future__ import annotations

import argparse
import time
from typing import TYPE_CHECKING

from ray.cluster_utils import Cluster

from railyard.work.study.tasks import Task
from railyard.work.study.workers import workers

if TYPE_CHECKING:
    from railyard.work.study.tasks import Workers


def spent(pool: Workers, points: int) -> tuple[float, float]:
    """Seconds until the first point is there, with its process begun, and until all others are."""
    begun = time.monotonic()
    list(pool.run([Task("time:sleep", 0.0)] * 8))
    first = time.monotonic()
    done = list(pool.run([Task("time:sleep", 1.0)] * points))
    if any(one.error for one in done) or len(done) != points:
        raise SystemExit(f"points failed: {done[0].error}")
    return first - begun, time.monotonic() - first


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--nodes", type=int, default=4)
    parser.add_argument("--points", type=int, default=80)
    given = parser.parse_args()
    local = workers(processes=given.nodes)
    _, here_s = spent(local, given.points)
    local.close()
    cluster = Cluster(initialize_head=True, head_node_args={"num_cpus": 1, "include_dashboard": False})
    for _ in range(given.nodes - 1):
        cluster.add_node(num_cpus=1)
    begun = time.monotonic()
    pool = workers(cluster.address)
    begun_s = time.monotonic() - begun
    first_s, there_s = spent(pool, given.points)
    pool.close()
    cluster.shutdown()
    ideal_s = given.points / given.nodes
    here, there = here_s / ideal_s - 1, there_s / ideal_s - 1
    print(f"{given.points} points of 1 s on {given.nodes} nodes, {ideal_s:.1f} s without any overhead")
    print(f"local processes {here_s:.2f} s (+{here:.1%}), Ray {there_s:.2f} s (+{there:.1%})")
    print(f"before that Ray took {begun_s:.1f} s to connect and {first_s:.1f} s for its first processes")


if __name__ == "__main__":
    main()
