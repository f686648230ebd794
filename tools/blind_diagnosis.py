#!/usr/bin/env python3
"""Precision, recall and calibration of `railyard diagnose`: random runs with one random part degraded, or none.

What injects and what diagnoses are two processes that share, for each case, the file of the cluster and the record, of
which every word on faults is taken out. What was injected lies in a third file that only the judge opens. The truth
differs
from the file in ways that nobody is told: a stack that adds to each step of a collective, other traffic, jitter of
computations, dips of whole tiers, and counters that are read a little wrong. Cases that have been answered are not run
again.

    .venv/bin/python tools/blind_diagnosis.py build/blind --count 200 --seed 1
    .venv/bin/python tools/blind_diagnosis.py build/blind-packets --count 100 --seed 1 --engine packet

With `--engine packet` every packet is simulated, so that physics other than those of the replay make the record:
queues, pauses, retransmissions, control loops. Its clusters are smaller, nobody measures what communications took from
computations, and ports count for how long a queue stood before them.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import subprocess
import sys
from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from railyard.ask.observe.diagnose import diagnose as diagnosed
from railyard.cluster.fault.kinds import DegradeLink, SlowAccelerator
from railyard.cluster.names import node_name
from railyard.collective.policy import CollectivePolicy
from railyard.engine import Jitter, Probes
from railyard.engine.flow import FLOW
from railyard.engine.packet.engine import PACKET
from railyard.graph import Job, Record
from railyard.graph.parquet import write_record
from railyard.work.scenario.load import from_values
from railyard.work.study.study import prepare
from railyard.work.training.graphs import redrawn

LAYOUTS = ((1, 1), (1, 2), (1, 4), (2, 2), (2, 4), (4, 2), (4, 1), (8, 2), (8, 1))
TOPOLOGIES = (
    {"kind": "leaf-spine", "ports_per_leaf": 8, "spines": 4},
    {"kind": "leaf-spine", "ports_per_leaf": 16, "spines": 4},
    {"kind": "leaf-spine", "ports_per_leaf": 8, "spines": 2, "oversubscription": 2},
    {"kind": "fat-tree", "k": 8},
    {"kind": "rail-optimized", "servers_per_leaf": 2},
    {"kind": "rail-optimized", "servers_per_leaf": 2, "oversubscription": 2},
)
FABRICS = ("roce", "roce", "infiniband", "spectrum-x", "uec")
PARTS = ("link", "link", "nic", "host", "host-network", "accelerator", "stage")
HEALTHY = 0.25
"""Share of runs in which nothing is wrong."""

ENGINES = {"flow": FLOW, "packet": replace(PACKET, budget_hops=5e6)}

VISIBLE = 0.002
"""Of the step: a fault that prolongs it by less may be missed."""


def scenario(dice: random.Random) -> dict[str, Any]:
    """A small training job on a small cluster whose servers do not share one leaf."""
    tensor, pipeline = dice.choice(LAYOUTS)
    return {
        "name": "blind",
        "cluster": {
            "accelerators": dice.choice((32, 32, 64)),
            "server": "hgx-h100",
            "back_end": {"topology": dice.choice(TOPOLOGIES), "fabric": dice.choice(FABRICS)},
        },
        "workload": {
            "training": {
                "model": dice.choice(("llama-3.2-1b", "llama-3.2-3b")),
                "tokens": "1 T",
                "global_batch": dice.choice((64, 128)),
                "sequence": dice.choice((1024, 2048, 4096)),
                "parallelism": {"tp": tensor, "pp": pipeline, "micro_batch": 1},
            }
        },
        "seed": dice.randrange(1000),
    }


def injected(dice: random.Random, used: list[tuple[str, str, list[int]]], stages: list[list[int]], ranks: int) -> Any:
    """The names by which the part may go, and the faults; no names for nothing at all."""
    if dice.random() < HEALTHY:
        return [], "nothing", 0.0, []
    factor, kind = round(dice.uniform(0.2, 0.95), 3), dice.choice(PARTS)
    if kind == "stage" and not stages:
        kind = "accelerator"
    server = dice.randrange(ranks // 8)
    if kind in ("link", "nic"):
        cables = [(name, links) for what, name, links in used if what == kind]
        if not cables:
            return [], "nothing", 0.0, []
        name, links = dice.choice(cables)
        return [name], kind, factor, [DegradeLink(factor=factor, link=link) for link in links]
    if kind == "host-network":
        cables = [links for what, name, links in used if what == "nic" and name.startswith(f"server {server} ")]
        return (
            [f"server {server}"],
            kind,
            factor,
            [DegradeLink(factor=factor, link=x) for links in cables for x in links],
        )
    groups = {
        "host": ([f"server {server}"], range(8 * server, 8 * server + 8)),
        "accelerator": ([f"rank {8 * server}"], range(8 * server, 8 * server + 1)),
    }
    if kind == "stage":
        number = dice.randrange(len(stages))
        names, those = [f"stage {number}"], stages[number]
        if len(those) == 8 and those == list(range(those[0], those[0] + 8)):
            names.append(f"server {those[0] // 8}")  # the same accelerators under another name
    else:
        names, those = groups[kind]
    return names, kind, factor, [SlowAccelerator(rank=rank, factor=factor) for rank in those]


def cables(cluster: Any, carried: np.ndarray) -> list[tuple[str, str, list[int]]]:
    """Kind, name and links of NICs and cables between switches that carry anything."""
    links, found = cluster.links, {}
    for link in np.flatnonzero(carried[: links.physical] > 0).tolist():
        ends = sorted((int(links.source[link]), int(links.target[link])))
        names = [node_name(cluster, node) for node in ends]
        if not all(name.startswith("back-end ") for name in names):
            continue
        one, other = (name.removeprefix("back-end ").replace(" NIC ", " nic ") for name in names)
        server = one.startswith("server")
        found[one if server else f"{one} - {other}"] = ("nic" if server else "link", ends)
    every = np.stack([links.source[: links.physical], links.target[: links.physical]])
    return [
        (kind, name, np.flatnonzero((np.sort(every, axis=0) == np.array(ends)[:, None]).all(axis=0)).tolist())
        for name, (kind, ends) in sorted(found.items())
    ]


def stages_of(graph: Any) -> list[list[int]]:
    """Ranks by the layers that they compute."""
    layers: dict[int, set[int]] = {}
    for label, rank, kind in zip(graph.label.tolist(), graph.rank.tolist(), graph.kind.tolist(), strict=True):
        if kind == 0 and graph.labels[label].layer >= 0:
            layers.setdefault(rank, set()).add(graph.labels[label].layer)
    groups: dict[tuple[int, ...], list[int]] = {}
    for rank, those in layers.items():
        groups.setdefault(tuple(sorted(those)), []).append(rank)
    return [sorted(ranks) for _, ranks in sorted(groups.items())] if len(groups) > 1 else []


def dips(dice: random.Random, tiers: list[str], span_ps: int) -> list[DegradeLink]:
    """Whole tiers that are a little slower for moments: nobody's fault."""
    if dice.random() < 0.5:
        return []
    spell = span_ps // dice.randrange(20, 60)
    return [
        DegradeLink(
            factor=dice.uniform(0.94, 0.99), tier=tier, at_ps=spell // 3, for_ps=spell // 4, every_ps=spell, times=15
        )
        for tier in tiers
    ]


