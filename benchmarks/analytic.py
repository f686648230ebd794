"""Predicts thousands of training designs in closed form, and rows of the validation tables; prints seconds and goals.

python benchmarks/analytic.py [TABLE.csv ...]
"""

from __future__ import annotations

import dataclasses
import sys
import time
from pathlib import Path

from railyard import catalog
from railyard.validate.training import validate_training
from railyard.workload.training import Machine, Training, auto, estimate, profiles
from railyard.workload.training.layout import Search, layouts

DESIGNS = 10_000
GOALS = {"estimate_s": 10.0, "auto_s": 1.0, "validate_s": 60.0}


def designs() -> tuple[list[Training], list[Machine]]:
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
    pairs = [(training, each) for each in machines for training in trainings] * (1 + DESIGNS // (4 * len(trainings)))
    return [training for training, _ in pairs[:DESIGNS]], [each for _, each in pairs[:DESIGNS]]


def report(name: str, seconds: float, what: str) -> None:
    print(f"{name:<12} {seconds:8.3f} s (goal {GOALS[name]:g} s)  {what}")


def main() -> None:
    trainings, machines = designs()
    begun = time.perf_counter()
    found = estimate(trainings, machines)
    report("estimate_s", time.perf_counter() - begun, f"{len(found.step_s)} designs")
    job, machine = trainings[0], machines[0]
    begun = time.perf_counter()
    best = auto(job.model, machine, 1024, global_batch=1024, seq_len=8192, software=job.software)
    report("auto_s", time.perf_counter() - begun, f"fastest layout that fits: {best}")
    for table in sys.argv[1:]:
        begun = time.perf_counter()
        rows = validate_training(Path(table), catalog.load())
        report(
            "validate_s", time.perf_counter() - begun, f"{len(rows.rows)} rows of {Path(table).name}: {rows.summary()}"
        )


if __name__ == "__main__":
    main()
