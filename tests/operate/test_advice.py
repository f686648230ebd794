"""`railyard place` of a scenario's job: nodes, why, its step, and what other policies cost."""

import json

import numpy as np
import pytest

from railyard import engine
from railyard.face.cli.guard import run
from railyard.graph import Job
from railyard.kit.errors import InputError
from railyard.work.operate.advice import advise, ordered, question

CLUSTER = """name: j
cluster:
  accelerators: {0}
  server: hgx-h100
  back_end: {{topology: {{kind: leaf-spine, oversubscription: "8:1", ports_per_leaf: 32}}, fabric: infiniband}}
workload:
"""
TRAINING = """training:
  model: llama-3.2-1b
  global_batch: 16
  sequence: 2048
  parallelism: {tp: 2, zero: 1, micro_batch: 1}
"""
JOBS = """  jobs:
    - {name: other, accelerators: 16, placement: spread, training: {model: llama-3.2-1b, global_batch: 16,
       sequence: 2048, parallelism: {tp: 1, zero: 1, micro_batch: 1}}}
    - {name: mine, accelerators: 16, training: {model: llama-3.2-1b, global_batch: 16, sequence: 2048,
       parallelism: {tp: 2, zero: 1, micro_batch: 1}}}
"""


@pytest.fixture
def files(tmp_path):
    indented = "".join(f"  {line}\n" for line in TRAINING.splitlines())
    (tmp_path / "job.yaml").write_text(CLUSTER.format(16) + indented)
    (tmp_path / "machine.yaml").write_text(CLUSTER.format(96) + indented)
    (tmp_path / "jobs.yaml").write_text(CLUSTER.format(96) + JOBS)
    (tmp_path / "free.txt").write_text("node-[2-5,9]\n")
    return tmp_path


def test_a_job_goes_to_the_leaf_that_holds_it_and_others_say_what_they_cost(files):
    """Leafs of 4 nodes, 2 to 5 and 9 free: two nodes fit into the first leaf's rest or the second's; `worst` splits."""
    asked = question(files / "job.yaml", files / "machine.yaml")
    assert (asked.nodes, asked.accelerators, asked.free.idle) == (2, 16, 12)
    asked = question(files / "jobs.yaml", files / "free.txt")
    assert asked.free.idle == 5
    found = {one.policy: one for one in advise(asked, "slurm-tree")}
    assert found["slurm-tree"].nodes.tolist() == [2, 3]
    assert found["slurm-tree"].groups == ((1, 1),)
    assert found["worst"].groups == ((2, 1),)
    assert found["worst"].step_s > 1.02 * found["slurm-tree"].step_s
    best, last = ordered(found.values())[0], ordered(found.values())[-1]
    assert best.step_s == min(one.step_s for one in found.values())
    assert last.policy in {"random", "worst"}
    # 16 of 96 accelerators for a thousand steps, in proportion.
    one, two = found["slurm-tree"], found["worst"]
    assert one.usd / two.usd == pytest.approx(one.step_s / two.step_s)
    assert 2.0 < one.usd / (1000 * one.step_s * 16 / 3600) < 4.0  # dollars an accelerator-hour


def test_the_step_is_the_flow_engine_s_and_neighbours_count(files):
    """The same step without the other job is no slower."""
    alone = question(files / "job.yaml", files / "machine.yaml", busy=None)
    beside = question(files / "jobs.yaml", files / "free.txt")
    apart = next(one for one in advise(alone, "worst", ()))
    together = next(one for one in advise(beside, "worst", ()))
    assert together.step_s >= apart.step_s
    from railyard.work.operate.advice import _step

    step, groups = _step(alone)
    ranks = (apart.nodes[:, None] * 8 + np.arange(8)).ravel().astype(np.int32)
    record = engine.get("flow").simulate([Job(step, ranks)], alone.cluster)
    assert apart.step_s == pytest.approx(int(record.end_ps.max()) * 1e-12, rel=0.02)
    assert groups == ()


def test_a_tenant_s_job_gets_its_nodes_only_and_so_do_those_that_run(files):
    """Free are 2 to 5 and 9; blue has 4 to 8: of these 4 and 5. A job of nobody gets none of them."""
    tenancy = "fabric: infiniband, tenancy: {by: pkey, tenants: [{name: blue, servers: 4-8}]}"
    text = (CLUSTER.format(96) + JOBS).replace("fabric: infiniband}", "fabric: infiniband}\n  " + tenancy[20:])
    placed = {}
    for name in ("blue", "", "bleu"):
        mine = text.replace("{name: mine,", f"{{name: mine, tenant: {name}," if name else "{name: mine,")
        (files / "shared.yaml").write_text(mine)
        if name == "bleu":
            with pytest.raises(InputError, match="the cluster has no such tenant") as told:
                question(files / "shared.yaml", files / "free.txt")
            assert "blue" in str(told.value.problems[0].hint)
            continue
        asked = question(files / "shared.yaml", files / "free.txt")
        placed[name] = advise(asked, "slurm-tree", [])[0].nodes.tolist()
        assert asked.taken.sum() == 12 - 5
    assert placed == {"blue": [4, 5], "": [2, 3]}


def test_from_the_command_line(files, capsys):
    words = ["place", str(files / "jobs.yaml"), "--nodes", str(files / "free.txt"), "--policy", "first-fit"]
    assert run(words) == 0
    out = capsys.readouterr().out
    assert out.startswith("first-fit: node-[2-3]\n  leafs: 1 (as few as can be)\n  step: ")
    assert run([*words, "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found[0]["policy"] == "first-fit"
    assert found[0]["nodes"] == ["node-2", "node-3"]
    assert found[0]["groups"] == {"leaf": {"touched": 1, "least": 1}}
    assert len(found) > 8


@pytest.mark.parametrize(
    ("job", "nodes", "words"),
    [
        ("machine.yaml", "job.yaml", "wants 12 nodes, and the cluster has 2"),
        ("job.yaml", "free.txt", "no node `node-2`"),
        ("jobs.yaml", "none.txt", "no such file"),
    ],
)
def test_what_cannot_be_is_said(files, capsys, job, nodes, words):
    assert run(["place", str(files / job), "--nodes", str(files / nodes)]) == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    assert words in captured.err


def test_a_job_that_does_not_fit_waits(files, capsys):
    (files / "free.txt").write_text("node-3\n")
    assert run(["place", str(files / "jobs.yaml"), "--nodes", str(files / "free.txt")]) == 0
    assert "the job waits; 1 nodes are free, and it wants 2" in capsys.readouterr().out
