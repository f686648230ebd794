#!/usr/bin/env python3
"""Random variants of the situations in which fabrics were tried: other sizes, counts, seeds and tiers.

Usage: validation/tools/trial_variants.py FILE [--trials NAME,...] [--count N]

Every trial draws its own variants by number, so that the same numbers are the same variants; FILE gets a JSON line for
each that was run, and those are not run again. Then the table of what held is printed. One core takes a few minutes for
20 of each.
"""

from __future__ import annotations

import argparse
import json
import math
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from railyard.kit.errors import InputError, SimulationError
from railyard.work.scenario.packet import assign, fabric
from railyard.work.traffic.simulate import TrafficRun, run

if TYPE_CHECKING:
    from collections.abc import Callable

Draw = np.random.Generator
Found = dict[str, Any]

TREES = {2: (32, 50, 72, 98, 128), 3: (16, 54, 128)}
SPRAYING = ("infiniband", "spectrum-x", "uec", "scheduled")
LINE_BPS = 400e9


def played(name: str, rows: list[tuple[int, int, int]], sets: list[str], seed: int, faults: str = "") -> Any:
    """A report of traffic on a fabric: rows of source, target, bytes."""
    with tempfile.TemporaryDirectory() as folder:
        traffic = Path(folder) / "flows.csv"
        lines = [f"{source},{target},{size},0" for source, target, size in rows]
        traffic.write_text("\n".join(["source,target,size_bytes,start_us", *lines]) + "\n", encoding="utf-8")
        path = None
        if faults:
            path = Path(folder) / "faults.yaml"
            path.write_text(f"faults:\n- {{{faults}}}\n", encoding="utf-8")
        preset = fabric(name)
        return run(TrafficRun(traffic, None, preset, assign(preset.settings, sets), seed=seed, faults=path))


def shape(draw: Draw) -> tuple[int, int, list[str]]:
    """Tiers, hosts and what sets them."""
    tiers = int(draw.choice([2, 3]))
    hosts = int(draw.choice(TREES[tiers]))
    return tiers, hosts, [f"tiers={tiers}", f"hosts={hosts}"]


def permutation(draw: Draw, hosts: int, size: int) -> list[tuple[int, int, int]]:
    """Every host to another."""
    order = draw.permutation(hosts).tolist()
    return [(a, b, size) for a, b in zip(order, [*order[1:], order[0]], strict=True)]


def incast(draw: Draw) -> Found:
    """Senders to one host on `spectrum-x`: within 15 % of the ideal and a round trip, at any size (inc8.csv)."""
    _, hosts, sets = shape(draw)
    fan, size = int(draw.integers(2, 13)), round(10 ** draw.uniform(6.0, 6.8))
    ports = draw.permutation(hosts)[: fan + 1].tolist()
    report = played("spectrum-x", [(a, ports[0], size) for a in ports[1:]], sets, int(draw.integers(100)))
    took, ideal = report.fct_us()["max"], 8e6 * fan * size / LINE_BPS
    return {"what": f"{fan}:1, {size / 1e6:.2f} MB, {sets}", "found": took / ideal, "held": took < 1.15 * ideal + 12}


def dead_spine(draw: Draw) -> Found:
    """A spine dead from the start: what sprays or adapts beats ECMP (perm.csv)."""
    tiers, hosts, sets = shape(draw)
    rows, seed = permutation(draw, hosts, round(10 ** draw.uniform(5.7, 6.5))), int(draw.integers(100))
    top = {2: {32: 4, 50: 5, 72: 6, 98: 7, 128: 8}, 3: {16: 4, 54: 9, 128: 16}}[tiers][hosts]
    dead = f"kind: switch-down, switch: {'spine' if tiers == 2 else 'core'}{int(draw.integers(top))}"
    took = {name: played(name, rows, sets, seed, dead).fct_us()["max"] for name in ("roce", *SPRAYING)}
    worst = max(took[name] for name in SPRAYING) / took["roce"]
    return {"what": f"{rows[0][2] / 1e6:.2f} MB, {sets}, {dead}", "found": worst, "held": worst < 1, "took": took}


def dying_spine(draw: Draw) -> Found:
    """A spine that dies in the run: no fabric hangs, and ECMP, which waits for routes, is last."""
    tiers, hosts, sets = shape(draw)
    rows, seed = permutation(draw, hosts, round(10 ** draw.uniform(6.0, 6.4))), int(draw.integers(100))
    top = {2: {32: 4, 50: 5, 72: 6, 98: 7, 128: 8}, 3: {16: 4, 54: 9, 128: 16}}[tiers][hosts]
    name, at = "spine" if tiers == 2 else "core", draw.uniform(2, 15)
    dead = f"kind: switch-down, switch: {name}{int(draw.integers(top))}, at: {at:.1f} us"
    took = {name: played(name, rows, sets, seed, dead).fct_us()["max"] for name in ("roce", *SPRAYING)}
    worst = max(took[name] for name in SPRAYING) / took["roce"]
    return {"what": f"{rows[0][2] / 1e6:.2f} MB, {sets}, {dead}", "found": worst, "held": worst < 1, "took": took}


