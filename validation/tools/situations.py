#!/usr/bin/env python3
"""Whole durations of collectives, flow over packet, where networks are oversubscribed or sites lie far apart.

Usage: validation/tools/situations.py FILE [--fabrics NAME,...] [--ranks N,...] [--page] [--write]

A ring and an all-to-all on every fabric: healthy, at 2:1, and on two sites 1 to 1,000 km apart. FILE gets a JSON line
for each case that was run, and those are not run again. `--page` prints the table of the documentation. `--write` puts
the spread (10th and 90th percentile of flow over packet, less 1) of healthy networks and these into `behavior.json`,
beside those of `fabric_behavior.py`. One core takes some minutes for 64 accelerators.
"""

from __future__ import annotations

import argparse
import json
from itertools import product
from pathlib import Path
from statistics import fmean
from typing import TYPE_CHECKING, Any

import numpy as np

from railyard import catalog
from railyard import engine as engines
from railyard.cluster import ClusterSpec, FabricSpec, NetworkSpec, build
from railyard.cluster.fabric.fabric import bought, fabrics
from railyard.cluster.topology import LeafSpine, MultiSite
from railyard.engine.packet.engine import PacketEngine
from railyard.graph import CollectiveKind, Communicators, Job, Kind, Label, Stream, TaskGraph
from railyard.kit.quantities import percentile

if TYPE_CHECKING:
    from collections.abc import Iterator

    from railyard.cluster import Cluster

OUT = Path(__file__).parents[2] / "src/railyard/cluster/fabric/behavior.json"
MIB = 1 << 20
WORKS = {"ring": (CollectiveKind.ALL_GATHER, 256 * MIB), "all-to-all": (CollectiveKind.ALL_TO_ALL, 32 * MIB)}
KM = (1, 10, 100, 1000)
SITUATIONS = ("healthy", "2:1", *(f"{km} km" for km in KM))
GROUPS = {"healthy": ("healthy",), "oversubscription": ("2:1",), "distance": tuple(f"{km} km" for km in KM)}
SEEDS = (0, 1)
KEYS = ("fabric", "ranks", "work", "situation", "seed")
LEAF = 16


def cluster_of(case: dict[str, Any]) -> Cluster:
    """Where a case runs."""
    situation = case["situation"]
    inner = LeafSpine(ports_per_leaf=LEAF, oversubscription=2.0 if situation == "2:1" else 1.0)
    far = situation.endswith("km")
    distance_m = 1e3 * float(situation.split()[0]) if far else 0.0
    topology = MultiSite(sites=2, distance_m=distance_m, oversubscription=1.0, inner=inner) if far else inner
    network = NetworkSpec(topology, FabricSpec(case["fabric"]), seed=case["seed"])
    return build(ClusterSpec(case["ranks"], "hgx-h100", network), catalog.load())


def graph_of(cluster: Cluster, work: str) -> TaskGraph:
    """One collective of all ranks; a ring's neighbours are on different leafs."""
    each, servers = cluster.ranks_per_server, cluster.servers
    order = np.concatenate([np.arange(0, servers, 2), np.arange(1, servers, 2)])
    ranks = (order[:, None] * each + np.arange(each)).ravel().astype(np.int32)
    kind, size_bytes = WORKS[work]
    return TaskGraph(
        ranks=cluster.ranks,
        kind=np.array([Kind.COLLECTIVE], np.uint8),
        rank=np.zeros(1, np.int32),
        peer=np.full(1, -1, np.int32),
        duration_ps=np.zeros(1, np.int64),
        size_bytes=np.array([size_bytes], np.int64),
        count=np.ones(1, np.int32),
        collective=np.array([kind], np.uint8),
        stream=np.array([Stream.GRADIENT], np.uint8),
        label=np.zeros(1, np.int32),
        dep_ptr=np.zeros(2, np.int64),
        dep_idx=np.empty(0, np.int32),
        labels=[Label("gradient", "communication", "dp")],
        communicators=Communicators(np.array([0, len(ranks)], np.int64), ranks, ["dp"]),
    )


