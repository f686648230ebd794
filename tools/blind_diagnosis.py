#!/usr/bin/env python3
"""Precision and recall of `railyard diagnose`: random runs with one random part degraded, or nothing at all.

What injects and what diagnoses share the file of the cluster and the record, and nothing else: the record's `meta` is
emptied on the way. A fault that prolongs the step by less than `--visible` may be missed.

    .venv/bin/python tools/blind_diagnosis.py --count 40 --seed 1
"""

from __future__ import annotations

import argparse
import json
import random
import subprocess
import sys
import tempfile
from dataclasses import replace
from pathlib import Path

from railyard.cluster.names import link_name
from railyard.graph.parquet import read_record, write_record
from railyard.observe.clusterfile import cluster_of

LAYOUTS = ({"tp": 2, "pp": 4}, {"tp": 1, "pp": 4}, {"tp": 4, "pp": 2}, {"tp": 8, "pp": 2}, {"tp": 1, "pp": 8})
NETWORKS = (("rail-optimized", "roce"), ("rail-optimized", "infiniband"), ("fat-tree", "roce"))
HEALTHY = 0.25
"""Share of runs in which nothing is wrong."""


def scenario(dice: random.Random) -> dict[str, object]:
    """A small training job on a small cluster."""
    layout = dice.choice(LAYOUTS)
    topology, fabric = dice.choice(NETWORKS)
    return {
        "name": "blind",
        "cluster": {
            "accelerators": dice.choice((32, 64)),
            "server": "hgx-h100",
            "back_end": {"topology": topology, "fabric": fabric},
        },
        "workload": {
            "training": {
                "model": "llama-3-8b",
                "tokens": "1 T",
                "global_batch": 64,
                "sequence": dice.choice((2048, 4096)),
                "parallelism": {**layout, "micro_batch": 1},
            }
        },
        "jitter": {"sigma": dice.choice((0.0, 0.005)), "rank_sigma": dice.choice((0.0, 0.002))},
        "seed": dice.randrange(1000),
    }


def fault(dice: random.Random, accelerators: int, leaves: list[str]) -> tuple[str, list[dict[str, object]]]:
    """The name of a part and the faults that degrade it; no name for nothing at all."""
    if dice.random() < HEALTHY:
        return "", []
    factor = f"{dice.uniform(20, 90):.1f} %"
    rank = dice.randrange(accelerators)
    kind = dice.choice(("accelerator", "host", "nic", "link"))
    if kind == "accelerator":
        return f"rank {rank}", [{"kind": "slow-accelerator", "rank": rank, "factor": factor}]
    server = rank // 8
    if kind == "host":
        ranks = range(8 * server, 8 * server + 8)
        return f"server {server}", [{"kind": "slow-accelerator", "rank": one, "factor": factor} for one in ranks]
    if kind == "nic":
        name = f"server {server} nic {rank % 8}"
        cable = next(one for one in leaves if one.startswith(f"{name} -"))
        return name, [{"kind": "degrade-link", "cable": cable, "factor": factor}]
    cables = [one for one in leaves if one.startswith("leaf")] or leaves
    cable = dice.choice(cables)
    return cable.split(" - leaf")[0] if cable.startswith("server") else cable, [
        {"kind": "degrade-link", "cable": cable, "factor": factor}
    ]


def cables(file: Path) -> list[str]:
    """Names of all cables of the back-end, by their ends."""
    cluster = cluster_of(file)
    names = [link_name(cluster, link) for link in range(cluster.links.physical)]
    ends = [name.replace("back-end ", "").replace(" NIC ", " nic ").split(" -> ") for name in names if "leaf" in name]
    return sorted({" - ".join(sorted(pair, key=_upward)) for pair in ends})


def _upward(end: str) -> tuple[bool, bool, str]:
    """Servers before leaves before spines."""
    return end.startswith("spine"), end.startswith("leaf"), end


def run(values: dict[str, object], faults: list[dict[str, object]], folder: Path) -> tuple[Path, float]:
    """The record of a run, without what it says of its faults, and its step in seconds."""
    file = folder / ("run.json" if faults else "healthy.json")
    file.write_text(json.dumps({**values, "faults": faults}), encoding="utf-8")
    out = folder / file.stem
    subprocess.run(
        [sys.executable, "-m", "railyard", "run", str(file), "-q", "--out", str(out)],
        check=True,
        stdout=subprocess.DEVNULL,
    )
    record = read_record(next(out.glob("*/timeline.parquet")))
    clean = folder / f"{file.stem}.parquet"
    write_record(replace(record, meta={"engine": record.meta["engine"]}), clean)
    return clean, record.makespan_ps * 1e-12


def judge(dice: random.Random, visible: float) -> dict[str, object]:
    """One case."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        values = scenario(dice)
        cluster = folder / "cluster.json"
        cluster.write_text(json.dumps({"cluster": values["cluster"]}), encoding="utf-8")
        part, faults = fault(dice, int(values["cluster"]["accelerators"]), cables(cluster))
        healthy, before = run(values, [], folder)
        record, after = run(values, faults, folder) if faults else (healthy, before)
        command = [sys.executable, "-m", "railyard", "diagnose", str(record), "--cluster", str(cluster), "--json"]
        answer = json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)
        named = [one["part"] for one in answer["verdict"]]
        seen = bool(part) and after / before - 1 >= visible
        return {
            "part": part,
            "named": named,
            "unknown": answer["unknown"],
            "effect": after / before - 1,
            "visible": seen,
        }


def main() -> None:
    words = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    words.add_argument("--count", type=int, default=40)
    words.add_argument("--seed", type=int, default=1)
    words.add_argument("--visible", type=float, default=0.002, help="least effect on the step that must be found")
    asked = words.parse_args()
    cases = []
    for number in range(asked.count):
        cases.append(judge(random.Random(asked.seed * 100_003 + number), asked.visible))
        print(json.dumps(cases[-1]), flush=True)
    named = sum(len(case["named"]) for case in cases)
    right = sum(case["part"] in case["named"] for case in cases if case["part"])
    seen = [case for case in cases if case["visible"]]
    found = sum(case["part"] in case["named"] for case in seen)
    wrongly = sum(bool(case["named"]) for case in cases if not case["part"])
    healthy = sum(not case["part"] for case in cases)
    every = len(cases) - healthy
    print(f"precision {right}/{named}, recall {found}/{len(seen)} of visible faults ({right}/{every} of all)")
    unknown = sum(bool(case["unknown"]) for case in cases)
    print(f"{wrongly} of {healthy} healthy runs have a part named; {unknown} answers are 'unknown'")


if __name__ == "__main__":
    main()
