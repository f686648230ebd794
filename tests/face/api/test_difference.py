"""`railyard diff`: hand-made pairs with known differences, runs of which one key was changed, and bad input."""

from __future__ import annotations

import copy
import json
from typing import TYPE_CHECKING, Any

import pytest

import railyard
from railyard.face.api.difference import difference
from railyard.face.api.figures import Document, read
from railyard.face.cli import guard
from railyard.measure.result.answers import DiffAnswer
from railyard.measure.result.section import flatten

if TYPE_CHECKING:
    from pathlib import Path


def _source(item: str, field: str, value: str, source: str = "list of A, 2024") -> dict[str, Any]:
    return {"item": item, "field": field, "value": value, "source": source, "year": 2024, "confidence": "high"}


def _time(cause: str, group: str, seconds: float) -> dict[str, Any]:
    return {"cause": cause, "group": group, "phase": "", "seconds": seconds, "share": 0.0}


OLD: dict[str, Any] = {
    "format": "railyard/result-1",
    "name": "job",
    "scenario": {"cluster": {"accelerators": 64, "server": "hgx-h100"}, "seed": 1},
    "provenance": {
        "version": "0.0.9",
        "engine": "flow",
        "seed": 1,
        "defaults": ["micro-batch: 1", "storage: none"],
        "sources": [
            _source("h100-sxm", "price", "25000"),
            _source("h100-sxm", "power", "700 W"),
            _source("megatron", "constants", "gemm=0.8, attention=0.6", "fit"),
        ],
    },
    "verdict": {"leading": "ideal"},
    "variants": [
        {
            "name": "roce",
            "layout": "TP 2 DP 32",
            "step": {"seconds": 10.0},
            "cpmt": {"typical": 0.05},
            "bottleneck": {"name": "NIC rate"},
            "time": [_time("compute", "", 6.0), _time("bandwidth", "dp", 3.0), _time("contention", "dp", 1.0)],
        }
    ],
}


def _new() -> dict[str, Any]:
    """What a later version gives: 2 s less exposed, a tax, another layout's form, other prices and constants."""
    new = copy.deepcopy(OLD)
    new["scenario"]["cluster"]["server"] = "hgx-h200"
    new["provenance"] |= {"version": "0.1.0", "defaults": ["micro-batch: 2", "storage: none"]}
    prices = new["provenance"]["sources"]
    prices[0] |= {"value": "30000", "source": "list of B, 2026"}
    prices[2] |= {"value": "gemm=0.8, attention=0.7"}
    new["verdict"] = {"leading": "roce", "bound": "ideal"}
    variant = new["variants"][0]
    variant["layout"] = {"words": "TP 4 DP 16", "parallelism": {"tp": 4}}
    variant["step"]["seconds"] = 8.0
    variant["cpmt"]["typical"] = 0.05001  # a change by 0.02 %: rounding
    variant["tax"] = {"tokens_lost": 0.25}
    variant["time"] = [_time("contention", "dp", 0.5), _time("bandwidth", "dp", 1.5), _time("compute", "", 6.0)]
    return new


def compared(old: dict[str, Any], new: dict[str, Any]) -> DiffAnswer:
    return difference(*(Document(name, dict(flatten(each))) for name, each in (("old", old), ("new", new))))


@pytest.fixture(scope="module")
def found() -> DiffAnswer:
    return compared(OLD, _new())


def test_the_first_line_has_the_figure_its_change_and_where_the_time_went(found: DiffAnswer) -> None:
    assert found.conclusion == (
        "Leading variant ideal -> roce; step 10.0 -> 8.00 s (-20.0 %): exposed communication -2.00 s;"
        " compute unchanged; not in OLD: network tax."
    )


def test_figures_that_moved_by_less_than_rounding_are_not_listed(found: DiffAnswer) -> None:
    assert [(row.path, row.old, row.new, row.change, row.share) for row in found.figures] == [
        ("step.seconds", 10.0, 8.0, -2.0, -0.2)
    ]
    assert found.differ > len(found.figures)


def test_a_figure_that_only_one_result_has_is_named_with_the_side_that_lacks_it(found: DiffAnswer) -> None:
    (row,) = found.one_sided
    assert (row.path, row.old, row.new, row.absent) == ("tax.tokens_lost", None, 0.25, True)
    back = compared(_new(), OLD)
    assert back.conclusion.endswith("; not in NEW: network tax.")
    assert back.one_sided[0].old == 0.25


