"""`tools/same-answers` lets nothing pass that differs, however little, unless an exception with its reason says so."""

import json
import math
import subprocess
from pathlib import Path

import pytest

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
