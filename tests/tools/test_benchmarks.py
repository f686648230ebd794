"""Benchmarks run, each at a size of seconds: one that nobody runs stops working unseen."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
sys.path.insert(0, str(ROOT / "benchmarks"))
import table  # noqa: E402 - a program and no package


@pytest.mark.parametrize("name", [name for name, case in table.CASES.items() if case.small is not None])
def test_a_benchmark_runs_at_a_small_size(name):
    case = table.CASES[name]
    if case.missing:
        pytest.skip(f"{case.needs} is not installed")
    assert table.used(ROOT, case.small or case.words).cpu_s > 0


def test_every_benchmark_is_in_the_table_at_a_small_size():
    files = {str(path.relative_to(ROOT)) for path in (ROOT / "benchmarks").rglob("*.py")} - {"benchmarks/table.py"}
    assert files == {(case.small or case.words)[0] for case in table.CASES.values() if case.small is not None} & files


def test_a_case_that_fails_is_named():
    with pytest.raises(RuntimeError, match="exit code 3"):
        table.used(ROOT, ("-c", "raise SystemExit(3)"))
    command = [sys.executable, "benchmarks/table.py", "help", "import", "--old", str(ROOT), "--pairs", "1"]
    found = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    rows = re.findall(r"^(help|import) +([0-9.]+) +([0-9.]+) +([0-9.]+)", found.stdout, re.MULTILINE)
    assert [row[0] for row in rows] == ["help", "import"]
    assert all(float(old) and float(new) and float(ratio) for _, old, new, ratio in rows)
