"""`railyard place` and `railyard topology`, from the command line."""

import json
from pathlib import Path

import pytest

from railyard.cli.guard import run

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
    assert "more cells than the heading" in err
    assert "jobs.csv:2" in err


def test_a_table_whose_heading_names_no_nodes_is_refused(railyard, files):
    path = files("nodes\n1\n")[2]
    code, _, err = railyard("topology", path, "--format", "table")
    assert code == 2
    assert "no column names the nodes" in err
