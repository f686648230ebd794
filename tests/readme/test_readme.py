"""The README's Python block runs, and the commands that it names exist."""

import re
from pathlib import Path

from typer.main import get_command

from railyard.cli.app import app

ROOT = Path(__file__).parents[2]
README = (ROOT / "README.md").read_text(encoding="utf-8")


def test_its_python_runs(monkeypatch) -> None:
    monkeypatch.chdir(ROOT)
    (block,) = re.findall(r"```python\n(.*?)```", README, re.DOTALL)
    names: dict[str, object] = {}
    exec(compile(block, "README.md", "exec"), names)
    assert abs(names["shares"]["share"].sum() - len(names["run"].variants)) < 1e-6


def test_its_commands_exist() -> None:
    known = get_command(app).commands
    named = set(re.findall(r"^railyard (\w+)", README, re.MULTILINE))
    assert named
    assert named <= set(known)


def test_its_scenario_is_read(tmp_path) -> None:
    from railyard.scenario.load import load

    (block,) = re.findall(r"```yaml\n(.*?)```", README, re.DOTALL)
    path = tmp_path / "mine.yaml"
    path.write_text(block)
    assert load(path).scenario.cluster.accelerators == 1024


def test_its_links_lead_somewhere() -> None:
    for target in re.findall(r"\]\(([^)#]+)\)", README):
        assert (ROOT / target).is_file(), target
