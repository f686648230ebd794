#!/usr/bin/env python3
"""Derives how fabrics behave where links differ or others share them: from packet runs, for the flow engine.

Usage: validation/tools/fabric_behavior.py [--fabrics NAME,...] [--check] [--page]

Every fabric runs collectives of 64 accelerators packet by packet: alone, with one uplink, downlink or NIC at a quarter
of its rate, with a dead spine, next to permutations that load every port to 30 %, and next to incasts. The values of
`railyard.cluster.fabric.fabric.Behavior` are those with which the flow engine comes nearest to the slowdowns of packets
(mean absolute logarithm), each on the situations that it is about. `--check` prints the comparison with the values that
stand in the package and writes nothing. One core takes about ten minutes.
"""

from __future__ import annotations

import argparse
import json
import math
from dataclasses import dataclass, replace
from functools import cache, cached_property
from pathlib import Path
from statistics import fmean
from typing import TYPE_CHECKING, Any

import numpy as np

from railyard import catalog
from railyard import engine as engines
from railyard.cluster import ClusterSpec, FabricSpec, NetworkSpec, build
from railyard.cluster.fabric.fabric import Behavior, bought, fabrics
from railyard.cluster.fault import DegradeLink, Fault, SwitchDown
from railyard.cluster.topology import LeafSpine
from railyard.engine.background import Bursts
from railyard.engine.packet.engine import PacketEngine
from railyard.graph import CollectiveKind, Communicators, Job, Kind, Label, Stream, TaskGraph
from railyard.kit.quantities import percentile

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from railyard.cluster import Cluster

OUT = Path(__file__).parents[2] / "src/railyard/cluster/fabric/behavior.json"
RANKS, SERVER, LEAF = 64, "hgx-h100", 16
SPINES = {"scheduled": 9}
"""A scheduled leaf's uplinks divide by 9; the others have 8."""

SEEDS = (0, 1)
MIB = 1 << 20
WORKS = {
    "ring": (CollectiveKind.ALL_GATHER, 256 * MIB),
    "ring, smaller": (CollectiveKind.ALL_GATHER, 64 * MIB),
    "all-to-all": (CollectiveKind.ALL_TO_ALL, 32 * MIB),
    "all-to-all, smaller": (CollectiveKind.ALL_TO_ALL, 16 * MIB),
}
OVERSUBSCRIPTIONS = (1.0, 2.0)
SERVERS = (0, 2, 4, 6, 1, 3, 5, 7)
"""Neighbours in a ring are on different leafs."""

LOAD_PS = round(1e12 * MIB * 8 / (0.3 * 400e9))
INCASTS = (
    ("incast 8:1", Bursts("incast", 8, 1 << 20, 250 * 10**6)),
    ("incast 16:1", Bursts("incast", 16, 256 << 10, 150 * 10**6)),
)
BACKGROUND = {"background": (Bursts("permutation", RANKS, MIB, LOAD_PS),)} | {name: (one,) for name, one in INCASTS}
UNEVEN = ("degraded uplink", "degraded downlink", "dead spine")
SLOW_NIC = "slow NIC"
SITUATIONS = ("healthy", *UNEVEN, SLOW_NIC, *BACKGROUND)
GROUPS = {
    "degraded uplink": "slower link",
    "degraded downlink": "slower link",
    "dead spine": "dead spine",
    SLOW_NIC: SLOW_NIC,
    "background": "background",
    "incast 8:1": "incast",
    "incast 16:1": "incast",
}
KEPT = 0.25
SLOW_PORT = 3

GRIDS = {
    "remaining_efficiency": ("dead spine", np.linspace(0.6, 1.0, 21)),
    "moved_up": ("degraded uplink", np.linspace(0.0, 1.0, 21)),
    "moved_down": ("degraded downlink", np.linspace(0.0, 1.0, 21)),
}


