"""`railyard place` and `railyard topology`, from the command line."""

import json
import os
from pathlib import Path

import numpy as np
import pytest

from railyard import engine
from railyard.face.cli.guard import run
from railyard.graph import Job
from railyard.kit.errors import InputError
from railyard.work.operate.advice import advise, ordered, question

TREE = "SwitchName=a Nodes=n[1-5]\nSwitchName=b Nodes=n[6-8]\nSwitchName=r Switches=a,b\n"


@pytest.fixture
def files(tmp_path):
    (tmp_path / "topology.conf").write_text(TREE)

    def table(text):
        (tmp_path / "jobs.csv").write_text(text)
        return [str(tmp_path / "jobs.csv"), "--nodes", str(tmp_path / "topology.conf")]

    return table


def test_a_list_of_nodes_a_job(cli, files):
    """3 nodes go to the leaf of 3; when they are free again, 2 do too; 7 wait for them."""
    code, out, _ = cli("place", *files("job,nodes,event\nx,3,\ny,4,\nx,,end\nz,2,submit\nw,7,submit\n"), "--json")
    assert code == 0
    assert json.loads(out) == [["n6", "n7", "n8"], ["n1", "n2", "n3", "n4"], ["n6", "n7"], []]


def test_nodes_that_are_taken(cli, files, tmp_path):
    (tmp_path / "busy.txt").write_text("n[6-7]  # drained\n")
    code, out, _ = cli("place", *files("nodes\n3\n"), "--json", "--busy", str(tmp_path / "busy.txt"))
    assert code == 0
    assert json.loads(out) == [["n1", "n2", "n3"]]


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("nodes\n0\n", "jobs.csv:2"),
        ("nodes\n9\n", "more nodes than there are"),
        ("nods\n1\n", "did you mean `nodes`"),
        ("nodes,within\n1,leef\n", "did you mean `leaf`"),
        ("nodes,event\n1,subnit\n", "did you mean `submit`"),
        ("job,nodes,event\na,,end\n", "was not submitted"),
        ("", "empty"),
    ],
)
def test_what_is_wrong_is_named(cli, files, text, words):
    code, out, err = cli("place", *files(text), "--json")
    assert (code, out) == (2, "")
    assert words in err


def test_an_unknown_rule(cli, files):
    code, _, err = cli("place", *files("nodes\n1\n"), "--policy", "slurm-tre")
    assert code == 2
    assert "did you mean `slurm-tree`" in err


def test_topology_of_a_scenario(cli, tmp_path):
    """1,024 H100 in 128 servers, ten to a leaf (2:1 of 128 ports, eight rails each)."""
    names = tmp_path / "names.txt"
    names.write_text("gpu[001-128]\n")
    scenario = Path(__file__).parents[3] / "examples" / "llama3-70b-1024-h100.yaml"
    code, out, _ = cli("topology", str(scenario), "--as", "slurm-tree", "--names", str(names))
    assert code == 0
    assert out.splitlines()[0] == "SwitchName=leaf-0 Nodes=gpu[001-010]"
    assert out.splitlines()[-1] == "SwitchName=root Switches=leaf-[0-12]"


def test_a_node_that_is_taken_twice_is_taken_once(cli, files, tmp_path):
    (tmp_path / "busy.txt").write_text("n1\nn1\n")
    code, out, _ = cli("place", *files("nodes\n3\n"), "--busy", str(tmp_path / "busy.txt"))
    assert code == 0
    assert "4 of 8 nodes stay free" in out


@pytest.mark.parametrize("text", ["nodes\n1,2\n", "job,nodes\na,1,3\n"])
def test_a_cell_beyond_the_heading_is_refused(cli, files, text):
    code, _, err = cli("place", *files(text))
    assert code == 2
    assert "as many cells as the heading" in err
    assert "jobs.csv:2" in err


def test_digits_that_are_no_decimal_digits_are_refused(cli, files):
    code, _, err = cli("place", *files("job,nodes\na,\u00b2\n"))
    assert code == 2
    assert "expected an integer" in err


@pytest.mark.parametrize("text", ["n1\n\0\0\n", "n1 <b>\n", "- n1\n"])
def test_what_is_no_name_of_a_node_is_refused(cli, tmp_path, text):
    (tmp_path / "nodes.txt").write_text(text)
    code, _, err = cli("topology", str(tmp_path / "nodes.txt"))
    assert code == 2
    assert "not a node name" in err


def test_a_table_whose_heading_names_no_nodes_is_refused(cli, files):
    path = files("nodes\n1\n")[2]
    code, _, err = cli("topology", path, "--format", "table")
    assert code == 2
    assert "no column names the nodes" in err


