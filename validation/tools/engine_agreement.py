#!/usr/bin/env python3
"""How near the engines `packet` and `flow` are where switches hash: the mean over seeds of hashing, by work and size.

Usage: validation/tools/engine_agreement.py [--works NAME,...] [--ranks N,...] [--seeds N] [--budget HOPS,...]
                                            [--fabric NAME] [--store FILE] [--page]

Every seed is a run of both engines on the same network: servers of eight H100 scattered under non-blocking leafs, so
that every ring and every peer crosses the spines. Rows are appended to the store as they end, each with a fingerprint
of the sources that it was run with; what stands there for today's sources is not run again, so a run that was stopped
goes on. `--page` prints the table of the store and runs nothing. `--budget` takes several: a step is then run with
each.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import sys
import time
from dataclasses import asdict, dataclass
from functools import cache
from pathlib import Path
from statistics import fmean, stdev
from typing import TYPE_CHECKING, Any

import numpy as np

from railyard import catalog
from railyard import engine as engines
from railyard.cluster import ClusterSpec, FabricSpec, NetworkSpec, Placement, build
from railyard.cluster.topology import LeafSpine
from railyard.collective import CollectivePolicy
from railyard.engine.packet.engine import BUDGET_HOPS, PacketEngine
from railyard.graph import CollectiveKind, Communicators, Job, Kind, Label, Stream, TaskGraph
from railyard.work.training.graphs import build as graph_of
from railyard.work.training.spec import Layout, SoftwareProfile, Training

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from railyard.cluster import Cluster

ROOT = Path(__file__).parents[2]
STORE = ROOT / "build" / "engine-agreement.jsonl"
MIB = 1 << 20
WORKS = {
    "all-reduce": (CollectiveKind.ALL_REDUCE, "ring", 64 * MIB),
    "all-gather": (CollectiveKind.ALL_GATHER, "ring", 64 * MIB),
    "all-to-all": (CollectiveKind.ALL_TO_ALL, "pairwise", 64 * MIB),
    "nvls-tree": (CollectiveKind.ALL_REDUCE, "nvls-tree", 64 * MIB),
}
STEP = "step"
SIZES = (32, 64, 128, 256)
LEAF_PORTS = {32: 8, 64: 16, 128: 16, 256: 32}


@dataclass(frozen=True)
class Case:
    """One work on one network with one seed."""

    fabric: str
    work: str
    ranks: int
    budget: float
    seed: int

    @property
    def cluster(self) -> Cluster:
        """Where it runs."""
        topology = LeafSpine(ports_per_leaf=LEAF_PORTS.get(self.ranks, 16))
        network = NetworkSpec(topology, FabricSpec(self.fabric), seed=self.seed)
        return build(ClusterSpec(self.ranks, "hgx-h100", network), known(), Placement("scattered", 0))

    def run(self) -> dict[str, Any]:
        """Both engines; seconds, and what the packets took of one core."""
        cluster = self.cluster
        graph, policy = self._work(cluster)
        flow = engines.get("flow").simulate([Job(graph)], cluster, policy=policy, seed=self.seed)
        began = time.process_time()
        packets = PacketEngine(samples=0, budget_hops=self.budget)
        packet = packets.simulate([Job(graph)], cluster, policy=policy, seed=self.seed)
        return {
            "flow_s": flow.makespan_ps * 1e-12,
            "packet_s": packet.makespan_ps * 1e-12,
            "slice": packet.meta["slice"],
            "cpu_s": round(time.process_time() - began, 2),
        }

    def _work(self, cluster: Cluster) -> tuple[TaskGraph, CollectivePolicy]:
        if self.work == STEP:
            return step(cluster), CollectivePolicy()
        kind, algorithm, size_bytes = WORKS[self.work]
        word = kind.name.lower().replace("_", "-")
        policy = CollectivePolicy(algorithm={word: algorithm}, protocol={word: "simple"})
        return collective(kind, size_bytes, self.ranks), policy


@cache
def known() -> catalog.Catalog:
    """The catalogue, read once."""
    return catalog.load()


def step(cluster: Cluster) -> TaskGraph:
    """A training step whose parameters are sharded over all ranks: gathers and scatters beside computation."""
    layout = Layout(dp=cluster.ranks, zero=3, micro_batch=1, global_batch=cluster.ranks)
    profile = SoftwareProfile(name="agreement")
    return graph_of(
        Training(model=known().model("llama-3.2-1b"), layout=layout, seq_len=2048, software=profile), cluster
    )


def collective(kind: CollectiveKind, size_bytes: int, ranks: int) -> TaskGraph:
    """One collective of all ranks."""
    return TaskGraph(
        ranks=ranks,
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
        communicators=Communicators(np.array([0, ranks], np.int64), np.arange(ranks, dtype=np.int32), ["dp"]),
    )


@cache
def sources() -> str:
    """Fingerprint of everything that decides a result."""
    hashed = hashlib.blake2b(digest_size=8)
    folders = [ROOT / "cpp", *(ROOT / "src/railyard" / room for room in ("cluster", "collective", "engine"))]
    for file in sorted(file for folder in folders for file in folder.rglob("*")):
        if file.suffix in {".py", ".cpp", ".hpp"}:
            hashed.update(file.read_bytes())
    return hashed.hexdigest()


class Store:
    """Rows that have been run, one a line."""

    def __init__(self, path: Path) -> None:
        self._path = path
        lines = path.read_text(encoding="utf-8").splitlines() if path.exists() else []
        self._rows = [row for row in map(json.loads, lines) if row["sources"] == sources()]

    def __contains__(self, case: Case) -> bool:
        return any(asdict(case).items() <= row.items() for row in self._rows)

    def add(self, case: Case, found: dict[str, Any]) -> None:
        """Appends one row."""
        row = {**asdict(case), **found, "sources": sources()}
        self._rows.append(row)
        self._path.parent.mkdir(parents=True, exist_ok=True)
        with self._path.open("a", encoding="utf-8") as file:
            file.write(json.dumps(row) + "\n")

    def ratios(self, fabric: str, work: str, ranks: int, budget: float | None = None) -> list[dict[str, Any]]:
        """Rows of one cell."""
        return [
            row
            for row in self._rows
            if (row["fabric"], row["work"], row["ranks"]) == (fabric, work, ranks) and budget in {None, row["budget"]}
        ]

    @property
    def fabrics(self) -> list[str]:
        """Those with rows."""
        return sorted({row["fabric"] for row in self._rows})

    @property
    def budgets(self) -> list[float]:
        """Those of steps that were sliced."""
        return sorted({row["budget"] for row in self._rows if row["work"] == STEP})


def mean_ratio(rows: Sequence[dict[str, Any]]) -> float:
    """Mean of packets over mean of flow: what a mean over many hashings is compared by."""
    return fmean(row["packet_s"] for row in rows) / fmean(row["flow_s"] for row in rows)


def cell(rows: Sequence[dict[str, Any]]) -> str:
    """Mean, spread of single seeds, number of seeds."""
    if not rows:
        return ""
    single = [row["packet_s"] / row["flow_s"] for row in rows]
    spread = f" +- {stdev(single):.3f}" if len(single) > 1 else ""
    return f"{mean_ratio(rows):.3f}{spread} ({len(rows)})"


def page(store: Store) -> Iterator[str]:
    """Lines of Markdown."""
    for fabric in store.fabrics:
        yield f"| `{fabric}` | " + " | ".join(str(size) for size in SIZES) + " |"
        yield "|---" * (1 + len(SIZES)) + "|"
        budgets = store.budgets
        for work in (*WORKS, STEP):
            for budget in budgets if work == STEP else [None]:
                name = f"{work}, {budget:.0e} packet-hops" if budget else work
                cells = [cell(store.ratios(fabric, work, size, budget)) for size in SIZES]
                if any(cells):
                    yield f"| {name} | " + " | ".join(cells) + " |"
        yield ""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--works", default=",".join((*WORKS, STEP)))
    parser.add_argument("--ranks", default="32,64")
    parser.add_argument("--seeds", type=int, default=20)
    parser.add_argument("--budget", default=f"{BUDGET_HOPS:g}", help="packet-hops of a run, one or several")
    parser.add_argument("--fabric", default="roce")
    parser.add_argument("--store", type=Path, default=STORE)
    parser.add_argument("--page", action="store_true", help="print the table of the store and run nothing")
    given = parser.parse_args()
    unknown = sorted(set(given.works.split(",")) - {*WORKS, STEP})
    if unknown:
        parser.error(f"--works: {unknown[0]!r} is none of {', '.join((*WORKS, STEP))}")
    store = Store(given.store)
    cells = [
        Case(given.fabric, work, int(ranks), float(budget), seed)
        for ranks in given.ranks.split(",")
        for work in given.works.split(",")
        for budget in given.budget.split(",")
        for seed in range(given.seeds)
    ]
    for case in cells if not given.page else ():
        if case not in store:
            store.add(case, case.run())
            rows = store.ratios(case.fabric, case.work, case.ranks, case.budget)
            print(case.work, case.ranks, case.seed, cell(rows), rows[-1]["cpu_s"], file=sys.stderr, flush=True)
    print("\n".join(page(store)))


if __name__ == "__main__":
    main()
