"""A kind of work is one folder: scenario section, builder, measures, result and presentation; a page view is one file.

The folder `drill` is installed as a package of its own, and used from the command line, Python and the page.
"""

from __future__ import annotations

import ast
import json
import shutil
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from tests.face.web.server import running
from tests.seams.shell import Shell

from railyard.kit.registry import VARIABLE

if TYPE_CHECKING:
    from collections.abc import Iterator

FOLDER = Path(__file__).parent / "drill"
SCENARIO = """\
name: fire
cluster: {accelerators: 16, server: hgx-h100, back_end: {topology: leaf-spine, fabric: roce}}
workload: {drill: {size: 1 GB}}
"""
VIEW = '''
"""Who gets the file when."""

from railyard.face.web.views import shown_result, view
from railyard.work.study.presentation import Sheet


@view("turns", "Whose turn it is", fits=lambda result: result.variants[0].kind == "drill")
def turns(question):
    """A row an accelerator."""
    variant = shown_result(question).variants[0]
    rows = [(str(rank), f"{rank * variant.drill.each_s:g} s") for rank in range(3)]
    return [Sheet(("accelerator", "from"), rows, "turns")]
'''
PYTHON = """
import railyard
run = railyard.run("fire.yaml", out=None)
print(run.result.variants[0].drill.seconds, list(run.tables))
print(run.explain())
"""


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """A user's folder with a scenario; the package and the view are installed."""
    site, plugins = tmp_path / "site", tmp_path / "plugins"
    shutil.copytree(FOLDER, site / "railyard_drill")
    about = site / "railyard_drill-1.dist-info"
    about.mkdir()
    (about / "METADATA").write_text("Metadata-Version: 2.1\nName: railyard-drill\nVersion: 1\n")
    (about / "entry_points.txt").write_text("[railyard.plugins]\ndrill = railyard_drill\n")
    plugins.mkdir()
    (plugins / "turns.py").write_text(VIEW)
    monkeypatch.setenv("PYTHONPATH", str(site))
    monkeypatch.setenv(VARIABLE, str(plugins))
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "fire.yaml").write_text(SCENARIO)
    return tmp_path / "mine"


def test_one_folder_adds_a_kind_of_work(folder):
    """1 GB over 400 Gb/s takes 20 ms, 16 times 320 ms; over 200 Gb/s twice as long."""
    with Shell(folder) as shell:
        compared = shell.railyard("compare", "fire.yaml", "--vary", "workload.drill.size=1 GB,2 GB")
        document = json.loads(shell.railyard("run", "fire.yaml", "--out", "alone", "--json", "-q"))
        wrong = shell.refused("run", "fire.yaml", "--set", "workload.drill.sise=2")
        other = shell.refused("run", "fire.yaml", "--set", "workload.trace=x.cm")
        schema = json.loads(shell.railyard("schema"))
        said = shell.python("-c", PYTHON).splitlines()
    assert "0.32 s" in compared
    assert "0.64 s" in compared
    assert "The last one has it after 0.32 s." in compared
    assert document["variants"][0]["drill"] == {"seconds": pytest.approx(0.32), "each_s": pytest.approx(0.02)}
    (written,) = folder.glob("alone/fire-*/**/drill.txt")
    assert float(written.read_text()) == pytest.approx(0.32)
    assert "did you mean `size`" in wrong
    assert "`drill`" in other
    assert "drill" in schema["$defs"]["WorkloadSection"]["properties"]
    assert said == ["0.32 ['variants', 'sources']", "The last one has it after 0.32 s."]


def test_one_file_adds_a_view_and_the_page_shows_both(folder):
    with Shell(folder) as shell:
        shell.railyard("run", "fire.yaml", "-q")
    with running(folder) as server:
        (row,) = server.ask("GET", "/runs")
        assert row["sentence"] == "The last one has it after 0.32 s."
        run = row["run"]
        assert server.ask("GET", f"/runs/{run}/views") == [
            {"name": "tables", "title": "As tables"},
            {"name": "turns", "title": "Whose turn it is"},
        ]
        (table,) = server.ask("GET", f"/runs/{run}/views/tables")
        assert table["rows"] == [["fire", "0.32 s", "0.02 s"]]
        assert server.ask("GET", f"/runs/{run}/views/turns") == [
            {
                "title": "turns",
                "headings": ["accelerator", "from"],
                "rows": [["0", "0 s"], ["1", "0.02 s"], ["2", "0.04 s"]],
                "right": [1],
            }
        ]
    files = list((folder.parent / "plugins").rglob("*.py"))
    assert len(files) == 1, "two where the page draws it: `frontend/src/ui/pages/turns.tsx`"


SOURCES = Path(__file__).parents[2] / "src" / "railyard"
VERBS = ("ask", "face/verbs")
"""A verb says for which work it is; all else asks the record of the kind, or its variant."""


def questions(tree: ast.Module, kinds: set[str]) -> Iterator[tuple[str, str]]:
    """Kind and code of each `isinstance(x, TraceVariant)`, `x.kind == "trace"` and `workload.trace` of a module."""
    for node in ast.walk(tree):
        found: set[str] = set()
        match node:
            case ast.Call(func=ast.Name(id="isinstance"), args=[_, types]):
                names = [one.id for one in ast.walk(types) if isinstance(one, ast.Name)]
                found = {name.removesuffix("Variant").lower() for name in names if name.endswith("Variant")}
            case ast.Compare(left=left, comparators=others):
                if any(isinstance(one, ast.Attribute) and one.attr == "kind" for one in (left, *others)):
                    found = {one.value for one in ast.walk(node) if isinstance(one, ast.Constant)}
            case ast.Attribute(value=ast.Attribute(attr="workload"), attr=kind):
                found = {kind}
        yield from ((kind, ast.unparse(node)) for kind in kinds & found)


def test_nothing_outside_a_kind_asks_which_kind_it_is():
    kinds = {path.parent.name for path in SOURCES.glob("work/*/kind.py")} - {"study"}
    assert {"training", "serving", "trace", "pipeline", "jobs"} <= kinds
    asked = []
    for path in sorted(SOURCES.rglob("*.py")):
        place = path.relative_to(SOURCES).as_posix()
        own = place.split("/")[1] if place.startswith("work/") else ""
        if not place.startswith(VERBS):
            found = questions(ast.parse(path.read_text(encoding="utf-8")), kinds - {own})
            asked += [f"{place}: {code}" for _, code in found]
    assert asked == []


@pytest.mark.parametrize(
    "code", ["isinstance(x, A | TraceVariant)", "x.y.kind != 'trace'", "z.kind in ('a', 'trace')", "x.workload.trace"]
)
def test_the_scan_sees_every_way_to_ask(code):
    assert [kind for kind, _ in questions(ast.parse(code), {"trace", "serving"})] == ["trace"]
