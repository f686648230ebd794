"""A real Ray cluster of three nodes on this machine: the same bytes as without, also where a node or the driver dies.

Skipped where Ray is not installed (`pip install railyard[ray]`).
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from railyard.kit.errors import InputError
from railyard.kit.schema import yaml
from railyard.work.study.folder import Journal
from railyard.work.study.tasks import GONE, Task
from railyard.work.study.workers import workers

pytest.importorskip("ray", reason="Ray is not installed: pip install railyard[ray]")

PLAN = {
    "name": "p",
    "cluster": {"accelerators": 64, "server": "hgx-h100", "back_end": {"topology": "leaf-spine"}},
    "workload": {
        "training": {
            "model": "llama-3-8b",
            "global_batch": 64,
            "sequence": 4096,
            "tokens": "1 T",
            "parallelism": {"tp": 2, "pp": 1},
        }
    },
    "plan": {
        "space": {
            "fabric": ["roce", "infiniband", "uec"],
            "oversubscription": ["1:1", "4:1"],
            "accelerators": [60, 64, 128],
        },
        "objectives": ["cpmt", "jct"],
        "effort": {"flow": 6, "draws": 200},
    },
}


def doubled(number: int) -> int:
    if number == 3:
        raise InputError("three is no number", key="number")
    return 2 * number


def slept(seconds: float) -> float:
    time.sleep(seconds)
    return seconds


def killed(_argument: object) -> None:
    os.kill(os.getpid(), signal.SIGKILL)


@pytest.fixture(scope="module")
def cluster():
    from ray.cluster_utils import Cluster

    found = Cluster(initialize_head=True, head_node_args={"num_cpus": 1, "include_dashboard": False})
    for _ in range(2):
        found.add_node(num_cpus=1)
    yield found
    found.shutdown()


@pytest.fixture
def file(tmp_path):
    path = tmp_path / "plan.yaml"
    path.write_text(yaml.to_text(PLAN), encoding="utf-8")
    return path


def started(file: Path, out: Path, *more: str) -> subprocess.Popen[bytes]:
    command = [sys.executable, "-m", "railyard", "plan", str(file), "--json", "--out", str(out), *more]
    environment = os.environ | {"PYTHONPATH": str(Path(__file__).parents[3])}
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=environment)


def written(out: Path) -> dict[str, bytes]:
    """Every file of the plan's folder."""
    folder = next(path for path in out.iterdir() if not path.name.startswith("."))
    return {path.name: path.read_bytes() for path in folder.iterdir()}


def lines_of(out: Path) -> int:
    found = list((out / ".points").glob("*.jsonl")) if out.exists() else []
    return sum(path.read_bytes().count(b"\n") for path in found)


def wait_for(lines: int, out: Path, running: subprocess.Popen[bytes]) -> None:
    while lines_of(out) < lines:
        assert running.poll() is None, running.stderr.read()
        time.sleep(0.02)


@pytest.fixture(scope="module")
def local(tmp_path_factory):
    """What the plan prints and writes without Ray."""
    folder = tmp_path_factory.mktemp("local")
    file = folder / "plan.yaml"
    file.write_text(yaml.to_text(PLAN), encoding="utf-8")
    running = started(file, folder / "runs")
    printed, words = running.communicate(timeout=120)
    assert running.returncode == 0, words
    return printed, written(folder / "runs")


@pytest.mark.slow
def test_a_plan_is_the_same_to_the_byte_also_where_a_node_is_killed(cluster, file, tmp_path, local):
    out, extra = tmp_path / "runs", cluster.add_node(num_cpus=1)
    running = started(file, out, "--ray", cluster.address)
    wait_for(20, out, running)  # the closed form is done, `flow` runs
    cluster.remove_node(extra, allow_graceful=False)
    printed, words = running.communicate(timeout=120)
    assert running.returncode == 0, words
    assert printed == local[0]
    assert written(out) == local[1]
    assert json.loads(printed)["looked_at"]["failed"] == 6


