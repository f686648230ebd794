"""Benchmarks run, each at a size of seconds: one that nobody runs stops working unseen."""

import re
import runpy
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
sys.path.insert(0, str(ROOT / "benchmarks"))
import table  # noqa: E402 - a program and no package

SMALL = {name: case.small or case.words for name, case in table.CASES.items() if case.small is not None}
FILES = {words[0]: name for name, words in reversed(SMALL.items()) if words[0].endswith(".py")}
"""A case of each file."""


@pytest.mark.filterwarnings("default")
@pytest.mark.parametrize("file", FILES)
def test_a_file_of_benchmarks_runs_at_a_small_size(file, tmp_path, monkeypatch):
    """In this process, which has imported already what each of them needs."""
    if table.CASES[FILES[file]].missing:
        pytest.skip(f"{table.CASES[FILES[file]].needs} is not installed")
    monkeypatch.chdir(ROOT)
    monkeypatch.syspath_prepend((ROOT / file).parent)
    monkeypatch.setattr(
        sys, "argv", [word.format(out=tmp_path) if word == "{out}" else word for word in SMALL[FILES[file]]]
    )
    code = 0
    try:
        runpy.run_path(str(ROOT / file), run_name="__main__")
    except SystemExit as ended:
        code = ended.code
    assert not code


@pytest.mark.slow
@pytest.mark.parametrize("name", SMALL)
def test_a_benchmark_runs_at_a_small_size(name):
    case = table.CASES[name]
    if case.missing:
        pytest.skip(f"{case.needs} is not installed")
    assert table.used(ROOT, case.small or case.words).cpu_s > 0


def test_every_benchmark_is_in_the_table_at_a_small_size():
    files = {str(path.relative_to(ROOT)) for path in (ROOT / "benchmarks").rglob("*.py")} - {"benchmarks/table.py"}
    assert files == set(FILES)


def test_a_case_that_fails_is_named():
    with pytest.raises(RuntimeError, match="exit code 3"):
        table.used(ROOT, ("-c", "raise SystemExit(3)"))
    command = [sys.executable, "benchmarks/table.py", "help", "import", "--old", str(ROOT), "--pairs", "1"]
    found = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    rows = re.findall(r"^(help|import) +([0-9.]+) +([0-9.]+) +([0-9.]+)", found.stdout, re.MULTILINE)
    assert [row[0] for row in rows] == ["help", "import"]
    assert all(float(old) and float(new) and float(ratio) for _, old, new, ratio in rows)
