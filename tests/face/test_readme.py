"""The README: its Python, scenarios and commands run as printed, its transcripts are what is printed."""

import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest
from tests.tables import command

from railyard.face import api
from railyard.face.cli.commands import EXTRAS
from railyard.face.cli.commands import command as command_line
from railyard.work.scenario.load import load

ROOT = Path(__file__).parents[2]
README = (ROOT / "README.md").read_text(encoding="utf-8")
COMMANDS = re.findall(r"^railyard .*", README, re.MULTILINE)
TRANSCRIPTS = re.findall(r"<!-- \$ (railyard .*) -->\n```text\n(.*?)```", README, re.DOTALL)

ENVIRONMENT = {**os.environ, "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}"}


def test_its_python_runs(monkeypatch) -> None:
    monkeypatch.chdir(ROOT)
    (block,) = re.findall(r"```python\n(.*?)```", README, re.DOTALL)
    names: dict[str, object] = {}
    exec(compile(block, "README.md", "exec"), names)
    assert abs(names["shares"]["share"].sum() - len(names["run"].variants)) < 1e-6


@pytest.mark.parametrize("line", COMMANDS)
def test_its_commands_take_their_options(line) -> None:
    verb, *words = shlex.split(line, comments=True)[1:]
    assert verb in EXTRAS or command_line().commands[verb].make_context(verb, words)


SLOW = ("run mine", "compare", "operate", "plan", "run examples/slow-nic", "diagnose")
"""Commands of a minute or more, and what reads what they wrote."""


def test_its_quick_commands_run_in_order_as_printed(copy) -> None:
    run = [line for line in COMMANDS if not line.startswith(tuple(f"railyard {begin}" for begin in SLOW))]
    assert len(run) > 9
    for line in run:
        fails_not(line, copy)


@pytest.mark.slow
def test_all_its_commands_run_in_order_as_printed(copy) -> None:
    for line in COMMANDS:
        fails_not(line, copy)


@pytest.fixture
def copy(tmp_path):
    """A folder like a fresh clone: what is written into it does not reach the project."""
    for name in ("examples", "validation"):
        (tmp_path / name).symlink_to(ROOT / name)
    return tmp_path


def fails_not(line, folder) -> None:
    found = subprocess.run(
        ["bash", "-c", line], check=False, cwd=folder, capture_output=True, text=True, env=ENVIRONMENT
    )
    assert found.returncode == 0, f"{line}\n{found.stdout}\n{found.stderr}"


def cells(text):
    """Pieces of a transcript between which it may leave something out: columns, and what `...` stands for."""
    rows = [line for line in text.splitlines() if "  " in line]
    prose = " ".join(line for line in text.splitlines() if "  " not in line)
    return [cell for part in (*rows, prose) for cell in re.split(r"  +|\(?\.\.\.\)?", part) if cell.strip()]


@pytest.mark.slow
@pytest.mark.parametrize(("line", "text"), TRANSCRIPTS)
def test_its_transcripts_are_what_is_printed_now(line, text, monkeypatch, tmp_path) -> None:
    monkeypatch.chdir(ROOT)
    printed = command(f"{line} --out {tmp_path}")
    at = 0
    for cell in cells(text):
        at = printed.find(cell.strip(), at)
        assert at >= 0, f"not in the output, or not in this order: {cell.strip()}\n{printed}"
        at += len(cell.strip())


def test_its_scenarios_run(tmp_path) -> None:
    training, serving = re.findall(r"```yaml\n(.*?)```", README, re.DOTALL)
    path = tmp_path / "mine.yaml"
    path.write_text(training)
    assert load(path).scenario.cluster.accelerators == 1024
    path.write_text(serving)
    found = api.run(path, out=None).result.plain()["variants"][0]["serving"]
    assert found["slo"]["attainment"] > 0.9
    assert found["cpmt"]["total"]["low"] < found["cpmt"]["total"]["high"]


def test_its_links_lead_somewhere() -> None:
    for target in re.findall(r"\]\(([^)#]+)\)", README):
        assert (ROOT / target).is_file(), target
