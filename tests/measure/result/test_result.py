"""The models of a result: what a run writes comes back as it was, and nothing else is taken for one."""

from __future__ import annotations

import json
from pathlib import Path

import jsonschema
import pytest

import railyard
from railyard.kit.errors import InputError
from railyard.measure.result.reading import FORMAT, STEPS, Result, result_from
from railyard.measure.result.variants import variants
from railyard.work.study.kind import kinds

CLUSTER = {"accelerators": 32, "server": "hgx-h100", "back_end": {"topology": "rail-optimized", "fabric": "roce"}}
STEP = {"model": "llama-3.1-8b", "sequence": 2048, "global_batch": 16, "parallelism": {"tp": 8, "dp": 4}}
TRAINING = {
    "name": "steps",
    "cluster": CLUSTER,
    "workload": {"training": {**STEP, "communication": {"compression": "powersgd"}}},
    "compare": {"vary": {"fabric": ["roce", "ideal"]}},
}
SERVING = {
    "name": "requests",
    "cluster": CLUSTER,
    "workload": {
        "serving": {
            "model": "llama-3.1-8b",
            "requests": {"synthetic": {"rate": 20, "input": 500, "output": 40, "count": 60}},
            "pools": {"both": {"replicas": 2, "tp": 8}},
            "capacity": {"first": 30, "tolerance": 0.5},
        }
    },
}


TRACE = {
    "name": "trace",
    "cluster": CLUSTER,
    "workload": {
        "trace": {"ranks_per_server": 4, "file": str(Path(__file__).parents[3] / "examples" / "traces" / "ring.goal")}
    },
}


@pytest.fixture(scope="module", params=[TRAINING, SERVING, TRACE], ids=["training", "serving", "trace"])
def text(request, tmp_path_factory):
    """The bytes of a `result.json`."""
    run = railyard.run(request.param, out=tmp_path_factory.mktemp("runs"))
    return (run.folder / "result.json").read_text(encoding="utf-8")


def test_a_result_is_read_and_written_as_it_was(text):
    read = result_from(text)
    assert json.loads(read.text()) == json.loads(text)
    assert result_from(read.text()).text() == read.text()


def test_a_path_into_the_file_is_a_path_into_the_result(text):
    result, stored = result_from(text), json.loads(text)
    assert result["variants"][0] == result.variants[0].plain() == stored["variants"][0]
    with pytest.raises(KeyError, match="variant"):
        result["variant"]


def test_the_published_schema_accepts_what_runs_write(text):
    jsonschema.Draft202012Validator(Result.model_json_schema()).validate(json.loads(text))


@pytest.mark.parametrize(
    ("change", "key", "message"),
    [
        (lambda result: result["provenance"].update(seed="7"), "result.provenance.seed", "valid integer"),
        (lambda result: result["provenance"].pop("engine"), "result.provenance.engine", "the key is missing"),
        (lambda result: result.update(speed=1), "result.speed", "there is no such key"),
        (lambda result: result["variants"][0].update(name=3), "result.variants[0].name", "valid string"),
    ],
)
def test_a_wrong_value_is_refused_in_its_place(text, change, key, message):
    result = json.loads(text)
    change(result)
    with pytest.raises(InputError, match=message) as caught:
        result_from(json.dumps(result))
    assert [problem.key for problem in caught.value.problems] == [key]


def test_a_total_that_is_a_tenth_too_large_is_refused(text):
    result = json.loads(text)
    variant = result["variants"][0]
    total = variant.get("serving", variant)["power"]["total_w"]
    total.update({end: 1.1 * total[end] for end in total})
    with pytest.raises(InputError, match="the parts do not add up to the total at the low end"):
        result_from(json.dumps(result))


KEPT = sorted((Path(__file__).parent / "kept").glob("*.json"))


@pytest.mark.parametrize("file", KEPT, ids=lambda file: file.stem)
def test_a_kept_result_of_every_version_is_read(file):
    """Results as each release wrote them; one is added with each new format, and none is ever edited."""
    kept = json.loads(file.read_text())
    result = result_from(file.read_text())
    assert result.plain() == {**kept, "format": FORMAT}  # the formats so far differ by name only


def test_results_of_every_format_are_kept():
    assert {json.loads(file.read_text())["format"] for file in KEPT} == {*STEPS, FORMAT}


def test_every_kind_of_work_has_variants():
    shipped = {name: one.kind for name, one in variants.shipped()}
    assert shipped == {name: name for name, _ in kinds.shipped()}


def test_every_key_has_a_description():
    schema = Result.model_json_schema()
    for name, section in schema["$defs"].items():
        assert section["description"], name
        assert all(spec.get("description") for spec in section["properties"].values()), name
