"""How far `parallelism: auto` stays behind the fastest enumerated layout, over random scenarios.

python validation/tools/auto_layouts.py OUT.csv [--count 50] [--first 0]

Each scenario is drawn from its number: accelerators, server, model, batch, sequence, topology, oversubscription,
fabric, distance. Every layout that fits is simulated, but those whose computations alone take longer than the chosen
step, which no network can mend. A line is added to OUT.csv as each ends; those that stand there already are
not run again.
"""

from __future__ import annotations

import argparse
import csv
import random
import tempfile
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import yaml

from railyard.errors import InputError, SimulationError
from railyard.graph import Job
from railyard.model.machine import Machine
from railyard.scenario import load
from railyard.scenario.variants import expand
from railyard.study.training.hash_seeds import redrawn
from railyard.study.training.prepare import Graphs, prepare
from railyard.workload.training.estimate import estimate
from railyard.workload.training.layout import candidates
from railyard.workload.training.spec import Layout

if TYPE_CHECKING:
    from railyard.study.training.prepare import Prepared

COLUMNS = ("number", "scenario", "chosen", "chosen_s", "fastest", "fastest_s", "behind", "fit", "simulated")
# Computations beside collectives may take a little less in one than in the other closed form.
_SURE = 0.97


def drawn(number: int) -> dict[str, Any]:
    """A scenario, by its number."""
    draw = random.Random(number)
    ranks = draw.choice([16, 16, 32])
    model = draw.choice(["llama-3-8b", "llama-2-13b", "mixtral-8x7b", "llama-3-70b"])
    topology: dict[str, Any] = {"kind": draw.choice(["leaf-spine", "rail-optimized"])}
    topology["oversubscription"] = draw.choice(["1:1", "2:1", "4:1", "8:1"])
    if draw.random() < 0.2:
        topology = {"kind": "multi-site", "sites": 2, "distance": draw.choice(["10 km", "100 km", "500 km"])}
    return {
        "name": f"auto-{number}",
        "cluster": {
            "accelerators": ranks,
            "server": draw.choice(["hgx-h100", "hgx-h200", "hgx-b200"]),
            "back_end": {"topology": topology, "fabric": draw.choice(["roce", "infiniband", "uec"])},
        },
        "workload": {
            "training": {
                "model": model,
                "tokens": "1 B",
                "global_batch": ranks,
                "sequence": draw.choice([4096, 8192]),
                "parallelism": "auto",
            }
        },
    }


def prepared(document: dict[str, Any]) -> Prepared:
    """Ready to run, its layout chosen."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "scenario.yaml"
        path.write_text(yaml.safe_dump(document), encoding="utf-8")
        job: Prepared = prepare(expand(load.load(path, []), []))[0]
    return job


def step_s(job: Prepared, layout: Layout) -> float:
    """Of a layout on the job's network."""
    cluster = redrawn(job.cluster, job.variant.draft.scenario.seed)
    try:
        graph = Graphs().of(job.training.replace(layout=layout), cluster)
        return float(job.engine.simulate([Job(graph)], cluster, seed=0, policy=job.policy).makespan_ps) * 1e-12
    except (InputError, SimulationError):
        return float("inf")


def judged(number: int) -> dict[str, Any]:
    """One line of the table."""
    document = drawn(number)
    job = prepared(document)
    chosen = job.layouts[0]
    plain = job.training.replace(layout=Layout(global_batch=job.training.layout.global_batch))
    machine = Machine.of(job.cluster)
    found = candidates(plain, machine, job.cluster.ranks, fixed={})
    alone = estimate(found, [replace(machine, share=1.0)] * len(found))
    least = _SURE * (np.asarray(alone.compute_s) + alone.optimizer_s)
    steps = {chosen.layout: chosen.step_s}
    for place in np.argsort(alone.step_s, kind="stable"):
        layout = found[int(place)].layout
        if layout not in steps and least[place] < min(steps.values()):
            steps[layout] = step_s(job, layout)
    fastest = min(steps, key=steps.__getitem__)
    return {
        "number": number,
        "scenario": _words(document),
        "chosen": str(chosen.layout),
        "chosen_s": f"{chosen.step_s:.5g}",
        "fastest": str(fastest),
        "fastest_s": f"{steps[fastest]:.5g}",
        "behind": f"{chosen.step_s / steps[fastest] - 1.0:.4f}",
        "fit": len(found),
        "simulated": len(steps),
    }


def _words(document: dict[str, Any]) -> str:
    cluster, training = document["cluster"], document["workload"]["training"]
    topology = " ".join(str(value) for value in cluster["back_end"]["topology"].values())
    return (
        f"{training['model']} on {cluster['accelerators']} {cluster['server']} {topology}"
        f" {cluster['back_end']['fabric']} batch {training['global_batch']} sequence {training['sequence']}"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("out", type=Path)
    parser.add_argument("--count", type=int, default=50)
    parser.add_argument("--first", type=int, default=0)
    given = parser.parse_args()
    done: set[int] = set()
    if given.out.is_file():
        with given.out.open(encoding="utf-8", newline="") as handle:
            done = {int(row["number"]) for row in csv.DictReader(handle)}
    for number in range(given.first, given.first + given.count):
        if number in done:
            continue
        try:
            row = judged(number)
        except InputError as error:
            row = dict.fromkeys(COLUMNS, "") | {"number": number, "scenario": str(error).splitlines()[0]}
        with given.out.open("a", encoding="utf-8", newline="") as handle:
            writer = csv.DictWriter(handle, COLUMNS, lineterminator="\n")
            if handle.tell() == 0:
                writer.writeheader()
            writer.writerow(row)


if __name__ == "__main__":
    main()
