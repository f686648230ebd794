"""Builds large clusters and routes many flows; prints seconds and peak memory of each, with the goals.

    python benchmarks/cluster.py [ACCELERATORS ...] [--flows N]
    python benchmarks/cluster.py --all-to-all RANKS [--sends]

Each case runs in a process of its own, so that peak memory is that of one build.
An all-to-all is lowered on hashed leafs and spines: as one collective, or send by send; each rank sends by its own NIC.
"""

from __future__ import annotations

import argparse
import json
import resource
import subprocess
import sys
import time
from dataclasses import replace

import numpy as np

from railyard import catalog
from railyard.cluster import ClusterSpec, FabricSpec, NetworkSpec, build
from railyard.cluster.topology import topologies
from railyard.collective.choice import DEFAULT_POLICY
from railyard.collective.lowering import lower_collectives, lower_transfers
from railyard.graph import CollectiveKind, Communicators

SIZES = (1024, 16384, 100_000)
CASES = [
    ("three-tier", "roce", "tomahawk-5"),
    ("three-tier", "uec", "tomahawk-5"),
    ("rail-optimized", "scheduled", "jericho3-ai-leaf"),
    ("dual-plane", "infiniband", "quantum-2-qm9700"),
    ("dragonfly", "roce", "tomahawk-5"),
    ("multi-site", "roce", "tomahawk-5"),
]
FLOWS = {"roce": 1_000_000, "uec": 50_000, "scheduled": 50_000, "infiniband": 50_000}
GOALS = {"build_s": 5.0, "peak_bytes": 2e9, "route_s": 2.0}  # at 100,000 accelerators


def measure(accelerators: int, kind: str, fabric: str, switch: str, flows: int) -> dict[str, float]:
    known = catalog.load()
    network = NetworkSpec(topologies.get(kind)(), FabricSpec(fabric), switch=switch)
    begun = time.perf_counter()
    cluster = build(ClusterSpec(accelerators, "hgx-h100", network), known)
    built = time.perf_counter()
    generator = np.random.default_rng(0)
    ports = cluster.back_end.port_of_rank[:, 0]
    source, target = generator.choice(ports, flows), generator.choice(ports, flows)
    ready = time.perf_counter()
    usage = cluster.back_end.usage(source, target, np.arange(flows, dtype=np.uint64))
    return {
        "links": len(cluster.links),
        "build_s": built - begun,
        "flows": flows,
        "route_s": time.perf_counter() - ready,
        "links_of_flow": len(usage.link) / flows,
        "peak_bytes": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024,
    }


def all_to_all(ranks: int, *, sends: bool) -> None:
    spec = ClusterSpec(ranks, "hgx-h100", NetworkSpec(topologies.get("leaf-spine")(), FabricSpec("roce")))
    cluster, every = build(spec, catalog.load()), np.arange(ranks, dtype=np.int32)
    policy = replace(DEFAULT_POLICY, pxn=False)
    begun = time.process_time()
    if sends:
        source, target = np.repeat(every, ranks), np.tile(every, ranks)
        size, count = np.full(len(source), 1 << 20), np.ones(len(source), np.int32)
        found = lower_transfers(cluster, source, target, size, count, policy=policy)
    else:
        one = np.zeros(1, np.int32)
        kind = np.full(1, CollectiveKind.ALL_TO_ALL, np.uint8)
        members = Communicators(np.array([0, ranks]), every, np.array(["all"]))
        found = lower_collectives(cluster, members, (one, kind, np.full(1, 1 << 30), one + 1), policy=policy)
    print(f"{ranks:,} ranks: {len(found.link_idx):,} links in {time.process_time() - begun:.2f} s of CPU")


def main() -> None:
    if sys.argv[1:2] == ["--one"]:
        accelerators, kind, fabric, switch, flows = sys.argv[2:7]
        print(json.dumps(measure(int(accelerators), kind, fabric, switch, int(flows))))
        return
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("accelerators", nargs="*", type=int, default=SIZES)
    parser.add_argument("--flows", type=int, default=1_000_000, help="at most")
    parser.add_argument("--all-to-all", type=int, metavar="RANKS")
    parser.add_argument("--sends", action="store_true", help="send by send")
    given = parser.parse_args()
    if given.all_to_all:
        all_to_all(given.all_to_all, sends=given.sends)
        return
    print("accelerators        topology      fabric      links  build s     flows  route s     MB")
    for size in given.accelerators:
        for case in CASES:
            flows = min(FLOWS[case[1]], given.flows)
            command = [sys.executable, __file__, "--one", str(size), *case, str(flows)]
            found = json.loads(subprocess.run(command, capture_output=True, text=True, check=True).stdout)
            missed = [goal for goal, most in GOALS.items() if found[goal] > most]
            row = f"{size:12,d} {case[0]:>15} {case[1]:>11} {found['links']:10,d} {found['build_s']:8.2f}"
            row += f" {found['flows']:9,d} {found['route_s']:8.2f} {found['peak_bytes'] / 1e6:6.0f}"
            print(row + (f"   over the goal: {', '.join(missed)}" if missed else ""))


if __name__ == "__main__":
    main()
