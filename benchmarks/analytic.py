"""Predicts thousands of training designs in closed form, and rows of the validation tables; prints seconds and goals.

    python benchmarks/analytic.py [TABLE.csv ...] [--designs N] [--ranks N]

By default the tables are those of validation/data/training. One configuration is the whole command in a fresh
interpreter; the estimate of one design must cost the same however many ranks it has.
"""

from __future__ import annotations

import argparse
import dataclasses
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

from railyard import catalog, engine
from railyard.cluster import ClusterSpec, FabricSpec, NetworkSpec, build
from railyard.cluster.topology import RailOptimized, ThreeTier
from railyard.graph import Job
from railyard.work.training import Machine, Training, auto, estimate, profiles
from railyard.work.training.designs import DesignSite, evaluate
from railyard.work.training.graphs import build as build_step
from railyard.work.training.layout import Search, layouts
from railyard.work.training.spec import Layout
from railyard_validation.training.compare import validate_training

CLUSTERS = (1024, 2048, 4096, 8192, 16384)
GOALS = {
    "graph_s": 5.0,
    "contention_s": 5.0,
    "estimate_s": 10.0,
    "auto_s": 1.0,
    "validate_s": 60.0,
    "command_s": 1.0,
    "ranks_s": 1.0,
}
TABLES = ("runs", "runs_single_node")
TRAINING = Path(__file__).resolve().parent.parent / "validation" / "data" / "training"


