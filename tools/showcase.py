"""A folder with one of everything that the page shows: runs, a plan, a diagnosis, a tuning, an audit, months of jobs.

.venv/bin/python tools/showcase.py FOLDER
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING

from railyard.ask.deploy.cabling import dialects, drawn, plan_of
from railyard.ask.deploy.emit.labs import netlist
from railyard.face import api
from railyard.face.cli import guard
from railyard.face.verbs.init import template
from railyard.work.scenario import load
from railyard.work.study import compose

if TYPE_CHECKING:
    from collections.abc import Sequence

    from railyard.cluster.network_table import NetworkTable

ROOT = Path(__file__).parent.parent

CABLED = """\
# As it was cabled: the job that the audit prices its findings by.
name: hall-7
cluster:
  accelerators: 128
  server: hgx-h100
  back_end: {topology: {kind: leaf-spine, ports_per_leaf: 16, spines: 4, oversubscription: 2:1}, fabric: infiniband}
workload:
  training:
    model: llama-3-8b
    tokens: 1 T
    global_batch: 128
    sequence: 1024
    parallelism: {tp: 1, zero: 3, micro_batch: 1, recompute: full}
"""
SLOW = """\
name: slow-nic
cluster:
  accelerators: 32
  server: hgx-h100
  back_end: {topology: {kind: leaf-spine, ports_per_leaf: 8, spines: 4}, fabric: roce}
workload:
  training:
    {model: llama-3-8b, tokens: 1 T, global_batch: 32, sequence: 2048, parallelism: {tp: 2, pp: 2, micro_batch: 1}}
faults: [{kind: degrade-link, cable: leaf 1 - spine 2, factor: 40 %}]
seed: 7
"""
DESIGNS = """\
name: which-cluster
cluster:
  accelerators: 256
  server: hgx-h100
  back_end: {topology: leaf-spine, fabric: roce}
workload:
  training:
    {model: llama-3-8b, tokens: 1 T, global_batch: 256, sequence: 4096, parallelism: {tp: 1, zero: 3, micro_batch: 1}}
plan:
  space:
    fabric: [roce, infiniband, spectrum-x, uec]
    topology: [leaf-spine, rail-optimized]
    oversubscription: ["1:1", "2:1", "4:1"]
  constraints: {budget: $10.5M}
  objectives: [cpmt, capex, step]
  effort: {flow: 6, layouts: 0, draws: 400}
"""
TUNED = """\
name: hashed
cluster:
  accelerators: 128
  server: hgx-h100
  placement: scattered
  back_end: {topology: {kind: leaf-spine, oversubscription: 2:1}, fabric: roce}
workload:
  training:
    {model: llama-3-8b, tokens: 1 T, global_batch: 128, sequence: 4096, parallelism: {tp: 1, zero: 3, micro_batch: 1}}
tune:
  space: {qps: [2, 4, 8], collectives.connections: [4, 8, 16]}
  seeds: 2
  unseen_seeds: 3
  unseen_loads: [0, 0.2]
"""


ASSERTED = f"{SLOW}check: [step < 250 ms, survives any one spine, no PFC deadlock, headroom holds at 300 m]\n"
KEPT = ("plan", "diagnosis", "tune", "audit", "check", "placement")
BUSIER = ("rate: 20", "rate: 36")
"""Of the serving example: requests wait."""


def fill(folder: Path) -> dict[str, str]:
    """Makes all of it; the name of the folder of each."""
    runs = folder / "runs"
    files = {
        "template": template(),
        "hall-7": CABLED,
        "slow-nic": SLOW,
        "which-cluster": DESIGNS,
        "hashed": TUNED,
        "asserted": ASSERTED,
    }
    files["served"] = (ROOT / "src/railyard/face/web/starters/serving.yaml").read_text().replace(*BUSIER)
    for name, text in files.items():
        (folder / f"{name}.yaml").write_text(text, encoding="utf-8")
    started = {name: _run(folder / f"{name}.yaml", runs) for name in ("template", "slow-nic", "served")}
    slow = runs / started["slow-nic"]
    _call("plan", folder / "which-cluster.yaml", "-q", "--out", runs)
    _call("diagnose", slow, "--cluster", folder / "slow-nic.yaml", "--out", runs)
    _call("tune", folder / "hashed.yaml", "-q", "--out", runs)
    (folder / "hall-7.ibnetdiscover").write_text(netlist(_mistaken(folder / "hall-7.yaml")), encoding="utf-8")
    found = folder / "hall-7.ibnetdiscover"
    _call("audit", "--ibnetdiscover", found, "--plan", folder / "hall-7.yaml", "--out", runs)
    _call("check", folder / "asserted.yaml", "-q", "--out", runs, allowed=(0, 1))
    _call("place", folder / "slow-nic.yaml", "--nodes", folder / "slow-nic.yaml", "--out", runs)
    kept = {verb: next(runs.glob(f"*/{verb}.json")).parent.name for verb in KEPT}
    return {"run": started["template"], "slow": started["slow-nic"], "served": started["served"], **kept}


def _run(scenario: Path, runs: Path) -> str:
    folder = api.run(scenario, out=runs).folder
    assert folder is not None
    return folder.name


def _mistaken(scenario: Path) -> NetworkTable:
    """The network of a scenario with seven mistakes in its cabling."""
    draft = load.load(scenario)
    plan = plan_of(compose.cluster_of(draft, compose.catalog_of(draft)))
    found = drawn(plan, 0, next(one for one in dialects(plan, 0) if one.name == "infiniband"))
    between, access = found.between.tolist(), found.access.tolist()
    slow, host, one, other = between[9], access[33], between[12], between[len(between) // 2 + 7]
    rates = {slow: found.rate_bps[slow] // 4, host: found.rate_bps[host] // 2}
    gone = {between[3], between[4], between[-5], access[70]}
    return found.edited(rate_bps=rates).exchanged([one, other]).without(gone)


def _call(*words: object, allowed: Sequence[int] = (0,)) -> None:
    code = guard.run([str(word) for word in words])
    if code not in allowed:
        raise SystemExit(f"railyard {' '.join(map(str, words))} ended with {code}")


if __name__ == "__main__":
    for what, name in fill(Path(sys.argv[1])).items():
        print(f"{what}: {name}")
