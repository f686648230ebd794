"""Times the packet engine: building the network and running it, user CPU, one core; htsim's times and memory beside.

    python benchmarks/packet.py [CASE ...] [--threads N]

Each case runs in a process of its own, three times; the least is printed (other work on the machine only ever adds).
With several threads the time is that of the clock. One thread is timed too, and both must give the same digest.
htsim's times are of uet-htsim 40ccb05 on a quiet 2-core AMD EPYC.
"""

from __future__ import annotations

import argparse
import json
import resource
import subprocess
import sys
import time
from dataclasses import dataclass, fields
from typing import Any

import numpy as np

from railyard.engine.packet import PacketNetwork, Settings, Traffic, fat_tree, leaf_spine, run
from railyard.work.scenario.packet import fabric

RATE_BPS = 400 * 10**9
REPEATS = 3
WIDTHS = (8, 9, 7, 6, 7, 7, 8, 9)


@dataclass(frozen=True)
class Case:
    """What to run, htsim's user CPU and memory for the same, and the ratio to reach.

    Cases of DCQCN are beside ASTRA-sim's ns-3: its run loop alone, and its memory.
    """

    kind: str
    hosts: int
    size_bytes: int
    settings: dict[str, Any]
    htsim_s: float
    htsim_mb: float
    goal: float


def roce(preset: str, **changed: int) -> dict[str, Any]:
    """The engine's settings of a fabric by name."""
    said = fabric(preset).settings
    known = {entry.name for entry in fields(Settings)}
    return {entry.name: getattr(said, entry.name) for entry in fields(said) if entry.name in known} | changed


PAUSES = {"pfc_xoff_bytes": 60 * 4150, "pfc_xon_bytes": 48 * 4150}
"""What htsim was told."""

CASES = {
    "permutation-128-nscc": Case("permutation", 128, 2_000_000, {}, 0.41, 19.7, 10),
    "permutation-128-rccc": Case("permutation", 128, 2_000_000, {"congestion_control": "rccc"}, 0.52, 20.1, 10),
    "permutation-1024-nscc": Case("permutation", 1024, 2_000_000, {}, 13.22, 177.7, 25),
    "permutation-1024-rccc": Case("permutation", 1024, 2_000_000, {"congestion_control": "rccc"}, 19.12, 184.3, 25),
    "all-to-all-32": Case("all-to-all", 128, 1_000_000, {}, 1.34, 28.4, 15),
    "incast-32": Case("incast", 128, 2_000_000, {}, 0.11, 10.0, 5),
    "permutation-1024-roce": Case("permutation", 1024, 2_000_000, roce("roce-htsim", **PAUSES), 10.72, 157.2, 12),
    "permutation-128-dcqcn": Case("permutation", 128, 2_000_000, roce("dcqcn-ns3"), 9.2, 2800, 200),
    "permutation-8192-leaf-spine": Case("permutation", 8192, 2_000_000, {}, 112.31, 1057.3, 25),
}


def network_of(case: Case) -> PacketNetwork:
    if case.hosts == 8192:
        return leaf_spine(8192, leaf_hosts=64, spines=64, rate_bps=RATE_BPS)
    return fat_tree(case.hosts, rate_bps=RATE_BPS)


def traffic_of(case: Case) -> Traffic:
    order = np.random.default_rng(1).permutation(case.hosts)
    if case.kind == "permutation":
        return Traffic.of(case.hosts, order, np.roll(order, 1), case.size_bytes)
    if case.kind == "incast":
        return Traffic.of(case.hosts, np.arange(64, 96), 0, case.size_bytes)
    chosen = order[:32]
    source, target = np.repeat(chosen, 32), np.tile(chosen, 32)
    return Traffic.of(case.hosts, source[source != target], target[source != target], case.size_bytes)


def measure(name: str, threads: int) -> dict[str, Any]:
    case = CASES[name]
    before_mb = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    clock = time.process_time if threads == 1 else time.perf_counter
    begun = clock()
    found = run(network_of(case), traffic_of(case), Settings(**case.settings), threads=threads)
    return {
        "s": clock() - begun,
        "digest": found.digest(),
        "mb": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024 - before_mb,
        "events": found.meta["events"],
        "hops": found.meta["packets"]["hops"],
        "mean_us": float(found.duration_ps.mean()) / 1e6,
        "max_us": float(found.duration_ps.max()) / 1e6,
    }


def best(name: str, threads: int) -> dict[str, Any]:
    """The fastest of some runs."""
    command = [sys.executable, __file__, "--one", name, str(threads)]
    runs = [json.loads(subprocess.run(command, check=True, capture_output=True).stdout) for _ in range(REPEATS)]
    return min(runs, key=lambda found: found["s"])


def main() -> None:
    if sys.argv[1:2] == ["--one"]:
        print(json.dumps(measure(sys.argv[2], int((sys.argv[3:] or ["1"])[0]))))
        return
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("cases", nargs="*", metavar="CASE", default=list(CASES), help=", ".join(CASES))
    parser.add_argument("--threads", type=int, default=1)
    given = parser.parse_args()
    heads = ("s", "htsim s", "ratio", "goal", "MB", "htsim", "M ev/s", "M hops/s")
    print(f"{'case':28}" + "".join(f"{head:>{width}}" for head, width in zip(heads, WIDTHS, strict=True)))
    for name in given.cases:
        case, found = CASES[name], best(name, 1)
        print(
            f"{name:28} {found['s']:7.3f} {case.htsim_s:8.2f} {case.htsim_s / found['s']:5.1f}x {case.goal:4.0f}x "
            f"{found['mb']:6.0f} {case.htsim_mb:6.0f} {found['events'] / found['s'] / 1e6:7.1f} "
            f"{found['hops'] / found['s'] / 1e6:8.1f}",
            flush=True,
        )
        if given.threads > 1:
            more = best(name, given.threads)
            if more["digest"] != found["digest"]:
                raise SystemExit(f"{name}: {given.threads} threads give another digest")
            print(f"  {given.threads} threads {more['s']:.3f} s of the clock: {found['s'] / more['s']:.2f}x")


if __name__ == "__main__":
    main()