@pytest.mark.slow
def test_a_driver_that_is_killed_goes_on_and_runs_nothing_again(cluster, file, tmp_path, local):
    out = tmp_path / "runs"
    for lines in (19, 23):
        running = started(file, out, "--ray", cluster.address)
        wait_for(lines, out, running)
        running.kill()
        running.communicate()
    printed, _ = started(file, out, "--ray", cluster.address).communicate(timeout=120)
    assert printed == local[0]
    assert written(out) == local[1]
    path = next((out / ".points").glob("*.jsonl"))
    keys = [json.loads(line)[0] for line in path.read_text().splitlines()]
    assert len(keys) == len(set(keys)) == len(Journal(path).known)


@pytest.mark.slow
def test_tasks_keep_their_errors_their_limits_and_a_version(cluster, monkeypatch):
    monkeypatch.setenv("PYTHONPATH", str(Path(__file__).parents[3]))
    pool = workers(cluster.address)
    try:
        tasks = [Task(f"{__name__}:doubled", number) for number in range(5)]
        done = {one.number: one for one in pool.run(tasks)}
        assert [done[at].value for at in (0, 1, 2, 4)] == [0, 2, 4, 8]
        assert "three is no number" in done[3].error
        tasks = [Task(f"{__name__}:slept", seconds, limit_s=3.0) for seconds in (60.0, 0.1, 0.2)]
        done = {one.number: one for one in pool.run(tasks)}
        assert [done[at].error for at in range(3)] == ["stopped after 3 s", "", ""]
        assert [one.error for one in pool.run([Task(f"{__name__}:killed", None)])] == [GONE]
        assert list(pool.run([Task(f"{__name__}:slept", 60.0)], until=time.monotonic() + 0.5)) == []
        monkeypatch.setattr("railyard.work.study.workers.version", lambda: "another")
        with pytest.raises(InputError, match="a node of the Ray cluster has Railyard"):
            list(pool.run(tasks[1:]))
    finally:
        pool.close()


SWEEP = ["--vary", "fabric=roce,uec", "--vary", "cluster.placement_seed=0,1,2,3", "--set", "engine=analytic"]


def compared(out: Path, file: Path, *more: str) -> subprocess.Popen[bytes]:
    """What it prints goes to files: nobody reads a pipe while the folder is watched."""
    command = [sys.executable, "-m", "railyard", "compare", str(file), *SWEEP, "--json", "--out", str(out), *more]
    environment = os.environ | {"PYTHONPATH": str(Path(__file__).parents[3])}
    with out.with_suffix(".json").open("wb") as printed, out.with_suffix(".txt").open("wb") as words:
        return subprocess.Popen(command, stdout=printed, stderr=words, env=environment)


def undated(out: Path) -> dict[str, Any]:
    plain = json.loads(out.with_suffix(".json").read_bytes())
    del plain["provenance"]["created"]
    return plain


@pytest.mark.slow
def test_a_comparison_is_the_same_also_where_a_node_and_the_driver_are_killed(cluster, tmp_path):
    file = tmp_path / "s.yaml"
    scenario = {key: value for key, value in PLAN.items() if key != "plan"}
    scenario["cluster"] = {**scenario["cluster"], "placement": "scattered"}
    file.write_text(yaml.to_text(scenario), encoding="utf-8")
    here, out = tmp_path / "here", tmp_path / "there"
    assert compared(here, file).wait(timeout=300) == 0, here.with_suffix(".txt").read_text()
    extra = cluster.add_node(num_cpus=1)

    def ended() -> dict[str, int]:
        found = out.glob(".points/*/*/measured.json")
        return {path.parent.name: path.stat().st_mtime_ns for path in found if "." not in path.parent.name}

    def wait_until(count: int) -> None:
        while len(ended()) < count:
            assert running.poll() is None, out.with_suffix(".txt").read_text()
            time.sleep(0.02)

    running = compared(out, file, "--ray", cluster.address)
    wait_until(2)
    cluster.remove_node(extra, allow_graceful=False)
    wait_until(4)
    running.kill()
    running.wait()
    before, kept = ended(), {}
    running = compared(out, file, "--ray", cluster.address)
    while running.poll() is None:
        with suppress(FileNotFoundError):
            kept |= ended()
        time.sleep(0.02)
    assert running.returncode == 0, out.with_suffix(".txt").read_text()
    assert undated(out) == undated(here)
    assert 4 <= len(before) < 8
    assert {name: kept[name] for name in before} == before  # none of them was written again
    assert not list(out.glob(".*"))
