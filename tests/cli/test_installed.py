"""Commands of other packages: found by entry point, imported when they run, one line where they are missing."""

from __future__ import annotations

import sys
from importlib.metadata import EntryPoint
from types import SimpleNamespace

import pytest

from railyard.face.cli import commands, guard

SAY = """
import typer
app = typer.Typer()
@app.command()
def say(word: str) -> None:
    typer.echo(word * 3)
"""


@pytest.fixture
def entries(monkeypatch):
    """Entry points of the group, as an environment would have them."""
    found: dict[str, EntryPoint] = {}
    monkeypatch.setattr(commands, "installed", lambda: found)
    return found


@pytest.fixture
def shouting(entries, tmp_path, monkeypatch):
    (tmp_path / "shouting.py").write_text(SAY, encoding="utf-8")
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, "shouting", raising=False)
    entry = EntryPoint("shout", "shouting:app", commands.ENTRY_POINTS)
    entries["shout"] = entry._for(SimpleNamespace(metadata={"Summary": "Says it three times."}))


@pytest.mark.usefixtures("shouting")
def test_listed_without_being_imported(capsys):
    assert guard.run(["--help"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert [line.split(maxsplit=1) for line in lines if "shout" in line] == [["shout", "Says it three times."]]
    assert "shouting" not in sys.modules


@pytest.mark.usefixtures("shouting")
def test_runs_with_its_arguments(capsys):
    assert guard.run(["shout", "ho"]) == 0
    assert capsys.readouterr().out == "hohoho\n"


def test_an_extra_that_is_not_installed_says_how_to_get_it(entries, capsys):
    assert guard.run(["validate", "training", "--table", "x.csv"]) == 2
    assert capsys.readouterr().err == (
        "error: `railyard validate` is not installed: `pip install railyard[validation]` adds it\n"
    )


def test_a_built_in_command_is_never_replaced(entries, capsys):
    entries["schema"] = EntryPoint("schema", "nowhere:app", commands.ENTRY_POINTS)
    assert guard.run(["schema", "--help"]) == 0
    assert "JSON schema of a scenario" in capsys.readouterr().out


def test_a_broken_package_is_named(entries, capsys):
    entries["shout"] = EntryPoint("shout", "no_such_module:app", commands.ENTRY_POINTS)
    assert guard.run(["shout"]) == 1
    assert "no_such_module" in capsys.readouterr().err
