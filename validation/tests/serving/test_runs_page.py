"""The page of recorded runs."""

import json
import shutil
from pathlib import Path

from railyard.face.cli.guard import run

RUNS = Path(__file__).parents[2] / "data/serving_runs"


def test_the_command(tmp_path, capsys):
    shutil.copytree(RUNS / "RTXPRO6000/Llama-3.1-8B", tmp_path / "own")
    page = tmp_path / "runs.md"
    assert run(["validate", "serving", "--runs", str(tmp_path), "--page", str(page), "--json"]) == 0
    content = json.loads(capsys.readouterr().out)
    assert content["summary"]["n"] == 1
    assert content["rows"][0]["fitted"]
    assert "<svg" in (tmp_path / "runs-1-ttft.svg").read_text(encoding="utf-8")
    assert "KS distance of TPOT" in page.read_text(encoding="utf-8")
