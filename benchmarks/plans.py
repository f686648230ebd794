"""The closed form of plans against `flow`: steps of random designs, and whether the best of flow is among ten proposed.

    python benchmarks/plans.py [--designs 200] [--spaces 100] [--closed 100000] [--ranks 4096] [--seed 0] [--csv FILE]

Designs are drawn from fabrics, topologies, oversubscriptions, placements, models, sizes and layouts that fit; a space
is one job and 24 of its designs. Figures of flow are of one draw of the hashes, as a plan runs them. Also times designs
in closed form.
"""

from __future__ import annotations

import argparse
import random
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from railyard.ask.plan.build import DesignBench
from railyard.ask.plan.evaluate import simulated, sweep
from railyard.ask.plan.space import space_of
from railyard.kit.errors import InputError
from railyard.work.scenario import load

if TYPE_CHECKING:
    from railyard.ask.plan.outcome import DesignOutcome

FABRICS = ["roce", "infiniband", "spectrum-x", "uec", "scheduled", "ideal"]
TOPOLOGIES = ["leaf-spine", "rail-optimized", "three-tier", "rail-only"]
RATIOS = ["1:1", "2:1", "3:1", "4:1"]
MODELS = {"llama-3-8b": (1, 2, 4), "llama-3-70b": (4, 8), "mixtral-8x7b": (1, 2, 4)}
PROPOSED = 10


def job(draw: random.Random) -> dict[str, Any]:
    """A cluster and a job, without a layout."""
    ranks = draw.choice([32, 64, 96, 128])
    model = draw.choice(sorted(MODELS))
    batch = ranks * draw.choice([1, 2])
    return {
        "name": "p",
        "seed": draw.randrange(1000),
        "cluster": {
            "accelerators": ranks,
            "server": draw.choice(["hgx-h100", "hgx-h200"]),
            "placement": draw.choice(["packed", "scattered"]),
            "back_end": {"topology": {"kind": "leaf-spine", "ports_per_leaf": 16}},
        },
        "workload": {
            "training": {"model": model, "global_batch": batch, "sequence": draw.choice([2048, 4096]), "tokens": "1 T"}
        },
    }


def layout(draw: random.Random, values: dict[str, Any]) -> dict[str, Any]:
    """Degrees that divide; what does not fit is drawn again."""
    tp = draw.choice(MODELS[values["workload"]["training"]["model"]])
    found = {"tp": tp, "pp": draw.choice([1, 1, 2, 4]), "zero": draw.choice([1, 3]), "micro_batch": 1}
    if found["pp"] > 1:
        found["zero"] = 1
    if "mixtral" in values["workload"]["training"]["model"]:
        found["ep"] = draw.choice([4, 8])
    return found


def one_design(draw: random.Random) -> tuple[DesignBench, DesignOutcome] | None:
    """A design with its closed form; None where it cannot be."""
    values = job(draw)
    values["workload"]["training"]["parallelism"] = layout(draw, values)
    kind = draw.choice(TOPOLOGIES)
    space = {"fabric": [draw.choice(FABRICS)], "topology": [kind], "oversubscription": [draw.choice(RATIOS)]}
    return first(values, space)


def first(values: dict[str, Any], space: dict[str, Any]) -> tuple[DesignBench, DesignOutcome] | None:
    """The first point of a space."""
    try:
        bench = DesignBench(space_of(load.from_values({**values, "plan": {"space": space}})))
    except InputError:
        return None
    found = next(iter(sweep(bench, [(0, 0)], frozenset())))
    return None if found.error else (bench, found)


def designs(count: int, seed: int) -> list[tuple[str, float, float]]:
    """Name, step in closed form and by flow, of so many random designs."""
    draw, rows = random.Random(seed), []
    while len(rows) < count:
        found = one_design(draw)
        if found is None:
            continue
        bench, closed = found
        ran = simulated(bench, 0, 0, "flow", closed.layouts[0])
        if not ran.error:
            place = bench.space.base.scenario
            what = f"{place.training.model}, {place.cluster.accelerators}, {place.cluster.placement}"
            rows.append((f"{bench.space.name(0)}, {what}, {closed.layouts[0]}", closed.step_s, ran.step_s))
    return rows


