"""Runs that were kept, side by side."""

import pytest

import railyard
from railyard.face.cli import guard
from railyard.kit.errors import InputError
from railyard.work.training import present as words

SMALL = {
    "name": "small",
    "cluster": {"accelerators": 16, "server": "hgx-h100", "back_end": {"topology": "rail-optimized", "fabric": "roce"}},
    "workload": {
        "training": {
            "model": "llama-3.2-1b", "tokens": "1 T", "global_batch": 16, "sequence": 2048, "parallelism": {"tp": 2},
        }
    },
}  # fmt: skip


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("runs")
    for changes in ({}, {"fabric": "uec"}, {"workload.training.sequence": 4096, "name": "longer"}):
        railyard.run(SMALL, overrides=changes, out=folder)
    return folder


def runs(folder, *names):
    return [next(path for path in folder.iterdir() if path.name.startswith(name)) for name in names]


def fabric_of(path):
    return "uec" if "name: uec" in (path / "scenario.yaml").read_text() else "roce"


def test_a_network_apart_shares_computations_as_a_comparison_of_one_scenario_does(folder):
    pair = [path for path in folder.iterdir() if path.name.startswith("small")]
    joined = railyard.face.api.compare_runs(pair, out=None).result
    compared = railyard.compare(SMALL, vary={"fabric": [fabric_of(path) for path in pair]}, out=None).result
    assert [one.name for one in joined.variants] == [path.name for path in pair]
    assert [dict(one.settings) for one in joined.variants] == [
        {"cluster.back_end.fabric.name": fabric_of(path)} for path in pair
    ]
    (mine,), (theirs,) = joined.verdict.differences, compared.verdict.differences
    assert mine.shared == theirs.shared == "computation"
    assert mine.model_copy(update={"variant": theirs.variant}) == theirs


def test_runs_of_other_work_stand_side_by_side_without_a_winner(folder):
    joined = railyard.face.api.compare_runs(runs(folder, "small", "longer"), out=None).result
    assert joined.name == "small against longer"
    assert [one.name for one in joined.variants] == ["small", "longer"]
    verdict = joined.verdict
    assert (verdict.leading, verdict.best, verdict.ranking, verdict.differences) == (None, None, (), ())
    assert verdict.unlike == ("workload.training.sequence",)
    said = words.why(joined)
    assert said.startswith("The variants do different work (workload.training.sequence 2048 against 4096)")


def test_joined_runs_make_a_folder_that_can_be_joined_again(folder, tmp_path):
    first = railyard.face.api.compare_runs(runs(folder, "small", "longer"), out=tmp_path)
    assert (first.folder / "report.html").is_file()
    again = railyard.face.api.compare_runs([first.folder, *runs(folder, "longer")], out=None).result
    assert len(again.variants) == 3


def test_the_command_line_names_what_is_wrong(folder, capsys, tmp_path):
    one = str(runs(folder, "longer")[0])
    cases = {
        (one,): "one run is nothing to compare",
        (one, one): "this run stands twice",
        (one, str(tmp_path)): "this folder holds no run",
        (one, "examples/first.yaml"): "this is a scenario among runs",
        (one, str(runs(folder, "small")[0]), "--vary", "fabric=roce"): "--vary: runs that were kept cannot be changed",
    }
    for arguments, wrong in cases.items():
        assert guard.run(["compare", *arguments, "--out", str(tmp_path / "out")]) == 2
        assert wrong in capsys.readouterr().err
    assert not (tmp_path / "out").exists()


def test_serving_against_training_has_no_figure_in_common(folder, tmp_path):
    flows = tmp_path / "flows.cm"
    flows.write_text("Nodes 2\nConnections 1\n0->1 start 0 size 1000\n")
    assert guard.run(["packet", "--traffic", str(flows), "--out", str(tmp_path), "-q"]) == 0
    other = next(path.parent for path in tmp_path.glob("*/result.json"))
    with pytest.raises(InputError, match="different kinds of work"):
        railyard.face.api.compare_runs([*runs(folder, "small"), other], out=None)
