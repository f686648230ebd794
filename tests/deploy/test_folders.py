"""Folders that appear whole: what a killed process left beside them."""

from __future__ import annotations

import subprocess
import sys

from railyard.ask.deploy.files import replaced


def written(out):
    return replaced(out, "plan.json", [("plan.json", "{}"), ("switches/one", "x")], lambda *_: None)


def test_what_a_killed_process_left_goes_and_a_folder_that_it_had_moved_comes_back(tmp_path):
    """Killed between two renames, the earlier folder lies aside, with notes that its reader put there."""
    out = tmp_path / "deployed"
    ended = subprocess.Popen([sys.executable, "-c", ""])
    ended.wait()
    written(out)
    (out / "notes.txt").write_text("mine", encoding="utf-8")
    out.rename(tmp_path / f".deployed.{ended.pid}-old")
    (tmp_path / f".deployed.{ended.pid}").mkdir()
    (tmp_path / ".deployed.by-hand").mkdir()
    assert written(out) == ["plan.json", "switches"]
    assert (out / "notes.txt").read_text(encoding="utf-8") == "mine"
    assert sorted(path.name for path in tmp_path.iterdir()) == [".deployed.by-hand", "deployed"]
