"""Times congestion control: what each costs beside none, and DCQCN in Python through Numba beside the built-in one.

    python benchmarks/packet_controls.py [hosts ...]

One core, user CPU of building the network and running it, the least of several runs that take turns (other work on the
machine only ever adds). Compiling a user's functions is apart. The two forms of DCQCN must give the same digest.
"""

from __future__ import annotations

import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from railyard.engine.packet import Settings, Traffic, UserControl, fat_tree, run
from railyard.engine.packet.user import load

if TYPE_CHECKING:
    from railyard.graph import Record

RATE_BPS = 400 * 10**9
SIZE_BYTES = 2_000_000
ROUNDS = {128: 15, 1024: 5}
MOST = 1.5
"""What functions of a user's own may cost, of the built-in control."""

EXAMPLE = Path(__file__).parent.parent / "examples" / "packet" / "my_control.py"
COMMON: dict[str, Any] = {
    "transport": "rdma",
    "switching": "pfc",
    "load_balancing": "ecmp",
    "trim": False,
    "mtu_bytes": 4160,
    "rdma_notification": "packet",
    "marking_low_bytes": 100_000,
    "marking_high_bytes": 400_000,
    "pfc_buffer_bytes": 64 * 2**20,
}


def timed(hosts: int, traffic: Traffic, control: Any) -> tuple[float, Record]:
    begun = time.process_time()
    found = run(fat_tree(hosts, rate_bps=RATE_BPS), traffic, Settings(**COMMON, rdma_control=control))
    return time.process_time() - begun, found


def main(sizes: list[int]) -> int:
    own = load(f"user:{EXAMPLE}:Dcqcn", UserControl)
    begun = time.process_time()
    own.addresses()
    compiled_s = time.process_time() - begun
    controls = {"line-rate": "line-rate", "dcqcn": "dcqcn", "dcqcn in Python": own, "hpcc": "hpcc", "swift": "swift"}
    missed = 0
    for hosts in sizes:
        order = np.random.default_rng(1).permutation(hosts)
        traffic = Traffic.of(hosts, order, np.roll(order, 1), SIZE_BYTES)
        best: dict[str, float] = {}
        found: dict[str, Record] = {}
        for _ in range(ROUNDS.get(hosts, 5)):
            for name, control in controls.items():
                seconds, found[name] = timed(hosts, traffic, control)
                best[name] = min(seconds, best.get(name, seconds))
        print(f"permutation of {hosts} hosts, {SIZE_BYTES / 1e6:.0f} MB a flow, 400 Gb/s, PFC, hashed paths")
        print(f"{'control':18}{'s':>8}{'of none':>9}{'M hops/s':>10}{'mean us':>9}{'max us':>8}  digest")
        for name, seconds in best.items():
            result = found[name]
            hops, fct = result.meta["packets"]["hops"] / seconds / 1e6, result.duration_ps / 1e6
            beside = seconds / best["line-rate"]
            figures = f"{seconds:8.3f}{beside:8.2f}x{hops:10.1f}{fct.mean():9.1f}{fct.max():8.1f}"
            print(f"{name:18}{figures}  {result.digest()[:12]}")
        ratio = best["dcqcn in Python"] / best["dcqcn"]
        same = found["dcqcn in Python"].digest() == found["dcqcn"].digest()
        missed += ratio > MOST or not same
        said = "equal" if same else "OTHER"
        print(f"DCQCN in Python costs {ratio:.2f} of the built-in one (goal {MOST}), digest {said}")
        print(f"compiled in {compiled_s:.2f} s\n")
    return missed


if __name__ == "__main__":
    sys.exit(main([int(word) for word in sys.argv[1:]] or list(ROUNDS)))
