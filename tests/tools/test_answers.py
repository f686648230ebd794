"""`tools/answers`: exact leaves, columns hashed by value, nothing run twice, and a list that leaves no example out."""

import json
import math
import stat
import subprocess
import sys
from pathlib import Path

import polars as pl
import pytest

ROOT = Path(__file__).parents[2]
TOOLS = ROOT / "tools"


@pytest.fixture
def tools(monkeypatch):
    monkeypatch.syspath_prepend(str(TOOLS))
    import answers_leaves
    import answers_list

    return answers_leaves, answers_list


def test_leaves_are_exact_and_volatile_ones_are_left_out(tools):
    found = dict(tools[0].flatten({"a": [{"b": 0.1 + 0.2}, None], "cpu_s": 3.1, "c": [], "long": list(range(20))}))
    assert found["a[0].b"] == 0.30000000000000004
    assert found.keys() == {"a[0].b", "a[1]", "c", "long"}
    other = dict(tools[0].flatten({"long": [*range(19), 20]}))
    assert found["long"].startswith("20 values sha256:")
    assert found["long"] != other["long"]


def test_a_column_is_hashed_by_its_values(tools):
    digest = tools[0].digest
    wide, narrow = pl.Series([1, 2, 9], dtype=pl.Int64), pl.Series([1, 2, 9], dtype=pl.UInt16)
    assert digest(wide) == digest(narrow)
    assert digest(wide) != digest(pl.Series([1, 2, 10]))
    assert digest(pl.Series([0, 1])) != digest(pl.Series([None, 1]))
    assert digest(pl.Series([0.1])) != digest(pl.Series([math.nextafter(0.1, 1)]))
    assert digest(pl.Series(["a", "b"])) != digest(pl.Series(["ab", ""]))


def test_a_folder_gives_a_leaf_a_column_whatever_the_folder_is_called(tools, tmp_path):
    for name in ("first-1234", "first-5678"):
        (tmp_path / name / name / "variants").mkdir(parents=True)
        pl.DataFrame({"start_ps": [3, 5]}).write_parquet(tmp_path / name / name / "variants" / "t.parquet")
        (tmp_path / name / name / "report.html").write_text(name)
    one, other = (dict(tools[0].of_folder(tmp_path / name)) for name in ("first-1234", "first-5678"))
    assert one == other
    assert one.keys() == {"variants/t.parquet:rows", "variants/t.parquet:start_ps"}


def test_every_example_is_in_the_list(tools):
    listed = " ".join(command.name for command in tools[1].commands(ROOT))
    installed = {ROOT / "examples/plugin/star.yaml"}  # needs its plugin
    files = set((ROOT / "examples").rglob("*.yaml")) - installed
    missing = [path.name for path in files if path.relative_to(ROOT).as_posix() not in listed]
    assert not missing
    names = [command.name for command in tools[1].commands(ROOT)]
    assert len(names) == len(set(names))
    assert sum("quick" in command.tags for command in tools[1].commands(ROOT)) > 30


@pytest.fixture
def fake(tmp_path):
    """A command line in the place of Railyard's: counts its calls, and gives a number that a file holds."""
    (tmp_path / "value").write_text("1.25")
    tool = tmp_path / "railyard"
    tool.write_text(
        f"#!{sys.executable}\nimport pathlib, sys\nhere = pathlib.Path({str(tmp_path)!r})\n"
        "(here / 'calls').open('a').write(' '.join(sys.argv[1:]) + '\\n')\n"
        'print(\'{"gpu": \' + (here / "value").read_text() + \', "cpu_s": 1, "file": "\' + sys.argv[2] + \'"}\')\n'
    )
    tool.chmod(tool.stat().st_mode | stat.S_IXUSR)
    return tool


def test_it_goes_on_where_it_stopped(fake, tmp_path):
    file = tmp_path / "answers.json"
    command = [TOOLS / "answers", file, "--python", fake, "--only", "validate memory *"]
    for _ in range(2):
        subprocess.run(command, check=True, capture_output=True)
    (line,) = map(json.loads, file.read_text().splitlines())
    assert line["leaves"] == {"exit": 0, "stdout.gpu": 1.25, "stdout.file": "memory"}
    assert len((tmp_path / "calls").read_text().splitlines()) == 1


def test_another_last_digit_fails(fake, tmp_path):
    files = tmp_path / "old.json", tmp_path / "new.json"
    for file, value in zip(files, ("1.25", "1.2500000000000002"), strict=True):
        (tmp_path / "value").write_text(value)
        command = [TOOLS / "answers", file, "--python", fake, "--only", "validate memory *"]
        subprocess.run(command, check=True, capture_output=True)
    found = subprocess.run([TOOLS / "same-answers", *files], capture_output=True, text=True, check=False)
    assert found.returncode == 1
    assert "changed stdout.gpu: 1.25 -> 1.2500000000000002" in found.stdout
