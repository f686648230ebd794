#!/usr/bin/env python3
"""Precision and recall of `railyard diagnose` on runs of the engine `lab`: one random part degraded, or none.

As `tools/blind_diagnosis.py`, but what is diagnosed has really run: processes over shaped links, with the kernel's own
noise, other programs of the machine beside them, and queues that were looked at now and then. What injects and what
diagnoses are two processes that share the file of the cluster and the record, of which every word on faults is taken
out. Cases that have been run or answered are not done again.

    .venv/bin/python tools/blind_lab.py build/blind-lab --count 40 --seed 1
"""

from __future__ import annotations

import argparse
import json
import random
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

sys.path.insert(0, str(Path(__file__).parent))
import blind_diagnosis as blind

from railyard.cluster.fault.kinds import DegradeLink, SlowAccelerator
from railyard.collective.policy import CollectivePolicy
from railyard.engine import Probes
from railyard.engine.flow import FLOW
from railyard.engine.lab.engine import LabEngine
from railyard.graph import Job
from railyard.graph.parquet import write_record
from railyard.work.scenario.load import from_values
from railyard.work.study.study import prepare
from railyard.work.training.graphs import redrawn

if TYPE_CHECKING:
    from railyard.graph import TaskGraph

RANKS = 8
LAYOUTS = ((1, 1), (1, 2), (1, 4), (2, 1), (2, 2))
TOPOLOGIES = (
    {"kind": "leaf-spine", "ports_per_leaf": 2, "spines": 2},
    {"kind": "leaf-spine", "ports_per_leaf": 4, "spines": 2},
    {"kind": "leaf-spine", "ports_per_leaf": 2, "spines": 1, "oversubscription": 2},
    {"kind": "leaf-spine", "ports_per_leaf": 64, "spines": 1},
)
PARTS = ("link", "nic", "host", "accelerator", "stage")
HEALTHY = 0.25
VISIBLE = 0.02
"""Of the step, as the flow engine expects it: runs of one lab differ by as much as 1 %."""

LONGEST_S = 6.0
SHARED = CollectivePolicy()
MODEL = {
    "architectures": ["LlamaForCausalLM"],
    "model_type": "llama",
    "hidden_act": "silu",
    "hidden_size": 512,
    "intermediate_size": 1536,
    "max_position_embeddings": 4096,
    "num_attention_heads": 8,
    "num_hidden_layers": 8,
    "num_key_value_heads": 8,
    "rms_norm_eps": 1e-05,
    "tie_word_embeddings": True,
    "torch_dtype": "bfloat16",
    "vocab_size": 4096,
}


def scenario(dice: random.Random, model: Path) -> dict[str, Any]:
    """A small training job over slow links."""
    tensor, pipeline = dice.choice(LAYOUTS)
    batches = dice.choice((2, 4)) if pipeline > 1 else 1
    network = {
        "topology": dice.choice(TOPOLOGIES),
        "fabric": "lab",
        "link_rate": f"{dice.choice((150, 200, 300))} Mb/s",
    }
    return {
        "name": "blind-lab",
        "cluster": {"accelerators": RANKS, "server": "gh200-node", "back_end": network},
        "workload": {
            "training": {
                "model": str(model),
                "tokens": "1 G",
                "global_batch": 4 * batches * RANKS // (tensor * pipeline),
                "sequence": dice.choice((128, 256)),
                "parallelism": {"tp": tensor, "pp": pipeline, "zero": dice.choice((0, 1)), "micro_batch": 4},
            }
        },
        "seed": dice.randrange(1000),
    }


def paced(graph: TaskGraph, cluster: Any, dice: random.Random) -> TaskGraph:
    """The graph with computations about as long as communications on such links."""
    plain = replace(graph, loss_index=None, loss=None)
    network = FLOW.simulate([Job(replace(plain, duration_ps=0 * plain.duration_ps))], cluster, policy=SHARED)
    busiest = np.bincount(plain.rank[plain.on_accelerator], plain.duration_ps[plain.on_accelerator]).max()
    factor = dice.uniform(0.3, 1.2) * network.makespan_ps / busiest
    return replace(plain, duration_ps=np.rint(plain.duration_ps * factor).astype(np.int64))


