"""Writes validation/data/training/mlperf_v6_run.csv: MLPerf v6.0's steps by `railyard run`. About an hour.

python validation/tools/newest_runs.py [ID ...]
"""

from __future__ import annotations

import csv
import dataclasses
import json
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

from railyard import catalog
from railyard.work.scenario.section import keys_of
from railyard.work.training import profiles
from railyard.work.training.spec import SoftwareProfile
from railyard_validation.training.cases import read_cases

if TYPE_CHECKING:
    from railyard_validation.training.cases import Case

DATA = Path(__file__).resolve().parents[2] / "validation" / "data" / "training"
FILE = DATA / "mlperf_v6_run.csv"
RAILYARD = Path(sys.executable).with_name("railyard")
SERVERS = {"gb300": "gb300-nvl72", "gb200": "gb200-nvl72", "b300-sxm": "hgx-b300"}


def main() -> None:
    """Runs the rows that are named, or all; others keep what the file has."""
    for case in read_cases(DATA / "mlperf_v6.csv", catalog.load())[0]:
        if case.row.id in sys.argv[1:] or not sys.argv[1:]:
            _keep(case, run(case))


def _keep(case: Case, run_s: float) -> None:
    rows = {row["id"]: row for row in csv.DictReader(FILE.read_text(encoding="utf-8").splitlines())}
    rows[case.row.id] = {"id": case.row.id, "run_s": f"{run_s:.6g}", "error": f"{run_s / case.measured - 1.0:.4f}"}
    with FILE.open("w", encoding="utf-8", newline="") as handle:
        writer = csv.DictWriter(handle, ("id", "run_s", "error"), lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows[name] for name in sorted(rows))


def run(case: Case) -> float:
    """Step seconds by the engine that `railyard run` takes."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "scenario.yaml"
        path.write_text(json.dumps(scenario_of(case)), encoding="utf-8")
        command = [RAILYARD, "run", path, "--json", "--quiet", "--out", folder]
        done = subprocess.run(command, stdout=subprocess.PIPE, check=True, text=True)
    return float(json.loads(done.stdout)["variants"][0]["step"]["seconds"])


def scenario_of(case: Case) -> dict[str, Any]:
    """The row as a scenario with all of its facts, on the server of its accelerator."""
    job, device = case.training, case.machine.accelerator
    fabric = "roce" if "Ethernet" in case.row.get("scale_out") else "infiniband"
    training = {
        "model": job.model.name,
        "global_batch": job.layout.global_batch,
        "sequence": job.seq_len,
        "precision": job.precision,
        "routing_skew": job.routing_skew,
        "parallelism": job.layout.parallelism(),
        "software": _software(case),
    }
    if job.lora:
        training["lora"] = {"rank": job.lora.rank, "targets": job.lora.targets}
    cluster = {
        "accelerators": job.layout.ranks,
        "server": SERVERS[device.name],
        "back_end": {"topology": "rail-optimized", "fabric": fabric},
    }
    return {"name": case.row.id, "cluster": cluster, "workload": {"training": training}}


def _software(case: Case) -> dict[str, Any]:
    """The name of the profile, and what the row says in place of its own values."""
    own = case.training.software
    shipped = profiles.profile(own.name, case.machine.accelerator)
    found: dict[str, Any] = {"profile": own.name}
    keys = keys_of(SoftwareProfile)
    for field in dataclasses.fields(own):
        value = getattr(own, field.name)
        if value != getattr(shipped, field.name):
            sized = f"{value:g} B" if field.name.endswith("_bytes") else value
            found[keys[field.name].name] = list(value) if isinstance(value, tuple) else sized
    return found


if __name__ == "__main__":
    main()
