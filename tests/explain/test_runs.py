"""`railyard explain` and `railyard.explain`: kept runs, remedies, JSON, and what is said of bad input."""

from __future__ import annotations

import json
import shutil
from typing import TYPE_CHECKING, Any

import pytest

import railyard
from railyard.face.cli import guard
from railyard.face.words.explain import WIDTH

if TYPE_CHECKING:
    from pathlib import Path

SCENARIO: dict[str, Any] = {
    "name": "explained",
    "cluster": {
        "accelerators": 32,
        "server": "hgx-h100",
        "back_end": {"topology": "rail-optimized", "fabric": "roce"},
        "storage": {"name": "nvme-file-server", "servers": 2, "network": "back_end"},
    },
    "workload": {
        "training": {
            "model": "llama-3-8b",
            "tokens": "1 T",
            "global_batch": 64,
            "sequence": 4096,
            "parallelism": {"tp": 2, "pp": 2, "zero": 1, "micro_batch": 1, "recompute": "full"},
            "checkpoint": {"interval_steps": 100},
            "software": {"profile": "megatron-2024", "launch": "300 us"},
        }
    },
    "compare": {"vary": {"fabric": ["roce", "infiniband"]}},
}


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = railyard.run(SCENARIO, out=tmp_path_factory.mktemp("runs")).folder
    assert folder is not None
    return folder


def called(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, str, str]:
    code = guard.run(["explain", *arguments])
    said = capsys.readouterr()
    return code, said.out, said.err


def test_every_remedy_is_simulated_and_ranked(run: Path) -> None:
    found = railyard.explain(run)
    names = [tried.name for tried in found.remedies]
    assert {"CUDA graphs", "FP8 precision", "no recomputation", "selective recomputation", "micro-batch 2"} <= set(
        names
    )
    assert {"tensor-parallel overlap", "zero-bubble schedule", "2 virtual stages"} <= set(names)
    gains = [tried.gain for tried in found.remedies if tried.gain is not None]
    assert gains == sorted(gains, reverse=True)
    for tried in found.remedies:
        assert (tried.step_s is None) == bool(tried.reason)
        assert tried.family != "hardware"
    assert "1.25 x accelerator FLOPS" in {tried.name for tried in found.sensitivity}
    assert all(tried.cpmt_usd is None for tried in found.sensitivity)
    base = found.tree.step_ps * 1e-12
    graphs = next(tried for tried in found.remedies if tried.name == "CUDA graphs")
    assert graphs.step_s is not None
    assert graphs.gain == pytest.approx(1 - graphs.step_s / base)
    assert graphs.gain > 0.05


def test_a_remedy_gives_what_a_run_with_it_gives(run: Path) -> None:
    found = railyard.explain(run)
    tried = next(tried for tried in found.remedies if tried.name == "no recomputation")
    changed = {"workload.training.parallelism.recompute": "none", "compare": {}}
    (plain,) = railyard.run(SCENARIO, overrides=changed, out=None).result.plain()["variants"]
    assert tried.step_s == pytest.approx(plain["step"]["seconds"], rel=1e-6)
    assert tried.cpmt_usd == pytest.approx(plain["cpmt"]["typical"], rel=1e-9)
    # A remedy that changes nothing costs what the run costs, stalls of checkpoints and all.
    idle = [one for one in found.remedies if one.gain is not None and abs(one.gain) < 1e-9]
    assert all(one.step_s == pytest.approx(found.tree.step_ps * 1e-12, rel=1e-9) for one in idle)


def test_a_constant_is_charged_to_the_profile_that_gave_it(run: Path) -> None:
    told = [
        one for leaf in railyard.explain(run, remedies=False).tree.root.leaves() if leaf.by for one in leaf.by.constants
    ]
    sources = {one.name: one.source for one in told}
    assert sources["gemm_fraction"] == "fitted on published runs of all software"
    assert sources["launch_ps"] == "the job, on profile megatron-2024"


def test_the_tree_is_the_step_of_the_result(run: Path) -> None:
    result = json.loads((run / "result.json").read_text())
    for number, name in enumerate(["roce", "infiniband"]):
        found = railyard.explain(run, variant=name, remedies=False)
        found.tree.check()
        assert found.tree.step_ps * 1e-12 == pytest.approx(result["variants"][number]["step"]["seconds"], rel=1e-12)
    assert not found.remedies
    frame = found.to_frame()
    assert frame.filter(frame["leaf"])["amount_ps"].sum() == found.tree.root.amount_ps


def test_json_and_terminal(run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, out, _ = called(capsys, str(run), "--json", "--no-remedies")
    assert code == 0
    content = json.loads(out)
    assert content["format"] == "railyard/explain-1"
    assert set(content) == {
        "format", "name", "run", "engine", "variants", "variant", "step_s", "step_ps", "ranks", "tree", "notes",
        "tax", "cpmt_usd", "remedies", "sensitivity",
    }  # fmt: skip
    _adds_up(content["tree"])
    assert content["tree"]["amount_ps"] == content["step_ps"] * content["ranks"]
    code, out, _ = called(capsys, str(run), "--variant", "infiniband", "--depth", "9")
    assert code == 0
    assert "CUDA graphs" in out
    assert "waiting for the host" in out
    assert [line for line in out.splitlines() if len(line) > WIDTH] == []


def _adds_up(node: dict[str, Any]) -> None:
    assert set(node) == {"name", "amount_ps", "seconds", "share", "count", "by", "children"}
    assert (node["by"] is None) == bool(node["children"])
    if node["children"]:
        assert sum(child["amount_ps"] for child in node["children"]) == node["amount_ps"]
    for child in node["children"]:
        _adds_up(child)


def test_a_result_alone_is_simulated_again(run: Path, tmp_path: Path) -> None:
    shutil.copy(run / "result.json", tmp_path / "alone.json")
    alone = railyard.explain(tmp_path / "alone.json", remedies=False)
    assert alone.tree.root == railyard.explain(run, remedies=False).tree.root
    assert any("simulated again" in note for note in alone.tree.notes)


def test_bad_input_says_what_is_wrong(run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    whole = (run / "result.json").read_text()
    (tmp_path / "empty").mkdir()
    (tmp_path / "cut.json").write_text(whole[: len(whole) // 2])
    (tmp_path / "other.json").write_text('{"format": "railyard/9"}')
    (tmp_path / "list.json").write_text("[]")
    lacking = json.loads(whole)
    del lacking["variants"][0]["time"]
    (tmp_path / "lacking.json").write_text(json.dumps(lacking))
    for name, said in (
        ("missing", "there is no such run"),
        ("empty", "no result.json"),
        ("cut.json", "no complete JSON"),
        ("other.json", "not the result of a run"),
        ("list.json", "not the result of a run"),
        ("lacking.json", "the key is missing"),
    ):
        code, out, err = called(capsys, str(tmp_path / name))
        assert (code, out) == (2, "")
        assert said in err
        assert name in err
    code, _, err = called(capsys, str(run), "--variant", "infinibad")
    assert code == 2
    assert "infiniband" in err
    broken = tmp_path / "broken"
    shutil.copytree(run, broken)
    (broken / "timeline.parquet").write_bytes((run / "timeline.parquet").read_bytes()[:1000])
    code, _, err = called(capsys, str(broken))
    assert code == 2
    assert "timeline.parquet" in err