def test_a_figure_that_is_null_is_not_called_absent() -> None:
    new = _new() | {"variants": [{**_new()["variants"][0], "cpmt": {"typical": None}}]}
    row = next(row for row in compared(OLD, new).one_sided if row.path == "cpmt.typical")
    assert (row.old, row.new, row.absent) == (0.05, None, False)


def test_parts_of_the_step_are_matched_by_name_and_add_up(found: DiffAnswer) -> None:
    changes = {row.part: row.change for row in found.parts}
    assert changes == {"bandwidth (dp)": -1.5, "contention (dp)": -0.5}
    assert sum(changes.values()) == pytest.approx(8.0 - 10.0)


def test_kernels_that_communication_slows_are_not_counted_as_compute() -> None:
    """10 % of 10 s, then 5 % of 9.5 s are slowed kernels; the rest of 6 s and of 5.5 s is compute itself."""
    old, new = copy.deepcopy(OLD), copy.deepcopy(OLD)
    old["variants"][0]["tax"] = {"slowed_kernels": 0.08, "scale_up": {"slowed_kernels": 0.02}}
    new["variants"][0]["tax"] = {"slowed_kernels": 0.04, "scale_up": {"slowed_kernels": 0.01}}
    new["variants"][0]["step"] = {"seconds": 9.5}
    new["variants"][0]["time"][0]["seconds"] = 5.5
    rows = {row.part: (row.old, row.new) for row in compared(old, new).parts}
    assert rows["kernels slowed by communication"] == pytest.approx((1.0, 0.475))
    assert rows["compute"] == pytest.approx((5.0, 5.025))


def test_causes_name_inputs_prices_with_sources_constants_choices_and_layouts(found: DiffAnswer) -> None:
    assert {(row.kind, row.what, row.old, row.new) for row in found.causes} == {
        ("version", "version", "0.0.9", "0.1.0"),
        ("scenario", "cluster.server", "hgx-h100", "hgx-h200"),
        ("catalogue", "h100-sxm: price", "25000 (list of A, 2024, 2024)", "30000 (list of B, 2026, 2024)"),
        ("software", "megatron: attention", "0.6", "0.7"),
        ("default", "micro-batch", "1", "2"),
        ("layout", "layout", "TP 2 DP 32", "TP 4 DP 16"),
    }


def test_where_no_input_differs_the_program_does() -> None:
    new = copy.deepcopy(OLD)
    new["variants"][0]["step"]["seconds"] = 11.0
    assert [(row.kind, row.what) for row in compared(OLD, new).causes] == [("program", "Railyard")]


def test_variants_under_other_names_are_paired_where_their_numbers_agree() -> None:
    new = _new()
    new["variants"][0]["name"] = "roce, tuned"
    assert {row.variant for row in compared(OLD, new).figures} == {"roce -> roce, tuned"}
    new["variants"].append(copy.deepcopy(OLD["variants"][0]) | {"name": "uec"})
    found = compared(OLD, new)
    assert "roce" in found.only_old
    assert {"roce, tuned", "uec"} <= set(found.only_new)
    assert found.conclusion == "The two results have no variant and no figure in common."


def test_a_result_and_itself_differ_in_nothing() -> None:
    found = compared(OLD, OLD)
    assert (found.figures, found.one_sided, found.parts, found.causes) == ((), (), (), ())
    assert found.differ == 0
    assert found.conclusion == "No figure moved: all values are equal."


def test_faults_are_called_what_they_are_and_those_of_one_name_by_their_time() -> None:
    one, two = {"what": "leaf 1 dies", "at_s": 0.5, "lost_s": 9.0}, {"what": "leaf 1 dies", "at_s": 7.5, "lost_s": 4.0}
    assert dict(flatten({"faults": [one]}))["faults[leaf 1 dies].lost_s"] == 9.0
    assert dict(flatten({"faults": [one, two]}))["faults[leaf 1 dies, 7.5].lost_s"] == 4.0
    new = copy.deepcopy(OLD)
    new["variants"][0]["faults"] = [one]
    assert compared(OLD, new).one_sided[0].figure == "lost to leaf 1 dies"


def test_designs_of_plans_are_compared_by_their_objectives() -> None:
    old = {"format": "railyard-plan/1", "best": "a", "front": [{"variant": "a", "objectives": {"cpmt": 0.05}}]}
    new = {"format": "railyard-plan/1", "best": "b", "front": [{"variant": "a", "objectives": {"cpmt": 0.06}}]}
    found = compared(old, new)
    assert found.conclusion == "Best design a -> b; cost per million tokens $0.0500 -> $0.0600 (+20.0 %)."