def one_space(draw: random.Random) -> tuple[bool, float] | None:
    """Whether the best of flow is among the ten proposed, and what the best of these costs over it."""
    values = job(draw)
    sizes = [layout(draw, values) for _ in range(3)]
    unique = [each for at, each in enumerate(sizes) if each not in sizes[:at]]
    space = {
        "fabric": draw.sample(FABRICS, 3),
        "topology": draw.sample(TOPOLOGIES, 2),
        "oversubscription": draw.sample(RATIOS, 2),
        "parallelism": unique,
    }
    values["workload"]["training"]["parallelism"] = sizes[0]
    bench = DesignBench(space_of(load.from_values({**values, "plan": {"space": space}})))
    closed = [one for one in sweep(bench, [(at, 0) for at in range(bench.space.size)], frozenset()) if not one.error]
    if len(closed) <= PROPOSED + 2:
        return None
    ran = [simulated(bench, one.point, 0, "flow", one.layouts[0]) for one in closed]
    pairs = [(one.figures["cpmt"], two.figures["cpmt"]) for one, two in zip(closed, ran, strict=True) if not two.error]
    table = np.array(pairs)
    ten = np.argsort(table[:, 0], kind="stable")[:PROPOSED]
    return bool(table[ten, 1].min() <= table[:, 1].min() * (1 + 1e-9)), float(
        table[ten, 1].min() / table[:, 1].min() - 1
    )


def closed_form(most: int, ranks: int) -> None:
    """Layouts of so many H100 in closed form, clusters and layouts included, on one core."""
    values = job(random.Random(0))
    values["cluster"] = {"accelerators": ranks, "server": "hgx-h100", "back_end": {"topology": "leaf-spine"}}
    values["workload"]["training"] = {"model": "llama-3-70b", "global_batch": 2048, "sequence": 8192, "tokens": "1 T"}
    space = {"fabric": FABRICS, "topology": TOPOLOGIES[:3], "oversubscription": RATIOS, "sequence": [4096, 8192]}
    bench = DesignBench(space_of(load.from_values({**values, "plan": {"space": space}})))
    begun, cpu, count = time.perf_counter(), time.process_time(), 0
    for outcome in sweep(bench, [(at, 0) for at in range(bench.space.size)], frozenset()):
        count += outcome.tried
        if count >= most:
            break
    wall_s, cpu_s = time.perf_counter() - begun, time.process_time() - cpu
    print(
        f"{count:,} designs in closed form: {cpu_s:.1f} s of CPU on one core ({wall_s:.1f} s of the clock)", flush=True
    )


def main() -> None:
    parser = argparse.ArgumentParser()
    for name, default in (("designs", 200), ("spaces", 100), ("closed", 100_000), ("ranks", 4096), ("seed", 0)):
        parser.add_argument(f"--{name}", type=int, default=default)
    parser.add_argument("--csv", type=Path)
    given = parser.parse_args()
    closed_form(given.closed, given.ranks)
    rows = designs(given.designs, given.seed)
    off = np.array([closed / flow - 1 for _, closed, flow in rows])
    if given.csv:
        text = "\n".join(f'"{name}",{closed:.6g},{flow:.6g},{closed / flow - 1:+.4f}' for name, closed, flow in rows)
        given.csv.write_text(f"design,closed_s,flow_s,off\n{text}\n", encoding="utf-8")
    if len(off):
        inside = float(np.mean(np.abs(off) <= 0.05))
        print(
            f"{len(off)} random designs: within 5 % of flow {inside:.0%}; median {np.median(np.abs(off)):.1%},"
            f" p90 {np.percentile(np.abs(off), 90):.1%}, mean {off.mean():+.1%},"
            f" worst {off[np.argmax(np.abs(off))]:+.0%}",
            flush=True,
        )
    draw, found = random.Random(given.seed + 1), []
    while len(found) < given.spaces:
        one = one_space(draw)
        if one is not None:
            found.append(one)
    if found:
        lost = np.array([loss for _, loss in found])
        hits = sum(hit for hit, _ in found)
        print(
            f"best of flow among ten proposed: {hits} of {len(found)} spaces; lost at most {lost.max():.2%}",
            flush=True,
        )


if __name__ == "__main__":
    main()
