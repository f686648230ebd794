"""Committed reference pages and types are what their sources give: a default that changes changes its page."""

from __future__ import annotations

import runpy
import shutil
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


PAGES = ["catalog_page", "cli_page", "mechanism_page", "record_page", "result_page", "scenario_page", "result_types"]


@pytest.mark.parametrize("tool", PAGES)
def test_what_is_generated_is_fresh(tool, monkeypatch):
    monkeypatch.syspath_prepend(ROOT / "tools")
    assert runpy.run_path(str(ROOT / "tools" / f"{tool}.py"))["main"](["--check"]) == 0, f"run tools/{tool}.py"


@pytest.mark.skipif(shutil.which("groff") is None, reason="no groff here")
def test_the_man_page_renders_without_warnings():
    page = ROOT / "docs/reference/railyard.1"
    words = ["groff", "-man", "-ww", "-K", "utf8", "-T", "utf8", "-P", "-cbou", str(page)]
    done = subprocess.run(words, capture_output=True, text=True, check=True)
    assert done.stderr == ""
    for line in ("railyard run", "--vary KEY=A,B,C", "RAILYARD_PLUGINS"):
        assert line in done.stdout