def injected(dice: random.Random, used: list[tuple[str, str, list[int]]], stages: list[list[int]]) -> Any:
    """The names by which the part may go, its kind, what is left of it, and the faults."""
    if dice.random() < HEALTHY:
        return [], "nothing", 1.0, []
    factor, kind = round(dice.uniform(0.2, 0.9), 3), dice.choice(PARTS)
    cables = [(name, links) for what, name, links in used if what == kind]
    if kind in ("link", "nic") and cables:
        name, links = dice.choice(cables)
        return [name], kind, factor, [DegradeLink(factor=factor, link=link) for link in links]
    if kind == "stage" and stages:
        number = dice.randrange(len(stages))
        return [f"stage {number}"], kind, factor, [SlowAccelerator(rank=rank, factor=factor) for rank in stages[number]]
    rank = dice.randrange(RANKS)
    kind = "host" if kind == "host" else "accelerator"
    return [f"rank {rank}", f"server {rank}"], kind, factor, [SlowAccelerator(rank=rank, factor=factor)]


def inject(folder: Path, number: int, seed: int) -> None:
    """Runs one case, unless it is there."""
    place = folder / f"{number:04}"
    if (folder / f"truth-{number:04}.json").is_file():
        return
    place.mkdir(parents=True, exist_ok=True)
    model = folder / "config.json"
    model.write_text(json.dumps(MODEL), encoding="utf-8")
    dice = random.Random(seed * 100_019 + number)
    while True:
        values = scenario(dice, model)
        job = prepare(from_values(values))[0]
        cluster = redrawn(job.cluster, values["seed"])
        graph = paced(job.graphs.of(job.training, job.cluster), cluster, dice)
        healthy = FLOW.simulate([Job(graph)], cluster, policy=SHARED, seed=values["seed"])
        if healthy.makespan_ps * 1e-12 < LONGEST_S:
            break
    used = blind.cables(cluster, cluster.links.to_physical(healthy.tables["links"]["bytes"]))
    names, kind, factor, faults = injected(dice, used, blind.stages_of(graph))
    expected = FLOW.simulate([Job(graph)], cluster, policy=SHARED, seed=values["seed"], faults=faults)
    record = LabEngine().simulate(
        [Job(graph)], cluster, policy=SHARED, seed=values["seed"], faults=faults, probes=Probes(full=True)
    )
    shown = {"cluster": values["cluster"], "seed": values["seed"]}
    (place / "cluster.json").write_text(json.dumps(shown), encoding="utf-8")
    truth = {
        "parts": names,
        "kind": kind,
        "factor": factor,
        "effect": expected.makespan_ps / healthy.makespan_ps - 1,
        "network": values["cluster"]["back_end"],
        "parallelism": values["workload"]["training"]["parallelism"],
        "expected_s": expected.makespan_ps * 1e-12,
        "measured_s": record.makespan_ps * 1e-12,
    }
    write_record(replace(record, meta={"engine": "lab"}), place / "record.parquet")
    (folder / f"truth-{number:04}.json").write_text(json.dumps(truth), encoding="utf-8")
    print(number, kind, f"{truth['measured_s'] / truth['expected_s']:.3f}", file=sys.stderr, flush=True)


def main() -> None:
    """Injects, diagnoses and judges; with `--only`, one of the three."""
    words = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    words.add_argument("folder", type=Path)
    words.add_argument("--count", type=int, default=40)
    words.add_argument("--seed", type=int, default=1)
    words.add_argument("--only", choices=("inject", "diagnose", "judge"), help="one of the steps")
    asked = words.parse_args()
    asked.folder.mkdir(parents=True, exist_ok=True)
    if asked.only == "inject":
        for number in range(asked.count):
            inject(asked.folder, number, asked.seed)
        return
    if asked.only == "diagnose":
        for number in range(asked.count):
            blind.diagnose(asked.folder, number)
        return
    if asked.only is None:
        common = [sys.executable, __file__, str(asked.folder), "--count", str(asked.count), "--seed", str(asked.seed)]
        for step in ("inject", "diagnose"):
            subprocess.run([*common, "--only", step], check=True)
    blind.VISIBLE = VISIBLE
    blind.report([blind.judged(asked.folder, number) for number in range(asked.count)])


if __name__ == "__main__":
    main()