SCENARIO: dict[str, Any] = {
    "name": "changed",
    "cluster": {
        "accelerators": 16,
        "server": "hgx-h100",
        "back_end": {"topology": "leaf-spine", "fabric": "roce", "link_rate": "400 Gb/s"},
    },
    "workload": {
        "training": {
            "model": "llama-3-8b",
            "tokens": "1 T",
            "global_batch": 16,
            "sequence": 4096,
            "parallelism": {"tp": 1, "zero": 3, "micro_batch": 1},
        }
    },
}


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """Runs of a scenario with links of 400 and of 100 Gb/s."""
    slow = copy.deepcopy(SCENARIO)
    slow["cluster"]["back_end"]["link_rate"] = "100 Gb/s"
    folders = [railyard.run(each, out=tmp_path_factory.mktemp("runs")).folder for each in (SCENARIO, slow)]
    assert folders[0] is not None
    assert folders[1] is not None
    return folders[0], folders[1]


def called(capsys: pytest.CaptureFixture[str], *arguments: object) -> tuple[int, str, str]:
    code = guard.run(["diff", *map(str, arguments)])
    said = capsys.readouterr()
    return code, said.out, said.err


def test_a_changed_key_is_the_only_cause_and_the_parts_add_up_to_the_step(runs: tuple[Path, Path]) -> None:
    found = difference(*map(read, runs))
    assert [(row.what, row.old, row.new) for row in found.causes if row.kind == "scenario"] == [
        ("cluster.back_end.link_rate", "400 Gb/s", "100 Gb/s")
    ]
    assert not any(row.kind == "program" for row in found.causes)
    step = next(row for row in found.figures if row.path == "step.seconds")
    assert step.change > 0.0
    assert sum(row.change for row in found.parts) == pytest.approx(step.change, rel=0.02)


def test_the_table_begins_with_the_conclusion_and_json_validates(
    runs: tuple[Path, Path], capsys: pytest.CaptureFixture[str]
) -> None:
    code, text, _ = called(capsys, *runs)
    assert code == 0
    code, data, _ = called(capsys, *runs, "--json")
    answer = DiffAnswer.model_validate_json(data)
    assert (code, " ".join(text.partition("\n\n")[0].split())) == (0, answer.conclusion)
    assert "exposed communication +" in answer.conclusion
    assert called(capsys, *runs, "-q")[1] == answer.conclusion + "\n"
    assert called(capsys, runs[0] / "result.json", runs[1])[1] == text


def test_the_table_says_which_side_lacks_a_figure(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for name, document in (("old", OLD), ("new", _new())):
        (tmp_path / f"{name}.json").write_text(json.dumps(document), encoding="utf-8")
    _, text, _ = called(capsys, tmp_path / "old.json", tmp_path / "new.json")
    row = next(line for line in text.splitlines() if "network tax" in line and line.startswith("roce"))
    assert row.split("  ")[0] == "roce"
    assert "not in OLD" in row
    assert row.rstrip().endswith("25 %")


_NO_RESULT = "this is not a result of Railyard"


@pytest.mark.parametrize(
    ("name", "text", "said"),
    [
        ("missing.json", None, "there is no such run"),
        ("words.json", "words", "this is not complete JSON"),
        ("cut.json", '{"format": "railyard/result-1", "variants": [', "this is not complete JSON"),
        ("deep.json", "[" * 100_000, "this is not complete JSON"),
        ("list.json", "[1]", _NO_RESULT),
        ("other.json", '{"format": "other/1"}', _NO_RESULT),
        ("plan.json", '{"format": "railyard-plan/1"}', "these answer different kinds of questions"),
        ("scenario.yaml", "name: x", "this is a scenario, not a result"),
    ],
)
def test_bad_input_is_named_with_its_file(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], name: str, text: str | None, said: str
) -> None:
    (tmp_path / "good.json").write_text(json.dumps(OLD), encoding="utf-8")
    if text is not None:
        (tmp_path / name).write_text(text, encoding="utf-8")
    code, out, err = called(capsys, tmp_path / name, tmp_path / "good.json", "--json")
    assert (code, out) == (2, "")
    assert said in err
    assert name in err