def bit_errors(draw: Draw) -> Found:
    """Bits arrive wrong on every link: packets are hit as 1 - (1 - e)^n says, within 4 deviations and 10 %."""
    ratio, size = 10 ** draw.uniform(-8, -4.5), round(10 ** draw.uniform(6, 6.7))
    preset = fabric("uec").settings
    rows, sets = permutation(draw, 32, size), ["hosts=32", "tiers=2", "link_retry=true"]
    report = played("uec", rows, sets, int(draw.integers(100)), f"kind: bit-errors, ratio: {ratio:.3g}")
    packets = {**report.packets, **report.record.meta["packets"]}
    chance = -math.expm1(8 * preset.mtu_bytes * math.log1p(-float(f"{ratio:.3g}")))
    expected = chance * report.record.table("links")["bytes"].sum() / preset.mtu_bytes
    off = (packets["link_retries"] - expected) / max(expected, 1)
    return {
        "what": f"{ratio:.2g}, {size / 1e6:.2f} MB",
        "found": off,
        "held": abs(off) < 0.1 + 4 / max(expected, 1) ** 0.5,
    }


def livelock(draw: Draw) -> Found:
    """So many bit errors that next to nothing arrives: the run ends, with an answer or with flow and link by name."""
    name = str(draw.choice(["uec", "dcqcn-ns3", "ndp-htsim", "eqds-htsim"]))
    ratio = 10 ** draw.uniform(-4, -2)
    rows = [(int(a), 11, int(size)) for a, size in zip(range(5), 10 ** draw.uniform(0, 5.3, 5), strict=True)]
    try:
        played(
            name,
            rows,
            ["hosts=16", "tiers=3"],
            int(draw.integers(100)),
            f"kind: bit-errors, ratio: {ratio:.3g}, at: 1 us",
        )
    except SimulationError as error:
        return {
            "what": f"{name}, {ratio:.2g}",
            "found": "stalled",
            "held": "bit errors" in str(error),
            "error": str(error),
        }
    return {"what": f"{name}, {ratio:.2g}", "found": "ended", "held": True}


def refusals(draw: Draw) -> Found:
    """Impossible faults are refused by name."""
    bad = str(
        draw.choice(
            [
                f"kind: switch-down, switch: spine{draw.integers(4, 99)}",
                f"kind: link-down, cable: h{draw.integers(0, 4)} - leaf{draw.integers(2, 8)}",
                f"kind: host-down, host: {draw.integers(32, 999)}",
                f"kind: link-down, cable: leaf0 - spine1, at: -{draw.integers(1, 99)} us",
                f"kind: degrade-link, link: {draw.integers(10**4, 10**6)}, factor: 0.5",
                f"kind: bit-errors, ratio: {draw.uniform(1.1, 9):.2f}",
            ]
        )
    )
    try:
        played("uec", [(0, 9, 1000)], ["hosts=32", "tiers=2"], 0, bad)
    except InputError as error:
        return {"what": bad, "found": str(error).splitlines()[0], "held": error.exit_code == 2}
    return {"what": bad, "found": "accepted", "held": False}


TRIALS: dict[str, Callable[[Draw], Found]] = {
    "refusals": refusals,
    "livelock": livelock,
    "bit-errors": bit_errors,
    "incast": incast,
    "dead-spine": dead_spine,
    "dying-spine": dying_spine,
}


def variant(trial: str, number: int) -> Found:
    """What one variant of a trial gives."""
    draw = np.random.default_rng([sorted(TRIALS).index(trial), number])
    return {"trial": trial, "number": number, **TRIALS[trial](draw)}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("file", type=Path)
    parser.add_argument("--trials", default=",".join(TRIALS))
    parser.add_argument("--count", type=int, default=20)
    given = parser.parse_args()
    rows = [json.loads(line) for line in given.file.read_text().splitlines()] if given.file.exists() else []
    done = {(row["trial"], row["number"]) for row in rows}
    for trial in given.trials.split(","):
        for number in range(given.count):
            if (trial, number) not in done:
                rows.append(variant(trial, number))
                with given.file.open("a", encoding="utf-8") as file:
                    file.write(json.dumps(rows[-1], default=float) + "\n")
        own = [row for row in rows if row["trial"] == trial]
        print(f"{trial}: {sum(bool(row['held']) for row in own)} of {len(own)}", flush=True)
        for row in own:
            if not row["held"]:
                print(f"  {row['number']}: {row['what']}: {row['found']}", flush=True)


if __name__ == "__main__":
    main()