BLOCKS = "".join(f"BlockName=rack{one} Nodes=r{one}-[0-16]\n" for one in range(3)) + "BlockSizes=17\n"


def test_segments_that_a_scheduler_did_not_keep_are_named(cli, tmp_path):
    """SchedMD/slurm 225: 36 nodes in segments of 12 on racks of 17 came as 17+17+2; the topology was shown rightly."""
    (tmp_path / "topology.conf").write_text(BLOCKS)
    jobs = tmp_path / "jobs.csv"
    words = ["place", str(jobs), "--nodes", str(tmp_path / "topology.conf"), "--policy", "slurm-block"]
    jobs.write_text('job,nodes,segment,nodelist\nbig,36,12,"r0-[0-16],r1-[0-16],r2-[0-1]"\n')
    code, out, err = cli(*words)
    assert code == 0
    assert "big: segments of 12 are not kept: 17+17+2 (rack0, rack1, rack2); they fit, as 12+12+12" in err
    assert "15 of 51 nodes stay free" in out
    jobs.write_text('job,nodes,segment,nodelist\nbig,36,12,"r0-[0-11],r1-[0-11],r2-[5-16]"\nnext,5,,\n')
    code, out, err = cli(*words)
    assert (code, err) == (0, "")
    assert "r2-[0-4]" in out  # what the scheduler gave is taken, whatever the policy would have given


@pytest.mark.parametrize(
    ("row", "words"),
    [
        ("3,,,n[1-2]", "it wants 3 nodes and has 2"),
        ("4,,1,n[4-7]", "it may use 1 leaf but has nodes in 2+2 (a, b)"),
        ("4,leaf,,n[4-7]", "it may use 1 leaf but has nodes in 2+2 (a, b)"),
    ],
)
def test_what_was_asked_and_not_given_is_named(cli, files, row, words):
    code, _, err = cli("place", *files(f"nodes,within,switches,given\n{row}\n"))
    assert code == 0
    assert words in err


@pytest.mark.parametrize(("given", "words"), [("n[1-9]", "no node `n9`"), ("n[1-", "jobs.csv:2")])
def test_nodes_that_cannot_have_been_given(cli, files, given, words):
    code, _, err = cli("place", *files(f"nodes,given\n3,{given}\n"))
    assert code == 2
    assert words in err


def test_what_a_terminal_would_obey_is_spelled_out(cli, files):
    code, out, _ = cli("place", *files("job,nodes\n\x1b[31mred\x07,1\n"))
    assert code == 0
    assert "\\x1b[31mred\\x07" in out
    assert "\x1b" not in out
    code, _, err = cli("place", *files("job,nodes\n\x1b[2Jx,none\n"))
    assert code == 2
    assert "\x1b" not in err


def test_files_are_written_over_only_by_force(cli, files, tmp_path):
    words = ["topology", files("nodes\n1\n")[2], "--as", "slurm-tree", "--out", str(tmp_path / "out.conf")]
    assert cli(*words)[0] == 0
    (tmp_path / "out.conf").write_text("mine\n")
    code, _, err = cli(*words)
    assert code == 2
    assert "`--force` replaces it" in err
    assert (tmp_path / "out.conf").read_text() == "mine\n"
    assert cli(*words, "--force")[0] == 0
    assert (tmp_path / "out.conf").read_text().startswith("SwitchName=a")
    assert cli(*words[:-1], "/dev/null")[0] == 0


def test_a_schedule_is_written_over_only_by_force(cli, tmp_path):
    (tmp_path / "links.csv").write_text("source,destination,gb_per_s,latency_us\n0,1,10,1\n1,0,10,1\n")
    (tmp_path / "out.csv").write_text("mine\n")
    words = ["synthesize", "--links", str(tmp_path / "links.csv"), "--collective", "allgather"]
    code, _, err = cli(*words, "--out", str(tmp_path / "out.csv"))
    assert code == 2
    assert "`--force` replaces it" in err
    assert (tmp_path / "out.csv").read_text() == "mine\n"


def test_a_scenario_from_a_pipe_that_nobody_writes_into_ends(cli, tmp_path):
    os.mkfifo(tmp_path / "pipe.yaml")
    code, _, err = cli("run", str(tmp_path / "pipe.yaml"))
    assert code == 2
    assert "pipe.yaml" in err


