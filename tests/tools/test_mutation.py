"""Faults that `tools/mutate` puts into code, and the tests that it chooses for them."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


@pytest.fixture(autouse=True)
def tools(monkeypatch):
    monkeypatch.setattr(sys, "path", [str(ROOT / "tools"), *sys.path])


PYTHON = b'''"""Docs of 3 lines."""
LIMIT: int = 7
def least(a, b):
    if a <= b and not a is None:
        raise ValueError("of 12" + str(a - 1))
    return max(a * 2.5, key=b)
'''


def changed(found, text):
    return {
        (fault.kind, fault.line, fault.applied(text).splitlines()[fault.line - 1].strip().decode()) for fault in found
    }


def test_faults_in_python():
    from mutation.python_faults import python_faults

    assert changed(python_faults("a.py", PYTHON), PYTHON) == {
        ("constant", 2, "LIMIT: int = 8"),
        ("logic", 4, "if (a <= b or not a is None):"),
        ("boundary", 4, "if (a < b) and not a is None:"),
        ("comparison", 4, "if (a > b) and not a is None:"),
        ("sign", 4, "if a <= b and (a is None):"),
        ("comparison", 4, "if a <= b and not (a is not None):"),
        ("return", 6, "return None"),
        ("swap", 6, "return (min(a * 2.5, key=b))"),
        ("argument left out", 6, "return (max(a * 2.5))"),
        ("operator", 6, "return max((a / 2.5), key=b)"),
        ("constant", 6, "return max(a * 2.75, key=b)"),
    }


CPP = b"""#include <vector>  // 3
template <int kSize = 4>
std::vector<int> least(const Rate& a, int b) {  /* 5 < 6 */
  if (a.ps <= b * 1'000 && !b) return {"12 < 13"};
  return std::max(a, 0.5) + '7' + 2'000'000;
}
"""


def test_faults_in_cpp():
    from mutation.cpp_faults import cpp_faults

    assert changed(cpp_faults("a.cpp", CPP), CPP) == {
        ("boundary", 4, 'if (a.ps < b * 1\'000 && !b) return {"12 < 13"};'),
        ("comparison", 4, 'if (a.ps > b * 1\'000 && !b) return {"12 < 13"};'),
        ("operator", 4, 'if (a.ps <= b / 1\'000 && !b) return {"12 < 13"};'),
        ("constant", 4, 'if (a.ps <= b * 1100 && !b) return {"12 < 13"};'),
        ("logic", 4, 'if (a.ps <= b * 1\'000 || !b) return {"12 < 13"};'),
        ("sign", 4, 'if (a.ps <= b * 1\'000 && b) return {"12 < 13"};'),
        ("swap", 5, "return std::min(a, 0.5) + '7' + 2'000'000;"),
        ("constant", 5, "return std::max(a, 0.55) + '7' + 2'000'000;"),
        ("operator", 5, "return std::max(a, 0.5) - '7' + 2'000'000;"),
        ("operator", 5, "return std::max(a, 0.5) + '7' - 2'000'000;"),
        ("constant", 5, "return std::max(a, 0.5) + '7' + 2200000;"),
    }


def test_tests_that_import_a_module_come_before_those_that_only_reach_it(tmp_path):
    from mutation.choosing import files_for

    files = {
        "src/railyard/__init__.py": "",
        "src/railyard/_core.pyi": "",
        "src/railyard/low/__init__.py": "from railyard.low.inner import point\n",
        "src/railyard/low/inner.py": "from railyard._core import run\n",
        "src/railyard/high.py": "if 1:\n    from railyard.low import point\n",
        "src/railyard/seam/__init__.py": "from railyard.seam.one import ONE\n",
        "src/railyard/seam/one.py": "ONE = Registry('seam', package=\"railyard.seam\")\n",
        "src/railyard/seam/two.py": "",
        "tests/c/test_seam.py": "from railyard.seam import ONE\n",
        "src/railyard/apart.py": "if TYPE_CHECKING:\n    from railyard.low import inner\n",
        "src/railyard/face/__init__.py": "",
        "src/railyard/face/cli.py": "",
        "tests/d/test_commands.py": "from railyard.face import cli\n",
        "tests/a/test_far.py": "from railyard import high\n",
        "tests/b/test_near.py": "from railyard.low import point\n",
        "tests/c/test_other.py": "from railyard import apart\n",
    }
    for name, text in files.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    commands = "tests/d/test_commands.py"  # may reach anything by its name
    near_first = ["tests/b/test_near.py", "tests/a/test_far.py", commands]
    assert files_for(tmp_path, "src/railyard/low/inner.py") == near_first
    assert files_for(tmp_path, "cpp/src/run.cpp") == near_first
    assert files_for(tmp_path, "src/railyard/apart.py") == ["tests/c/test_other.py", commands]
    assert files_for(tmp_path, "src/railyard/seam/two.py") == ["tests/c/test_seam.py", commands]
    assert files_for(tmp_path, "src/railyard/low/by_name.py") == near_first
    assert files_for(tmp_path, "src/railyard/seam/__init__.py") == ["tests/c/test_seam.py", commands]
