"""The README: its Python and scenarios run, its links lead somewhere. Commands: `tests/tools/test_transcripts.py`."""

import re
from pathlib import Path

from railyard.face import api
from railyard.work.scenario.load import load

ROOT = Path(__file__).parents[2]
README = (ROOT / "README.md").read_text(encoding="utf-8")


def test_its_python_runs(monkeypatch) -> None:
    monkeypatch.chdir(ROOT)
    (block,) = re.findall(r"```python\n(.*?)```", README, re.DOTALL)
    names: dict[str, object] = {}
    exec(compile(block, "README.md", "exec"), names)
    assert abs(names["shares"]["share"].sum() - len(names["run"].variants)) < 1e-6


def test_its_scenarios_run(tmp_path) -> None:
    training, serving = re.findall(r"```yaml[^\n]*\n(.*?)```", README, re.DOTALL)
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


def test_every_page_is_in_the_navigation() -> None:
    pages = {str(path.relative_to(ROOT / "docs")) for path in (ROOT / "docs").rglob("*.md")}
    listed = re.findall(r"[\w/-]+\.md", (ROOT / "mkdocs.yml").read_text(encoding="utf-8"))
    assert sorted(listed) == sorted(pages)
