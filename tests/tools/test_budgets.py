"""`tools/budgets`: a room that grows by more than a tenth fails, and so do unused code and idle indirection."""

import ast
import sys
from collections import Counter
from pathlib import Path

import pytest

from railyard.kit.registry import Registry

ROOT = Path(__file__).parents[2]


@pytest.fixture(autouse=True)
def tools(monkeypatch):
    monkeypatch.syspath_prepend(str(ROOT / "tools"))


def parsed(**modules):
    return {f"p.{name}": ast.parse(text) for name, text in modules.items()}


def test_a_tenth_more_is_accepted_and_no_line_above_it():
    import budgets

    assert budgets.problems({"lines of kit": 110}, {"lines of kit": 100}, {}) == []
    assert budgets.problems({"lines of kit": 111}, {"lines of kit": 100}, {}) == ["lines of kit: 111, budget 100"]
    assert budgets.problems({"lines of new": 1}, {}, {}) == ["lines of new: 1, budget 0"]
    assert budgets.problems({}, {}, {"unused name": ["p.a.f"]}) == ["unused name: p.a.f"]


def test_lowering_writes_what_fell_and_keeps_what_grew(tmp_path, monkeypatch):
    import budgets

    file = tmp_path / "budgets.toml"
    file.write_text('# why\nseams = ["p.x"]\n\n[budgets]\n"lines of kit" = 100\n')
    monkeypatch.setattr(budgets, "BUDGETS", file)
    budgets.lower({"files": 7, "lines of ask": 90, "lines of kit": 105}, {"lines of ask": 95, "lines of kit": 100})
    assert file.read_text() == (
        '# why\nseams = ["p.x"]\n\n[budgets]\n"files" = 7\n"lines of ask" = 90\n"lines of kit" = 100\n'
    )


def test_a_name_is_unused_when_it_stands_at_its_definition_alone():
    import unused

    trees = parsed(
        a="LIMIT = 3\nRECORD = seam.add('x', 1)\ndef called(): ...\n"
        "def idle(): ...\n@seam.register('y')\ndef made(): ...\n",
        b="class Load:\n    def used(self): ...\n    def idle_too(self): ...\n    def __eq__(self, other): ...\n",
    )
    used = Counter({"LIMIT": 1, "called": 2, "idle": 1, "Load": 2, "used": 3, "idle_too": 1})
    assert unused.unused_names(trees, used) == ["p.a.LIMIT", "p.a.idle", "p.b.Load.idle_too"]


def test_tests_are_no_users(tmp_path):
    import unused

    for folder in ("src", "tests", "docs"):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "x.py").write_text("name")
    found = {path.parent.name for path in unused.users(tmp_path)}
    assert found == {"src", "docs"}
    assert unused.words(unused.users(tmp_path)) == {"name": 2}


def test_a_function_that_only_forwards_is_found():
    import unused

    trees = parsed(
        a="def f(x, y):\n    '''Doc.'''\n    return g(x, y)\n",
        b="def f(x, y):\n    return g(y, x)\n",
        c="def f(x, y):\n    return g(x, y, 1)\n",
        d="def f(x, *, y):\n    return g(x, y=y)\n",
        e="def f():\n    return g()\n",
        h="@made\ndef f(x):\n    return g(x)\n",
    )
    assert unused.forwarders(trees, Counter({"f": 2})) == ["p.a.f", "p.d.f"]
    assert unused.forwarders(trees, Counter({"f": 3})) == []


def test_registries_of_two_records_are_found(monkeypatch):
    import unused

    module = type(sys)("made_for_a_test")
    module.two, module.three = Registry("two"), Registry("three")
    for count, registry in ((2, module.two), (3, module.three)):
        for number in range(count):
            registry.add(f"record {number}", number)
    monkeypatch.setitem(sys.modules, "made_for_a_test", module)
    assert unused.small_registries(["made_for_a_test"]) == ["made_for_a_test.two"]
