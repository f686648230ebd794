"""Committed reference pages and types are what their sources give: a default that changes changes its page."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


PAGES = ["catalog_page", "cli_page", "mechanism_page", "record_page", "result_page", "scenario_page", "result_types"]


CHECK = """
import runpy, sys
sys.path.insert(0, "tools")
for tool in sys.argv[1:]:
    runpy.run_path(f"tools/{tool}.py")["main"](["--check"])
"""


def test_what_is_generated_is_fresh():
    """In a process of its own: pages list what Railyard ships, and here other tests may have loaded plugins."""
    done = subprocess.run(
        [sys.executable, "-c", CHECK, *PAGES], cwd=ROOT, capture_output=True, text=True, check=True, timeout=120
    )
    assert done.stdout.split() == ["fresh"] * len(PAGES), done.stdout


@pytest.mark.skipif(shutil.which("groff") is None, reason="no groff here")
def test_the_man_page_renders_without_warnings():
    page = ROOT / "docs/reference/railyard.1"
    words = ["groff", "-man", "-ww", "-K", "utf8", "-T", "utf8", "-P", "-cbou", str(page)]
    done = subprocess.run(words, capture_output=True, text=True, check=True)
    assert done.stderr == ""
    for line in ("railyard run", "--vary KEY=A,B,C", "RAILYARD_PLUGINS"):
        assert line in done.stdout
