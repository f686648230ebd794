"""Committed reference pages and types are what their sources give: a default that changes changes its page."""

from __future__ import annotations

import runpy
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


@pytest.mark.parametrize("tool", ["cli_page", "mechanism_page", "result_page", "scenario_page", "result_types"])
def test_what_is_generated_is_fresh(tool, monkeypatch):
    monkeypatch.syspath_prepend(ROOT / "tools")
    assert runpy.run_path(str(ROOT / "tools" / f"{tool}.py"))["main"](["--check"]) == 0, f"run tools/{tool}.py"