@dataclass(frozen=True)
class Case:
    """A collective on a network in a situation."""

    fabric: str
    work: str
    oversubscription: float
    situation: str

    def cluster(self, behavior: Behavior | None, seed: int) -> Cluster:
        """Where it runs; `None`: the behavior that stands in the package."""
        topology = LeafSpine(
            ports_per_leaf=LEAF, spines=SPINES.get(self.fabric, 8), oversubscription=self.oversubscription
        )
        network = NetworkSpec(fabric=FabricSpec(self.fabric, {"behavior": behavior}), topology=topology, seed=seed)
        return build(ClusterSpec(RANKS, SERVER, network), known())

    def job(self) -> Job:
        """What runs."""
        kind, size_bytes = WORKS[self.work]
        return Job(collective(kind, size_bytes))

    def faults(self, cluster: Cluster) -> tuple[Fault, ...]:
        """The slower links or the dead spine, where there are any."""
        if self.situation == "dead spine":
            return (SwitchDown(switch="spine 3"),)
        if self.situation == SLOW_NIC:
            links = np.concatenate(cluster.back_end.port_links(SLOW_PORT))
            return tuple(DegradeLink(factor=KEPT, link=int(link)) for link in links)
        if "degraded" not in self.situation:
            return ()
        ends = (RANKS, RANKS + RANKS // LEAF + 3)
        link = first_link(cluster, *(ends if "uplink" in self.situation else ends[::-1]))
        return (DegradeLink(factor=KEPT, link=link),)


@cache
def known() -> catalog.Catalog:
    """The catalogue, read once."""
    return catalog.load()


def collective(kind: CollectiveKind, size_bytes: int) -> TaskGraph:
    """One collective of all ranks."""
    per_server = RANKS // len(SERVERS)
    ranks = (np.array(SERVERS)[:, None] * per_server + np.arange(per_server)).ravel().astype(np.int32)
    return TaskGraph(
        ranks=RANKS,
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
        communicators=Communicators(np.array([0, RANKS], np.int64), ranks, ["dp"]),
    )


def first_link(cluster: Cluster, source: int, target: int) -> int:
    """The first link of the back-end between two of its nodes."""
    wiring = cluster.back_end.wiring
    found = np.flatnonzero((wiring.source == source) & (wiring.target == target))
    return int(found[0]) + cluster.back_end.link_offset


def packet_ps(case: Case, seed: int) -> int:
    """How long it takes packet by packet."""
    cluster = case.cluster(None, seed)
    engine = PacketEngine(budget_hops=1e9, samples=0, background=BACKGROUND.get(case.situation, ()))
    return engine.simulate([case.job()], cluster, seed=seed, faults=case.faults(cluster)).makespan_ps


def flow_ps(case: Case, behavior: Behavior | None, seed: int = 0) -> int:
    """How long it takes in the flow engine."""
    cluster = case.cluster(behavior, seed)
    engine = replace(engines.get("flow"), background=BACKGROUND.get(case.situation, ()))
    return engine.simulate([case.job()], cluster, faults=case.faults(cluster)).makespan_ps


@dataclass(frozen=True)
class Comparison:
    """A fabric's slowdowns packet by packet, and how near the flow engine comes."""

    fabric: str

    @cached_property
    def hashed(self) -> bool:
        """Whether its flows are hashed, so that seeds of switches count."""
        return fabrics.get(self.fabric).hashed

    def cases(self, situation: str) -> list[Case]:
        """What is run in a situation."""
        if self.fabric == "ideal" and situation in UNEVEN:
            return []  # a crossbar has neither uplinks nor spines
        loads = OVERSUBSCRIPTIONS if situation in UNEVEN else (1.0,)
        works = [name for name in WORKS if not (situation in UNEVEN and name == "ring, smaller")]
        return [Case(self.fabric, work, load, situation) for work in works for load in loads]

    @cached_property
    def packets(self) -> dict[Case, list[float]]:
        """Slowdowns against the healthy network, a seed each."""
        out = {}
        for situation in SITUATIONS[1:]:
            for case in self.cases(situation):
                healthy = replace(case, situation="healthy")
                out[case] = [packet_ps(case, seed) / self._healthy_ps(healthy, seed) for seed in SEEDS]
                print(case, [round(one, 3) for one in out[case]], flush=True)
        return out

    @cache  # noqa: B019 - one instance a fabric
    def _healthy_ps(self, case: Case, seed: int) -> int:
        return packet_ps(case, seed)

    def flow(self, case: Case, behavior: Behavior | None, seed: int = 0) -> float:
        """The flow engine's slowdown."""
        seed = seed if self.hashed else 0
        return flow_ps(case, behavior, seed) / self._flow_healthy_ps(replace(case, situation="healthy"), seed)

    @cache  # noqa: B019
    def _flow_healthy_ps(self, case: Case, seed: int) -> int:
        return flow_ps(case, None, seed)

    def ratios(self, situation: str, behavior: Behavior | None) -> list[float]:
        """Flow over packet of every case; the mean over seeds, which differ in what is drawn."""
        return [
            fmean(self.flow(case, behavior, seed) for seed in (SEEDS if self.hashed else SEEDS[:1]))
            / fmean(self.packets[case])
            for case in self.cases(situation)
        ]

    def error(self, behavior: Behavior, *situations: str) -> float:
        """Mean absolute logarithm of flow over packet."""
        found = [abs(math.log(ratio)) for situation in situations for ratio in self.ratios(situation, behavior)]
        return fmean(found) if found else 0.0

    def fitted(self) -> Behavior:
        """The values that come nearest, one after another."""
        behavior = Behavior()
        if not self.hashed and self.fabric != "ideal":
            for name, (situation, values) in GRIDS.items():
                behavior = self._best(behavior, name, values, situation)
        for name, values in (WEIGHTS, WITHHELD, WEIGHTS, WITHHELD):
            behavior = self._best(behavior, name, values, *BACKGROUND)
        return behavior

    def _best(self, behavior: Behavior, name: str, values: Sequence[float], *situations: str) -> Behavior:
        tried = [replace(behavior, **{name: round(float(value), 4)}) for value in values]
        errors = [self.error(one, *situations) for one in tried]
        plain = self.error(behavior, *situations)
        best = int(np.argmin(errors))
        return tried[best] if errors[best] < plain - 1e-4 else behavior

    def row(self, behavior: Behavior) -> dict[str, Any]:
        """What the file says of it."""
        names = ("moved_up", "moved_down", "remaining_efficiency", "background_weight", "withheld")
        ratios: dict[str, list[float]] = {}
        runs = []
        for situation in SITUATIONS[1:]:
            cases = self.cases(situation)
            ratios.setdefault(GROUPS[situation], []).extend(self.ratios(situation, behavior))
            runs += [
                {
                    "situation": situation,
                    "work": case.work,
                    "oversubscription": case.oversubscription,
                    "packet": [round(one, 3) for one in self.packets[case]],
                    "flow": round(self.flow(case, behavior), 3),
                }
                for case in cases
            ]
        return {
            "fabric": self.fabric,
            "values": {name: getattr(behavior, name) for name in names},
            "spread": {
                group: [round(percentile(sorted(found), q) - 1, 3) for q in (0.1, 0.9)]
                for group, found in ratios.items()
                if found
            },
            "slowdowns": runs,
        }


WEIGHTS = ("background_weight", 2.0 ** np.arange(-4, 3.1, 0.5))
WITHHELD = ("withheld", (0.0, 0.02, 0.05, 0.1, 0.15, 0.2, 0.3, 0.4, 0.5, 0.7, 1.0, 1.4, 2.0, 2.8, 4.0))

PROVENANCE = {
    "cluster": f"{RANKS} accelerators of {SERVER}, {LEAF} ports a leaf, 8 spines (scheduled: 9), 400 Gb/s",
    "oversubscription": list(OVERSUBSCRIPTIONS),
    "works": {name: f"{kind.name.lower()}, {size >> 20} MiB" for name, (kind, size) in WORKS.items()},
    "situations": {
        "degraded uplink": f"one link from a leaf to a spine at {KEPT:.0%}",
        "degraded downlink": f"one link from a spine to a leaf at {KEPT:.0%}",
        "dead spine": "one spine gone from the start",
        SLOW_NIC: f"one NIC at {KEPT:.0%}, both ways",
        "background": "permutations of 1 MiB flows that load every port to 30 %",
        "incast 8:1": "8 flows of 1 MiB to one port every 250 us",
        "incast 16:1": "16 flows of 256 KiB to one port every 150 us",
    },
    "seeds": list(SEEDS),
    "fit": "least mean absolute logarithm of slowdown (flow) over slowdown (packets, mean over seeds)",
    "spread": "10th and 90th percentile over cases of that ratio, less 1",
}


def pages(table: dict[str, Any]) -> Iterator[str]:
    """Lines of Markdown: slowdowns of the flow engine and of packets, by fabric, work and situation."""
    yield "| fabric | work | " + " | ".join(SITUATIONS[1:]) + " |"
    yield "|---" * (1 + len(SITUATIONS)) + "|"
    for row in table["compositions"].values():
        found = {(one["situation"], one["work"]): one for one in row["slowdowns"] if one["oversubscription"] == 1}
        for work in ("ring", "all-to-all"):
            ones = [found.get((situation, work)) for situation in SITUATIONS[1:]]
            words = ["" if one is None else f"{one['flow']:.2f} / {fmean(one['packet']):.2f}" for one in ones]
            yield f"| `{row['fabric']}` | {work} | " + " | ".join(words) + " |"


def _one_each() -> list[str]:
    """The first bought fabric of each composition: `roce` gives the row that `roce-untuned` shares."""
    return list({fabrics.get(name).composition: name for name in reversed(bought())}.values())[::-1]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--fabrics", default=",".join(_one_each()))
    parser.add_argument("--check", action="store_true")
    parser.add_argument("--page", action="store_true", help="print the table of the documentation and run nothing")
    given = parser.parse_args()
    table = json.loads(OUT.read_text(encoding="utf-8")) if OUT.exists() else {"compositions": {}}
    if given.page:
        print("\n".join(pages(table)))
        return
    for name in given.fabrics.split(","):
        comparison, fabric = Comparison(name), fabrics.get(name)
        behavior = fabric.behaves if given.check else comparison.fitted()
        row = comparison.row(behavior)
        print(name, json.dumps(row["values"]), json.dumps(row["spread"]), flush=True)
        before = table["compositions"].get(fabric.composition, {"spread": {}})["spread"]
        row["spread"] = {**before, **row["spread"]}  # those of `situations.py` stay
        table["compositions"][fabric.composition] = row
        if not given.check:
            OUT.write_text(json.dumps({"runs": PROVENANCE, **{"compositions": table["compositions"]}}, indent=1) + "\n")


if __name__ == "__main__":
    main()