def misread(record: Record, dice: random.Random) -> Record:
    """The record without what it says of faults, its counters a little wrong."""
    rng = np.random.default_rng(dice.randrange(1 << 30))
    noise = dice.choice((0.0, 0.01, 0.03))
    table = {
        name: (values * np.exp(rng.normal(0, noise, len(values)))).astype(values.dtype)
        for name, values in record.tables["links"].items()
    }
    return replace(record, tables={"links": table}, parts={}, meta={"engine": record.meta["engine"]})


def inject(folder: Path, number: int, seed: int, engine: str) -> None:
    """Writes one case, unless it is there."""
    place = folder / f"{number:04}"
    if (folder / f"truth-{number:04}.json").is_file():
        return
    dice = random.Random(seed * 100_003 + number)
    values = scenario(dice)
    if engine == "packet":
        values["cluster"]["accelerators"] = dice.choice((16, 16, 32))
    job = prepare(from_values(values))[0]
    graph = job.graphs.of(job.training, job.cluster)
    cluster = redrawn(job.cluster, values["seed"])
    jitter = Jitter(sigma=dice.choice((0.0, 0.005, 0.01)), rank_sigma=dice.choice((0.0, 0.002, 0.005)))
    policy = CollectivePolicy(**dice.choice(({}, {"network_overhead_ps": 500_000}, {"network_overhead_ps": 1_500_000})))

    def run(faults: list[Any]) -> Record:
        probes = Probes(full=True)
        return ENGINES[engine].simulate(
            [Job(graph)], cluster, seed=values["seed"], faults=faults, jitter=jitter, policy=policy, probes=probes
        )

    healthy = run([])
    usual = dips(dice, [tier for tier in cluster.links.tiers if tier != "scale-up"], healthy.makespan_ps)
    healthy = run(usual)
    used = cables(cluster, cluster.links.to_physical(healthy.tables["links"]["bytes"]))
    names, kind, factor, faults = injected(dice, used, stages_of(graph), graph.ranks)
    record = run([*faults, *usual])
    place.mkdir(parents=True, exist_ok=True)
    (place / "cluster.json").write_text(
        json.dumps({"cluster": values["cluster"], "seed": values["seed"]}), encoding="utf-8"
    )
    truth = {
        "parts": names,
        "kind": kind,
        "factor": factor,
        "effect": record.makespan_ps / healthy.makespan_ps - 1,
        "network": values["cluster"]["back_end"],
    }
    write_record(misread(record, dice), place / "record.parquet")
    (folder / f"truth-{number:04}.json").write_text(json.dumps(truth), encoding="utf-8")


