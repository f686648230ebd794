"""`railyard place` and `railyard topology`, from the command line."""

import json
import os
from pathlib import Path

import pytest

from railyard.face.cli.guard import run

TREE = "SwitchName=a Nodes=n[1-5]\nSwitchName=b Nodes=n[6-8]\nSwitchName=r Switches=a,b\n"


@pytest.fixture
def railyard(capsys):
    def call(*words):
        code = run(list(words))
        out, err = capsys.readouterr()
        return code, out, err

    return call


@pytest.fixture
def files(tmp_path):
    (tmp_path / "topology.conf").write_text(TREE)

    def table(text):
        (tmp_path / "jobs.csv").write_text(text)
        return [str(tmp_path / "jobs.csv"), "--nodes", str(tmp_path / "topology.conf")]

    return table


def test_a_list_of_nodes_a_job(railyard, files):
    """3 nodes go to the leaf of 3; when they are free again, 2 do too; 7 wait for them."""
    code, out, _ = railyard("place", *files("job,nodes,event\nx,3,\ny,4,\nx,,end\nz,2,submit\nw,7,submit\n"), "--json")
    assert code == 0
    assert json.loads(out) == [["n6", "n7", "n8"], ["n1", "n2", "n3", "n4"], ["n6", "n7"], []]


def test_nodes_that_are_taken(railyard, files, tmp_path):
    (tmp_path / "busy.txt").write_text("n[6-7]  # drained\n")
    code, out, _ = railyard("place", *files("nodes\n3\n"), "--json", "--busy", str(tmp_path / "busy.txt"))
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
def test_what_is_wrong_is_named(railyard, files, text, words):
    code, out, err = railyard("place", *files(text), "--json")
    assert (code, out) == (2, "")
    assert words in err


def test_an_unknown_rule(railyard, files):
    code, _, err = railyard("place", *files("nodes\n1\n"), "--policy", "slurm-tre")
    assert code == 2
    assert "did you mean `slurm-tree`" in err


def test_topology_of_a_scenario(railyard, tmp_path):
    """1,024 H100 in 128 servers, ten to a leaf (2:1 of 128 ports, eight rails each)."""
    names = tmp_path / "names.txt"
    names.write_text("gpu[001-128]\n")
    scenario = Path(__file__).parents[2] / "examples" / "llama3-70b-1024-h100.yaml"
    code, out, _ = railyard("topology", str(scenario), "--as", "slurm-tree", "--names", str(names))
    assert code == 0
    assert out.splitlines()[0] == "SwitchName=leaf-0 Nodes=gpu[001-010]"
    assert out.splitlines()[-1] == "SwitchName=root Switches=leaf-[0-12]"


def test_a_node_that_is_taken_twice_is_taken_once(railyard, files, tmp_path):
    (tmp_path / "busy.txt").write_text("n1\nn1\n")
    code, out, _ = railyard("place", *files("nodes\n3\n"), "--busy", str(tmp_path / "busy.txt"))
    assert code == 0
    assert "4 of 8 nodes left" in out


@pytest.mark.parametrize("text", ["nodes\n1,2\n", "job,nodes\na,1,3\n"])
def test_a_cell_beyond_the_heading_is_refused(railyard, files, text):
    code, _, err = railyard("place", *files(text))
    assert code == 2
    assert "as many cells as the heading" in err
    assert "jobs.csv:2" in err


def test_digits_that_are_no_decimal_digits_are_refused(railyard, files):
    code, _, err = railyard("place", *files("job,nodes\na,\u00b2\n"))
    assert code == 2
    assert "expected an integer" in err


@pytest.mark.parametrize("text", ["n1\n\0\0\n", "n1 <b>\n", "- n1\n"])
def test_what_is_no_name_of_a_node_is_refused(railyard, tmp_path, text):
    (tmp_path / "nodes.txt").write_text(text)
    code, _, err = railyard("topology", str(tmp_path / "nodes.txt"))
    assert code == 2
    assert "no name of a node" in err


def test_a_table_whose_heading_names_no_nodes_is_refused(railyard, files):
    path = files("nodes\n1\n")[2]
    code, _, err = railyard("topology", path, "--format", "table")
    assert code == 2
    assert "no column names the nodes" in err


