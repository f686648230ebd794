"""`tools/structure`: finds cycles through lazy and type-only imports, and the package has none."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


@pytest.fixture
def structure(monkeypatch):
    monkeypatch.syspath_prepend(str(ROOT / "tools"))
    import structure

    return structure


def package(folder, files):
    """A package `p` of the given modules."""
    for name, text in {"__init__.py": "", **files}.items():
        path = folder / "p" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    return folder / "p"


def test_no_module_of_railyard_imports_itself_through_others(structure):
    graph = structure.import_graph(structure.modules(ROOT / "src" / "railyard"))
    assert len(graph) > 500
    assert structure.cycles(graph) == []


def test_lazy_and_type_only_imports_close_a_cycle(structure, tmp_path):
    files = {
        "a.py": "from p import b\n",
        "b.py": "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    from p.c import C\n",
        "c.py": "def f():\n    import p.a\n\nclass C: ...\n",
        "above.py": "from p.a import x\n",
        "below.py": "import os\n",
        "d.py": "from p.e import y\n",
        "e.py": "from p.d import z\nfrom p.below import w\nfrom p.a import x\n",
    }
    graph = structure.import_graph(structure.modules(package(tmp_path, files)))
    assert structure.cycles(graph) == [["p.a", "p.b", "p.c"], ["p.d", "p.e"]]
    del graph["p.c"], graph["p.d"]
    assert structure.cycles({name: below & graph.keys() for name, below in graph.items()}) == []


def test_counts_of_a_package(structure, tmp_path):
    body = "".join(f"    x{line} = {line}\n" for line in range(structure.LEAST_LINES))
    files = {
        "room/one.py": f"class Load: ...\n\nclass _Load: ...\n\ndef f(a: dict[str, Any]) -> None:\n{body}",
        "room/two.py": f"class Load: ...\n\nclass _Load: ...\n\ndef _f(a: dict[str, Any]) -> None:\n{body}",
        "three.py": "y: int = None  # type: ignore\n",
    }
    found = structure.counts(package(tmp_path, files))
    assert found["class_names_repeated"] == {"Load": ["p.room.one", "p.room.two"]}
    assert found["lines_by_room"] == {"__init__.py": 0, "room": 34, "three.py": 1}
    assert (found["lines"], found["duplicate_blocks"]) == (35, 1)
    assert (found["type_ignores"], found["loose_public_functions"], found["import_cycles"]) == (1, 1, [])


def test_the_table_names_every_count(structure, tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(
        sys, "argv", ["structure", str(package(tmp_path, {"a.py": "import p.b\n", "b.py": "import p.a\n"}))]
    )
    structure.main()
    assert "import cycles                         1" in capsys.readouterr().out.splitlines()


# Committed reference pages and types are what their sources give: a default that changes changes its page.

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