def diagnose(folder: Path, number: int) -> None:
    """Answers one case, unless it is answered."""
    place = folder / f"{number:04}"
    if (place / "answer.json").is_file():
        return
    answer = diagnosed(place / "record.parquet", place / "cluster.json")
    text = json.dumps({**answer.plain(), "notes": answer.notes})
    (place / "answer.json").write_text(text, encoding="utf-8")


def judged(folder: Path, number: int) -> dict[str, Any]:
    """What was true and what was answered."""
    truth = json.loads((folder / f"truth-{number:04}.json").read_text(encoding="utf-8"))
    answer = json.loads((folder / f"{number:04}" / "answer.json").read_text(encoding="utf-8"))
    named = [(one["part"], one["confidence"]) for one in answer["verdict"]]
    right = any(part in truth["parts"] for part, _ in named)
    return {**truth, "case": number, "named": named, "right": right, "unknown": answer["unknown"]}


def report(cases: list[dict[str, Any]]) -> None:
    """Prints figures, and every case that is wrong."""
    seen = [case for case in cases if case["parts"] and case["effect"] >= VISIBLE]
    named = [(part in case["parts"], sure) for case in cases for part, sure in case["named"]]
    right = sum(is_right for is_right, _ in named)
    healthy = [case for case in cases if not case["parts"]]
    print(f"{len(cases)} cases: {len(healthy)} healthy, {len(seen)} prolong the step by {VISIBLE:.1%} or more")
    print(f"precision {right}/{len(named)} = {right / max(len(named), 1):.3f}")
    print(f"recall {sum(case['right'] for case in seen)}/{len(seen)} = {np.mean([case['right'] for case in seen]):.3f}")
    print(f"a part named where nothing is wrong: {sum(bool(case['named']) for case in healthy)} of {len(healthy)}")
    for kind in sorted({case["kind"] for case in seen}):
        of = [case for case in seen if case["kind"] == kind]
        unknown = sum(case["unknown"] and not case["right"] for case in of)
        print(f"  {kind}: {sum(case['right'] for case in of)}/{len(of)} named, {unknown} answered 'I do not know'")
    hidden = [case for case in cases if case["parts"] and case["effect"] < VISIBLE]
    print(f"of {len(hidden)} faults with less effect {sum(case['right'] for case in hidden)} were named")
    for low, high in ((0.0, 0.8), (0.8, 0.9), (0.9, 0.97), (0.97, 1.0)):
        those = [(is_right, sure) for is_right, sure in named if low <= sure < high]
        if those:
            mean, good = np.mean([sure for _, sure in those]), sum(is_right for is_right, _ in those)
            print(f"  said with {low:.0%} to {high:.0%} (mean {mean:.1%}): {good}/{len(those)} right")
    print(f"kinds drawn: {dict(Counter(case['kind'] for case in cases))}")
    for case in cases:
        wrong = [part for part, _ in case["named"] if part not in case["parts"]]
        if wrong or (case in seen and not case["right"]):
            print(json.dumps(case))


def main() -> None:
    """Injects, diagnoses and judges; with a hidden argument, one of the first two alone."""
    words = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    words.add_argument("folder", type=Path)
    words.add_argument("--count", type=int, default=200)
    words.add_argument("--seed", type=int, default=1)
    words.add_argument("--engine", choices=tuple(ENGINES), default="flow", help="which makes the records")
    words.add_argument("--only", choices=("inject", "diagnose", "judge"), help="one of the steps")
    asked = words.parse_args()
    asked.folder.mkdir(parents=True, exist_ok=True)
    steps = {
        "inject": lambda number: inject(asked.folder, number, asked.seed, asked.engine),
        "diagnose": lambda number: diagnose(asked.folder, number),
    }
    if asked.only in steps:
        for number in range(asked.count):
            steps[asked.only](number)
        return
    if asked.only is None:
        for step in steps:
            command = [
                sys.executable,
                __file__,
                str(asked.folder),
                "--count",
                str(asked.count),
                "--seed",
                str(asked.seed),
                "--engine",
                asked.engine,
            ]
            subprocess.run([*command, "--only", step], check=True, env=dict(os.environ))
    report([judged(asked.folder, number) for number in range(asked.count)])


if __name__ == "__main__":
    main()