def measured(case: dict[str, Any]) -> dict[str, Any]:
    """The case with its durations on both engines, ms."""
    cluster = cluster_of(case)
    jobs = [Job(graph_of(cluster, case["work"]))]
    flow = engines.get("flow").simulate(jobs, cluster, seed=case["seed"]).makespan_ps
    packet = PacketEngine(budget_hops=1e9, samples=0).simulate(jobs, cluster, seed=case["seed"]).makespan_ps
    return {**case, "flow_ms": flow / 1e9, "packet_ms": packet / 1e9}


def cases(names: list[str], ranks: list[int]) -> Iterator[dict[str, Any]]:
    """What is run; seeds differ only where flows are hashed."""
    for name, count, work, situation in product(names, ranks, WORKS, SITUATIONS):
        for seed in SEEDS if fabrics.get(name).hashed else SEEDS[:1]:
            yield dict(zip(KEYS, (name, count, work, situation, seed), strict=True))


def ratios(rows: list[dict[str, Any]], **wanted: Any) -> list[float]:
    """Flow over packet, less 1: a value a work and situation, of means over seeds."""
    chosen = [row for row in rows if all(row[key] in value for key, value in wanted.items())]
    found = []
    for key in dict.fromkeys(tuple(row[name] for name in KEYS[:-1]) for row in chosen):
        own = [row for row in chosen if tuple(row[name] for name in KEYS[:-1]) == key]
        found.append(fmean(row["flow_ms"] for row in own) / fmean(row["packet_ms"] for row in own) - 1)
    return found


def pages(rows: list[dict[str, Any]]) -> Iterator[str]:
    """Lines of Markdown: flow over packet by fabric, size and situation, ring then all-to-all."""
    yield "| fabric | GPUs | " + " | ".join(SITUATIONS) + " |"
    yield "|---" * (2 + len(SITUATIONS)) + "|"
    for name, count in dict.fromkeys((row["fabric"], row["ranks"]) for row in rows):
        cells = []
        for situation in SITUATIONS:
            found = [ratios(rows, fabric=(name,), ranks=(count,), work=(w,), situation=(situation,)) for w in WORKS]
            cells.append(", ".join(f"{one[0]:+.0%}" if one else "" for one in found))
        yield f"| `{name}` | {count} | " + " | ".join(cells) + " |"


def write(rows: list[dict[str, Any]]) -> None:
    """The spreads into the package's table."""
    table = json.loads(OUT.read_text(encoding="utf-8"))
    for name in dict.fromkeys(row["fabric"] for row in rows):
        entry = table["compositions"].get(fabrics.get(name).composition)
        if entry is None:
            continue
        for group, situations in GROUPS.items():
            found = sorted(ratios(rows, fabric=(name,), situation=situations))
            if found:
                entry["spread"][group] = [round(percentile(found, q), 3) for q in (0.1, 0.9)]
    OUT.write_text(json.dumps(table, indent=1) + "\n", encoding="utf-8")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("file", type=Path)
    parser.add_argument("--fabrics", default=",".join(bought()))
    parser.add_argument("--ranks", default="64")
    parser.add_argument("--page", action="store_true")
    parser.add_argument("--write", action="store_true")
    given = parser.parse_args()
    rows = [json.loads(line) for line in given.file.read_text().splitlines()] if given.file.exists() else []
    if not (given.page or given.write):
        done = {tuple(row[key] for key in KEYS) for row in rows}
        for case in cases(given.fabrics.split(","), [int(one) for one in given.ranks.split(",")]):
            if tuple(case.values()) not in done:
                rows.append(measured(case))
                with given.file.open("a", encoding="utf-8") as file:
                    file.write(json.dumps(rows[-1]) + "\n")
    if given.write:
        write(rows)
    print("\n".join(pages(rows)))


if __name__ == "__main__":
    main()
