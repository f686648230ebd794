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


# `tools/same-answers` lets nothing pass that differs, however little, unless an exception with its reason
# says so.

TOOL = Path(__file__).parents[2] / "tools" / "same-answers"
LEAVES = {
    "exit": 0,
    "variants[0].step.seconds": 1.501440214921,
    "variants[0].name": "roce",
    "bottleneck.headline": "1.25 x FLOPS shortens the step by 17.7 %",
    "timeline.parquet:start_ps": "sha256:ab12",
    "empty": math.nan,
}


@pytest.fixture
def compared(tmp_path):
    def compare(new, exceptions="[]", *, old=LEAVES, more=()):
        files = tmp_path / "old.json", tmp_path / "new.json", tmp_path / "exceptions.yaml"
        files[0].write_text(json.dumps({"name": "run a.yaml", "leaves": old}) + "\n")
        files[1].write_text("".join(json.dumps({"name": name, "leaves": new[name]}) + "\n" for name in new))
        files[2].write_text(exceptions)
        found = subprocess.run(
            [TOOL, *files[:2], "--exceptions", files[2], *more], capture_output=True, text=True, check=False
        )
        return found.returncode, found.stdout + found.stderr

    return compare


def changed(**leaves):
    return {"run a.yaml": LEAVES | {key.replace("__", "."): value for key, value in leaves.items()}}


def test_the_same_is_the_same(compared):
    code, text = compared(changed())
    assert code == 0
    assert "6 equal  0 reworded  0 changed  0 missing" in text


@pytest.mark.parametrize(
    ("leaf", "value"),
    [
        ("variants[0].step.seconds", math.nextafter(1.501440214921, 2)),
        ("variants[0].name", "Roce"),
        ("bottleneck.headline", "1.25 x FLOPS shortens the step by 17.8 %"),
        ("timeline.parquet:start_ps", "sha256:ab13"),
        ("exit", False),
        ("empty", 0.0),
    ],
)
def test_the_last_digit_counts(compared, leaf, value):
    code, text = compared({"run a.yaml": LEAVES | {leaf: value}})
    assert code == 1
    assert f"changed {leaf}: {LEAVES[leaf]!r} -> {value!r}" in text


def test_a_leaf_or_a_command_that_is_gone_counts(compared):
    without = {leaf: value for leaf, value in LEAVES.items() if leaf != "exit"}
    code, text = compared({"run a.yaml": without})
    assert (code, "missing exit: 0 -> nothing" in text) == (1, True)
    code, text = compared({"run b.yaml": LEAVES})
    assert (code, "missing (the command)" in text, "new command: run b.yaml" in text) == (1, True, True)
    assert compared({"run b.yaml": LEAVES}, more=["--both"])[0] == 0


def test_new_leaves_other_words_and_another_type_of_number_pass(compared):
    said = "The step is 17.7% shorter"
    code, text = compared(changed(added=3, exit=0.0), old=LEAVES)
    assert (code, "1 new" in text) == (0, True)
    code, text = compared({"run a.yaml": LEAVES | {"note": "17.7% off the step"}}, old=LEAVES | {"note": said})
    assert (code, "1 reworded" in text) == (0, True)


def test_an_exception_covers_its_leaves_and_no_others(compared):
    rule = '[{entry: "run *", leaf: "variants[[0].step.*", reason: a finer clock}]'.replace("[[", "[")
    assert compared({"run a.yaml": LEAVES | {"variants[0].step.seconds": 1.5}}, rule)[0] == 0
    assert compared({"run a.yaml": LEAVES | {"variants[0].name": "uec"}}, rule)[0] == 1


def test_what_was_renamed_is_compared_under_its_new_name(compared):
    moved = {leaf.replace("timeline", "record"): value for leaf, value in LEAVES.items()}
    code, text = compared({"run a.yaml": moved})
    assert (code, "the same stands in record.parquet:start_ps" in text) == (1, True)
    rule = '[{entry: "*", renamed: "timeline.parquet -> record.parquet", reason: one format}]'
    assert compared({"run a.yaml": moved}, rule)[0] == 0
    assert compared({"run a.yaml": moved | {"record.parquet:start_ps": "sha256:0"}}, rule)[0] == 1
    command = '[{entry: "run a.yaml", command: "run b.yaml", reason: the example has another name}]'
    assert compared({"run b.yaml": LEAVES}, command)[0] == 0


def test_an_exception_without_a_reason_is_refused(compared):
    code, text = compared(changed(), '[{entry: "*", leaf: "*"}]')
    assert code == 1
    assert "expected entry, reason" in text


@pytest.mark.parametrize(("factor", "code"), [(1 + 9e-7, 0), (1 + 1.2e-6, 1)])
def test_an_exception_may_bound_how_far_a_number_moves(compared, factor, code):
    value = LEAVES["variants[0].step.seconds"] * factor
    exceptions = '- {entry: "run *", leaf: "*", within: 1e-6, reason: each has its network}'
    new = LEAVES | {"variants[0].step.seconds": value, "timeline.parquet:start_ps": "sha256:ab13"}
    assert compared({"run a.yaml": new}, exceptions)[0] == code
