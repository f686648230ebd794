"""A verb is one file: its command, its form on the page and its Python function come from the record."""

from __future__ import annotations

import json
import os
import subprocess
import sys

import pytest

from railyard.face.verb import on_page, verbs
from railyard.kit.registry import VARIABLE

TOY = '''
"""How many accelerators a scenario has."""

from pathlib import Path
from typing import Annotated

import typer

from railyard.face.terminal import emit
from railyard.face.verb import FormField, Page, Reply, Request, verb


@verb("count", "How many accelerators.", parts=["scenario"], json=True, page=Page("Count", "Counts them.", order=99))
def count(
    request: Request,
    *,
    times: Annotated[int, typer.Option("--times", min=1, help="Factor.")] = 1,
    names: Annotated[Path | None, typer.Option("--names", help="A list."), FormField("Names")] = None,
) -> Reply:
    """Count the accelerators of a scenario."""
    assert names is None or isinstance(names, Path)
    found = times * request.draft().scenario.cluster.accelerators
    return Reply(found, lambda: emit(f"{found} accelerators"), lambda: {"count": found})
'''
SCENARIO = "cluster: {accelerators: 16, server: hgx-h100}\nworkload: {trace: jobs.et}\n"
PYTHON = """
import railyard
from railyard.face.verb import on_page
verb, page = on_page()["count"]
print(railyard.command("count", "mine.yaml", times="3", names="list"), page.title, [one.title for one in verb.inputs])
"""


@pytest.fixture
def shell(tmp_path):
    plugins = tmp_path / "plugins"
    plugins.mkdir()
    (plugins / "count.py").write_text(TOY)
    (tmp_path / "mine.yaml").write_text(SCENARIO)

    def run(*command: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, *command],
            cwd=tmp_path, env={**os.environ, VARIABLE: str(plugins)}, capture_output=True, text=True, check=False,
        )  # fmt: skip

    return run


def test_one_file_adds_a_command_a_form_and_a_function(shell) -> None:
    printed = shell("-m", "railyard", "count", "mine.yaml", "--times", "2")
    assert printed.stdout == "32 accelerators\n", printed.stderr
    assert json.loads(shell("-m", "railyard", "count", "mine.yaml", "--json").stdout) == {"count": 16}
    assert "--times" in shell("-m", "railyard", "count", "--help").stdout
    wrong = shell("-m", "railyard", "count", "mine.yaml", "--times", "0")
    assert (wrong.returncode, wrong.stdout) == (2, "")
    assert shell("-c", PYTHON).stdout == "48 Count ['Names']\n"


def test_every_argument_has_a_sentence_and_every_form_a_button() -> None:
    for name, verb in verbs.shipped():
        assert verb.ask.__doc__, name
        assert set(verb.hidden) <= set(verb.parts), name
    titles = [page.title for _, page in on_page().values()]
    assert len(set(titles)) == len(titles)
