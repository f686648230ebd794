"""Times the packet engine on one thread and on several: wall clock, by turns, and whether the same bytes come out.

    python benchmarks/packet_threads.py [THREADS]

The permutation of 1,024 hosts, 10 MB a flow, 400 Gbit/s, three-tier fat tree, NSCC. Wants a machine that is idle.
"""

from __future__ import annotations

import sys
import time

import numpy as np

from railyard.engine.packet import Settings, Traffic, fat_tree, run

TURNS = 3


def main(threads: int) -> None:
    network = fat_tree(1024, rate_bps=400 * 10**9)
    order = np.random.default_rng(1).permutation(1024)
    traffic = Traffic.of(1024, order, np.roll(order, 1), 10_000_000)
    best: dict[int, float] = {}
    digests = set()
    for _ in range(TURNS):
        for count in (1, threads):
            begun = time.perf_counter()
            digests.add(run(network, traffic, Settings(), threads=count).digest())
            best[count] = min(best.get(count, float("inf")), time.perf_counter() - begun)
    print(f"1 thread {best[1]:.2f} s, {threads} threads {best[threads]:.2f} s: {best[1] / best[threads]:.2f}x", end="")
    print(", the same bytes" if len(digests) == 1 else ", DIFFERENT bytes")


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 2)
