"""`analytic` against `flow`: step times of examples and of jobs short of network, and what contention costs them.

    python benchmarks/agreement.py [NAME ...] [--accelerators N]

Prints a table: both engines, and a run without contention.
"""

from __future__ import annotations

import argparse
import tempfile
from pathlib import Path

from railyard.engine.contract import engines
from railyard.engine.fluid import FluidEngine
from railyard.face import api

ROOT = Path(__file__).resolve().parent.parent
JOB = """
name: {name}
cluster:
  accelerators: {accelerators}
  server: hgx-h100
  placement: {placement}
  back_end:
    topology: {topology}
    fabric: {fabric}
  background: {background}
workload:
  training:
    model: {model}
    global_batch: {global_batch}
    sequence: {sequence}
    parallelism: {parallelism}
"""
PLAIN = {
    "accelerators": 128,
    "placement": "scattered",
    "background": "[]",
    "model": "llama-3-8b",
    "sequence": 8192,
    "global_batch": 128,
}
DENSE, EXPERTS = "{tp: 2, pp: 2, zero: 1, micro_batch: 1}", "{tp: 4, pp: 2, ep: 8, zero: 1, micro_batch: 1}"


def leaf_spine(ratio: str) -> str:
    return f'{{kind: leaf-spine, oversubscription: "{ratio}"}}'


JOBS = {
    "hashed, 1:1": {"topology": leaf_spine("1:1"), "fabric": "roce", "parallelism": DENSE},
    "hashed, 4:1": {"topology": leaf_spine("4:1"), "fabric": "roce", "parallelism": DENSE},
    "hashed 4 ways, 4:1": {
        "topology": leaf_spine("4:1"),
        "fabric": "{name: roce, qps: 4}",
        "parallelism": DENSE,
    },
    "sprayed, 4:1": {"topology": leaf_spine("4:1"), "fabric": "spectrum-x", "parallelism": DENSE},
    "experts, 30 % background, 2:1": {
        "topology": leaf_spine("2:1"),
        "fabric": "roce",
        "parallelism": EXPERTS,
        "background": "[{network: back_end, load: 30%}]",
        "placement": "packed",
        "model": "mixtral-8x7b",
        "sequence": 4096,
    },
    "interleaved, rails": {
        "topology": "rail-optimized",
        "fabric": "roce",
        "parallelism": "{tp: 4, pp: 4, zero: 1, micro_batch: 1, vp: 2, schedule: interleaved}",
        "placement": "packed",
        "model": "llama-3-70b",
        "accelerators": 256,
        "global_batch": 64,
    },
}
ENGINES = ("flow", "analytic", "alone")
EXAMPLES = ("straggler", "oversubscription", "as-built", "checkpoints", "around-network-limits", "two-sites-diloco")


def step_s(scenario: Path, name: str) -> list[float]:
    found = api.run(scenario, engine=name, out=None).result.plain()["variants"]
    return [variant["step"]["seconds"] for variant in found]


def jobs_s() -> dict[str, list[float]]:
    """Steps of the two training jobs of examples/jobs.yaml, beside each other and a third that serves."""
    text = (ROOT / "examples" / "jobs.yaml").read_text(encoding="utf-8")
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "jobs.yaml"
        file.write_text(text.replace("[flow, packet]", "[flow, analytic, alone]"), encoding="utf-8")
        found = api.run(file, out=None).result.plain()["variants"]
    return {
        variant["name"]: [job["together"]["step_s"] for job in variant["jobs"] if job["kind"] == "training"]
        for variant in found
    }


def row(name: str, seconds: dict[str, list[float]]) -> None:
    for number, (flow, analytic, alone) in enumerate(zip(*(seconds[each] for each in ENGINES), strict=True)):
        which = f"{name} {number + 1}" if len(seconds["flow"]) > 1 else name
        cells = f"{flow:.4f} | {100 * (analytic / flow - 1):+.2f} % | {100 * (alone / flow - 1):+.2f} %"
        print(f"| {which} | {cells} |", flush=True)


def main() -> None:
    # Kept here, so that the process knows this engine no longer than this program runs.
    kept = engines.make("alone", FluidEngine("alone", "everything alone", contention=False, left_out=()))
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", default=[*JOBS, *EXAMPLES, "jobs"])
    parser.add_argument("--accelerators", type=int, help="of jobs, with as many sequences a step")
    given = parser.parse_args()
    wanted, size = given.names, given.accelerators
    changed = {"accelerators": size, "global_batch": size} if size else {}
    print("| scenario | flow, s | analytic | without contention |\n|---|---|---|---|")
    for name, more in JOBS.items():
        with tempfile.TemporaryDirectory() as folder:
            file = Path(folder) / "job.yaml"
            file.write_text(JOB.format(**{**PLAIN, **more, **changed, "name": "job"}), encoding="utf-8")
            if name in wanted:
                row(name, {each: step_s(file, each) for each in ENGINES})
    for name in EXAMPLES:
        if name in wanted:
            row(name, {each: step_s(ROOT / "examples" / f"{name}.yaml", each) for each in ENGINES})
    if "jobs" in wanted:
        row("jobs", jobs_s())
    del kept


if __name__ == "__main__":
    main()