def designs(count: int) -> tuple[list[Training], list[Machine]]:
    """Layouts of Llama 3 70B on 1,024 H100, over networks of different speed."""
    known = catalog.load()
    device, model = known.accelerator("h100-sxm"), known.model("llama-3-70b")
    machine = Machine(
        accelerator=device,
        scale_up_bps=device.scale_up_collective_bps,
        scale_up_domain=8,
        scale_out_bps=368e9,
        nvls=device.nvls,
    )
    search = Search(accelerators=1024, domain=8, global_batch=1024, seq_len=8192, fixed={})
    software = profiles.default(device)
    trainings = [Training(model=model, layout=x, seq_len=8192, software=software) for x in layouts(model, search)]
    machines = [dataclasses.replace(machine, scale_out_bps=rate * 1e9) for rate in (92, 184, 368, 736)]
    pairs = [(training, each) for each in machines for training in trainings] * (1 + count // (4 * len(trainings)))
    return [training for training, _ in pairs[:count]], [each for _, each in pairs[:count]]


def networked(count: int) -> tuple[list[Training], list[DesignSite]]:
    """Layouts of a dense and an expert model on clusters of 1,024 to 16,384 H100 over different networks."""
    known = catalog.load()
    software = profiles.default(known.accelerator("h100-sxm"))
    trainings, sites = [], []
    for ranks in CLUSTERS:
        for topology in (RailOptimized(), ThreeTier(), ThreeTier(oversubscription=2), ThreeTier(oversubscription=4)):
            for fabric in ("roce", "spectrum-x"):
                spec = ClusterSpec(ranks, "hgx-h100", NetworkSpec(topology, FabricSpec(fabric)))
                site = DesignSite.of(build(spec, known))
                for model in (known.model("llama-3-70b"), known.model("mixtral-8x7b")):
                    if len(trainings) >= count:
                        return trainings, sites
                    search = Search(accelerators=ranks, domain=8, global_batch=ranks, seq_len=8192, fixed={})
                    found, each = list(layouts(model, search)), max(count // 80, 20)
                    jobs = [
                        Training(model=model, layout=x, seq_len=8192, software=software)
                        for x in found[:: max(1, len(found) // each)][:each]
                    ]
                    trainings += jobs
                    sites += [site] * len(jobs)
    return trainings, sites


def contention(count: int) -> None:
    """Designs with contention; what is built before is reported beside."""
    begun = time.process_time()
    trainings, sites = networked(count)
    built_s = time.process_time() - begun
    begun = time.process_time()
    found = evaluate(trainings, sites)
    used = time.process_time() - begun
    slower = np.median(found.step.step_s / found.alone.step_s)
    report(
        "contention_s", used, f"CPU, {len(sites)} designs (layouts and clusters {built_s:.1f} s), {slower:.3f}x median"
    )


def graph(ranks: int) -> None:
    """A step of DeepSeek-V3 under DualPipe on H800, task by task; exchanges and sends share links."""
    known = catalog.load()
    machine = build(ClusterSpec(ranks, "hgx-h800", NetworkSpec(RailOptimized(), FabricSpec("infiniband"))), known)
    layout = Layout(
        global_batch=120 * ranks // 16,
        pp=16,
        dp=ranks // 16,
        ep=min(ranks // 16, 64),
        zero=1,
        schedule="dualpipe",
        overlap_expert=True,
    )
    software = profiles.profile("hai-llm-2024", machine.accelerator)
    model = known.model("deepseek-v3")
    job = Training(model=model, layout=layout, seq_len=4096, software=software, precision="fp8")
    begun = time.process_time()
    tasks = build_step(job, machine)
    built_s = time.process_time() - begun
    begun = time.process_time()
    found = engine.get("analytic").simulate([Job(tasks)], machine)
    used = time.process_time() - begun
    report(
        "graph_s",
        used,
        f"CPU, a step of {len(tasks)} tasks (built in {built_s:.1f} s): {found.makespan_ps / 1e12:.2f} s",
    )


def report(name: str, seconds: float, what: str) -> None:
    print(f"{name:<12} {seconds:8.3f} s (goal {GOALS[name]:g} s)  {what}")


def command(table: Path) -> None:
    """One row by the command line."""
    with tempfile.TemporaryDirectory() as folder:
        one = Path(folder) / "one.csv"
        one.write_text("\n".join(table.read_text(encoding="utf-8").splitlines()[:2]) + "\n", encoding="utf-8")
        begun = time.perf_counter()
        words = [sys.executable, "-m", "railyard", "validate", "training", "--table", str(one)]
        subprocess.run(words, check=True, capture_output=True)
        report("command_s", time.perf_counter() - begun, "one configuration, the whole command")


def ranks(job: Training, machine: Machine) -> None:
    """The same design with more and more replicas."""
    for dp in (16, 256, 4096):
        layout = job.layout.replace(tp=8, pp=1, vp=1, cp=1, dp=dp, global_batch=dp, micro_batch=1, schedule="1f1b")
        begun = time.perf_counter()
        estimate([job.replace(layout=layout)], [machine])
        report("ranks_s", time.perf_counter() - begun, f"one design on {layout.ranks} ranks")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("tables", nargs="*", type=Path, default=[TRAINING / f"{name}.csv" for name in TABLES])
    parser.add_argument("--designs", type=int, default=10_000)
    parser.add_argument("--ranks", type=int, default=2048, help="of the step that is run task by task")
    given = parser.parse_args()
    trainings, machines = designs(given.designs)
    begun = time.perf_counter()
    found = estimate(trainings, machines)
    report("estimate_s", time.perf_counter() - begun, f"{len(found.step_s)} designs")
    contention(given.designs)
    graph(given.ranks)
    job, machine = trainings[0], machines[0]
    begun = time.perf_counter()
    best = auto(job.model, machine, 1024, global_batch=1024, seq_len=8192, software=job.software)
    report("auto_s", time.perf_counter() - begun, f"fastest layout that fits: {best}")
    command(TRAINING / "runs.csv")
    ranks(job, machine)
    for table in given.tables:
        begun = time.perf_counter()
        rows = validate_training(table, catalog.load())
        report("validate_s", time.perf_counter() - begun, f"{len(rows.rows)} rows of {table.name}: {rows.summary()}")


if __name__ == "__main__":
    main()