# `railyard place` of a scenario's job: nodes, why, its step, and what other policies cost.

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
def advice_files(tmp_path):
    indented = "".join(f"  {line}\n" for line in TRAINING.splitlines())
    (tmp_path / "job.yaml").write_text(CLUSTER.format(16) + indented)
    (tmp_path / "machine.yaml").write_text(CLUSTER.format(96) + indented)
    (tmp_path / "jobs.yaml").write_text(CLUSTER.format(96) + JOBS)
    (tmp_path / "free.txt").write_text("node[2-5,9]\n")
    return tmp_path


def test_a_job_goes_to_the_leaf_that_holds_it_and_others_say_what_they_cost(advice_files):
    """Leafs of 4 nodes, 2 to 5 and 9 free: two nodes fit into the first leaf's rest or the second's; `worst` splits."""
    asked = question(advice_files / "job.yaml", advice_files / "machine.yaml")
    assert (asked.nodes, asked.accelerators, asked.free.idle) == (2, 16, 12)
    asked = question(advice_files / "jobs.yaml", advice_files / "free.txt")
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


def test_the_step_is_the_flow_engine_s_and_neighbours_count(advice_files):
    """The same step without the other job is no slower."""
    alone = question(advice_files / "job.yaml", advice_files / "machine.yaml", busy=None)
    beside = question(advice_files / "jobs.yaml", advice_files / "free.txt")
    apart = next(one for one in advise(alone, "worst", ()))
    together = next(one for one in advise(beside, "worst", ()))
    assert together.step_s >= apart.step_s
    from railyard.work.operate.advice import _step

    step, groups = _step(alone)
    ranks = (apart.nodes[:, None] * 8 + np.arange(8)).ravel().astype(np.int32)
    record = engine.get("flow").simulate([Job(step, ranks)], alone.cluster)
    assert apart.step_s == pytest.approx(int(record.end_ps.max()) * 1e-12, rel=0.02)
    assert groups == ()


def test_a_tenant_s_job_gets_its_nodes_only_and_so_do_those_that_run(advice_files):
    """Free are 2 to 5 and 9; blue has 4 to 8: of these 4 and 5. A job of nobody gets none of them."""
    tenancy = "fabric: infiniband, tenancy: {by: pkey, tenants: [{name: blue, servers: 4-8}]}"
    text = (CLUSTER.format(96) + JOBS).replace("fabric: infiniband}", "fabric: infiniband}\n  " + tenancy[20:])
    placed = {}
    for name in ("blue", "", "bleu"):
        mine = text.replace("{name: mine,", f"{{name: mine, tenant: {name}," if name else "{name: mine,")
        (advice_files / "shared.yaml").write_text(mine)
        if name == "bleu":
            with pytest.raises(InputError, match="the cluster has no such tenant") as told:
                question(advice_files / "shared.yaml", advice_files / "free.txt")
            assert "blue" in str(told.value.problems[0].hint)
            continue
        asked = question(advice_files / "shared.yaml", advice_files / "free.txt")
        placed[name] = advise(asked, "slurm-tree", [])[0].nodes.tolist()
        assert asked.taken.sum() == 12 - 5
    assert placed == {"blue": [4, 5], "": [2, 3]}


def test_from_the_command_line(advice_files, capsys):
    words = [
        "place",
        str(advice_files / "jobs.yaml"),
        "--nodes",
        str(advice_files / "free.txt"),
        "--policy",
        "first-fit",
    ]
    assert run(words) == 0
    out = capsys.readouterr().out
    assert out.startswith("Policy first-fit places 1 of 1 jobs")
    assert "\n\nfirst-fit: node[02-03]\n  leafs: 1 (the fewest possible)\n  step: " in out
    assert run([*words, "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found[0]["policy"] == "first-fit"
    assert found[0]["nodes"] == ["node02", "node03"]
    assert found[0]["groups"] == {"leaf": {"touched": 1, "least": 1}}
    assert len(found) > 8


@pytest.mark.parametrize(
    ("job", "nodes", "words"),
    [
        ("machine.yaml", "job.yaml", "wants 12 nodes, and the cluster has 2"),
        ("job.yaml", "free.txt", "no node `node2`"),
        ("jobs.yaml", "none.txt", "no such file"),
    ],
)
def test_what_cannot_be_is_said(advice_files, capsys, job, nodes, words):
    assert run(["place", str(advice_files / job), "--nodes", str(advice_files / nodes)]) == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    assert words in captured.err


def test_a_job_that_does_not_fit_waits(advice_files, capsys):
    (advice_files / "free.txt").write_text("node3\n")
    assert run(["place", str(advice_files / "jobs.yaml"), "--nodes", str(advice_files / "free.txt")]) == 0
    assert "the job waits; it needs 2 nodes, and 1 are free" in capsys.readouterr().out