BLOCKS = "".join(f"BlockName=rack{one} Nodes=r{one}-[0-16]\n" for one in range(3)) + "BlockSizes=17\n"


def test_segments_that_a_scheduler_did_not_keep_are_named(railyard, tmp_path):
    """SchedMD/slurm 225: 36 nodes in segments of 12 on racks of 17 came as 17+17+2; the topology was shown rightly."""
    (tmp_path / "topology.conf").write_text(BLOCKS)
    jobs = tmp_path / "jobs.csv"
    words = ["place", str(jobs), "--nodes", str(tmp_path / "topology.conf"), "--policy", "slurm-block"]
    jobs.write_text('job,nodes,segment,nodelist\nbig,36,12,"r0-[0-16],r1-[0-16],r2-[0-1]"\n')
    code, out, err = railyard(*words)
    assert code == 0
    assert "big: segments of 12 are not kept: 17+17+2 (rack0, rack1, rack2); they fit, as 12+12+12" in err
    assert "15 of 51 nodes left" in out
    jobs.write_text('job,nodes,segment,nodelist\nbig,36,12,"r0-[0-11],r1-[0-11],r2-[5-16]"\nnext,5,,\n')
    code, out, err = railyard(*words)
    assert (code, err) == (0, "")
    assert "r2-[0-4]" in out  # what the scheduler gave is taken, whatever the policy would have given


@pytest.mark.parametrize(
    ("row", "words"),
    [
        ("3,,,n[1-2]", "it wants 3 nodes and has 2"),
        ("4,,1,n[4-7]", "it has to lie in 1 of the level leaf: 2+2 (a, b)"),
        ("4,leaf,,n[4-7]", "it has to lie in 1 of the level leaf: 2+2 (a, b)"),
    ],
)
def test_what_was_asked_and_not_given_is_named(railyard, files, row, words):
    code, _, err = railyard("place", *files(f"nodes,within,switches,given\n{row}\n"))
    assert code == 0
    assert words in err


@pytest.mark.parametrize(("given", "words"), [("n[1-9]", "no node `n9`"), ("n[1-", "jobs.csv:2")])
def test_nodes_that_cannot_have_been_given(railyard, files, given, words):
    code, _, err = railyard("place", *files(f"nodes,given\n3,{given}\n"))
    assert code == 2
    assert words in err


def test_what_a_terminal_would_obey_is_spelled_out(railyard, files):
    code, out, _ = railyard("place", *files("job,nodes\n\x1b[31mred\x07,1\n"))
    assert code == 0
    assert "\\x1b[31mred\\x07" in out
    assert "\x1b" not in out
    code, _, err = railyard("place", *files("job,nodes\n\x1b[2Jx,none\n"))
    assert code == 2
    assert "\x1b" not in err


def test_files_are_written_over_only_by_force(railyard, files, tmp_path):
    words = ["topology", files("nodes\n1\n")[2], "--as", "slurm-tree", "--out", str(tmp_path / "out.conf")]
    assert railyard(*words)[0] == 0
    (tmp_path / "out.conf").write_text("mine\n")
    code, _, err = railyard(*words)
    assert code == 2
    assert "`--force` replaces it" in err
    assert (tmp_path / "out.conf").read_text() == "mine\n"
    assert railyard(*words, "--force")[0] == 0
    assert (tmp_path / "out.conf").read_text().startswith("SwitchName=a")
    assert railyard(*words[:-1], "/dev/null")[0] == 0


def test_a_schedule_is_written_over_only_by_force(railyard, tmp_path):
    (tmp_path / "links.csv").write_text("source,destination,gb_per_s,latency_us\n0,1,10,1\n1,0,10,1\n")
    (tmp_path / "out.csv").write_text("mine\n")
    words = ["synthesize", "--links", str(tmp_path / "links.csv"), "--collective", "allgather"]
    code, _, err = railyard(*words, "--out", str(tmp_path / "out.csv"))
    assert code == 2
    assert "`--force` replaces it" in err
    assert (tmp_path / "out.csv").read_text() == "mine\n"


def test_a_scenario_from_a_pipe_that_nobody_writes_into_ends(railyard, tmp_path):
    os.mkfifo(tmp_path / "pipe.yaml")
    code, _, err = railyard("run", str(tmp_path / "pipe.yaml"))
    assert code == 2
    assert "pipe.yaml" in err
