"""How far `parallelism: auto` stays behind the fastest enumerated layout, over random scenarios.

python validation/tools/auto_layouts.py OUT.csv [--count 50] [--first 0] [--steps FOLDER]

Each scenario is drawn from its number, the seed: accelerators, server, model, batch, sequence, topology,
oversubscription, fabric, distance; one that cannot be built or holds no layout is listed with the reason and not
counted. Every layout that fits is simulated, but those whose computations alone take longer than the fastest step,
which no network can mend. A line is added to OUT.csv as each ends; those that stand there already are not run again.
With `--steps` every simulated step is kept, so that another search is judged by the same.
"""

from __future__ import annotations

import argparse
import csv
import json
import random
import tempfile
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import yaml

from railyard.graph import Job
from railyard.kit.errors import InputError, SimulationError
from railyard.model.machine import Machine
from railyard.work.scenario import load
from railyard.work.scenario.load import expand
from railyard.work.study import compose
from railyard.work.study.provenance import Memo
from railyard.work.training.designs import estimate
from railyard.work.training.graphs import Graphs, redrawn
from railyard.work.training.layout import candidates
from railyard.work.training.prepare import Seats, prepare
from railyard.work.training.spec import Layout

if TYPE_CHECKING:
    from railyard.work.training.prepare import Prepared

COLUMNS = ("number", "scenario", "chosen", "chosen_s", "fastest", "fastest_s", "behind", "fit", "simulated")
# Computations beside collectives may take a little less in one than in the other closed form.
_SURE = 0.97


def drawn(number: int) -> dict[str, Any]:
    """A scenario, by its number."""
    draw = random.Random(number)
    ranks = draw.choice([16, 16, 32, 32, 64, 128])
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
            "back_end": {"topology": topology, "fabric": draw.choice(["roce", "infiniband", "uec", "spectrum-x"])},
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


@dataclass
class Kept:
    """Simulated steps in s by layout; in a file where there is a folder."""

    job: Prepared
    seats: Seats
    path: Path | None
    steps: dict[str, float] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if self.path is not None and self.path.is_file():
            self.steps = json.loads(self.path.read_text(encoding="utf-8"))

    def step_s(self, layout: Layout) -> float:
        """Of a layout, simulated where it was not before."""
        if str(layout) not in self.steps:
            self.steps[str(layout)] = self._simulated_s(layout)
        return self.steps[str(layout)]

    def _simulated_s(self, layout: Layout) -> float:
        job, seed = self.job, self.job.variant.draft.scenario.seed
        cluster = redrawn(self.seats(layout), seed)
        try:
            graph = Graphs().of(job.training.replace(layout=layout), cluster)
            record = job.engine.simulate([Job(graph)], cluster, seed=seed, policy=job.policy)
        except (InputError, SimulationError):
            return float("inf")
        return float(record.makespan_ps) * 1e-12

    def keep(self) -> None:
        """Writes the file."""
        if self.path is not None:
            self.path.write_text(json.dumps(self.steps), encoding="utf-8")


def judged(number: int, folder: Path | None) -> dict[str, Any]:
    """One line of the table."""
    document = drawn(number)
    job = prepared(document)
    chosen = job.layouts[0]
    plain = job.training.replace(layout=Layout(global_batch=job.training.layout.global_batch))
    draft = job.variant.draft
    seats = Seats(draft, job.catalog, compose.cluster_of(draft, job.catalog), Memo(), [])
    machine = Machine.of(seats.cluster)
    found = candidates(plain, machine, job.cluster.ranks, fixed={})
    alone = estimate(found, [replace(machine, share=1.0)] * len(found))
    least = _SURE * (np.asarray(alone.compute_s) + alone.optimizer_s)
    kept = Kept(job, seats, None if folder is None else folder / f"{number}.json")
    steps = {chosen.layout: kept.step_s(chosen.layout)}
    for place in np.argsort(alone.step_s, kind="stable"):
        layout = found[int(place)].layout
        if layout not in steps and least[place] < min(steps.values()):
            steps[layout] = kept.step_s(layout)
    kept.keep()
    fastest = min(steps, key=steps.__getitem__)
    return {
        "number": number,
        "scenario": _words(document),
        "chosen": str(chosen.layout),
        "chosen_s": f"{steps[chosen.layout]:.5g}",
        "fastest": str(fastest),
        "fastest_s": f"{steps[fastest]:.5g}",
        "behind": f"{steps[chosen.layout] / steps[fastest] - 1.0:.4f}",
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
    parser.add_argument("--steps", type=Path)
    given = parser.parse_args()
    if given.steps is not None:
        given.steps.mkdir(parents=True, exist_ok=True)
    done = {int(row["number"]): row for row in _lines(given.out)}
    number, counted = given.first, 0
    while counted < given.count:
        if number not in done:
            done[number] = _line(number, given.steps)
            _append(given.out, done[number])
        counted += done[number]["behind"] != ""
        number += 1


def _lines(out: Path) -> list[dict[str, Any]]:
    if not out.is_file():
        return []
    with out.open(encoding="utf-8", newline="") as handle:
        return list(csv.DictReader(handle))


def _line(number: int, folder: Path | None) -> dict[str, Any]:
    try:
        return judged(number, folder)
    except InputError as error:
        return dict.fromkeys(COLUMNS, "") | {"number": number, "scenario": str(error).splitlines()[0]}


def _append(out: Path, row: dict[str, Any]) -> None:
    with out.open("a", encoding="utf-8", newline="") as handle:
        writer = csv.DictWriter(handle, COLUMNS, lineterminator="\n")
        if handle.tell() == 0:
            writer.writeheader()
        writer.writerow(row)


if __name__ == "__main__":
    main()
