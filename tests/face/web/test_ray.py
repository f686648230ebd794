"""Sweeps of the page on a real Ray cluster of this machine: the same result, and nothing else is read there.

Skipped where Ray is not installed (`pip install railyard[ray]`).
"""

from __future__ import annotations

import json
from functools import partial
from pathlib import Path

import pytest

from railyard.face.cli import guard
from railyard.face.web import dispatch
from railyard.work.study.tasks import Task
from railyard.work.study.workers import workers

from .conftest import SMALL
from .server import running, until

pytest.importorskip("ray", reason="Ray is not installed: pip install railyard[ray]")


@pytest.fixture
def cluster():
    from ray.cluster_utils import Cluster

    found = Cluster(initialize_head=True, head_node_args={"num_cpus": 1, "include_dashboard": False})
    yield found
    found.shutdown()


def ended(server, job):
    def look():
        found = server.ask("GET", f"/jobs/{job['id']}")
        return found if found["state"] in {"done", "failed", "stopped"} else None

    return until(look, 300)


@pytest.mark.slow
def test_a_sweep_of_the_page_runs_on_the_cluster(cluster, tmp_path):
    asked = {"text": SMALL, "vary": ["fabric=roce,infiniband"], "engine": "analytic"}
    results = []
    for options in ((), ("--ray", cluster.address)):
        folder = tmp_path / f"folder{len(options)}"
        folder.mkdir()
        with running(folder, *options) as server:
            job = ended(server, server.ask("POST", "/jobs", asked))
            assert (job["state"], job["faults"]) == ("done", [])
            results.append(server.ask("GET", f"/runs/{job['outcome']['name']}/result")["variants"])
            if options:
                cluster.shutdown()
                job = ended(server, server.ask("POST", "/jobs", {**asked, "vary": ["fabric=roce,uec"]}))
                assert job["state"] == "failed"
                assert "no Ray cluster answers" in job["faults"][0]["message"]
    assert len(results[0]) == 2
    assert json.dumps(results[0]) == json.dumps(results[1])


@pytest.mark.slow
def test_nodes_read_nothing_outside_of_the_persons_folder(cluster, tmp_path):
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "a").write_text("x")
    pool = workers(cluster.address, begin=partial(dispatch.confine, tmp_path / "mine"))
    try:
        tasks = [Task("railyard.kit.files:read_text", name) for name in (tmp_path / "mine" / "a", Path("/etc/passwd"))]
        done = {found.number: found for found in pool.run(tasks)}
    finally:
        pool.close()
    assert done[0].value == "x"
    assert "is outside of your folder" in done[1].error


def test_a_cluster_that_does_not_answer_is_named_before_anything_is_served(tmp_path, capsys):
    assert guard.run(["ui", str(tmp_path), "--ray", "127.0.0.1:1", "--no-open"]) == 2
    assert "no Ray cluster answers" in capsys.readouterr().err
