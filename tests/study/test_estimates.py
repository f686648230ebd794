"""Results say which parts of a model were estimated: scans of recurrences, projectors of towers."""

from __future__ import annotations

import base64
import gzip
import re
from pathlib import Path

import pytest

from railyard import catalog
from railyard.catalog.hugging_face import hf_config
from railyard.face import api
from railyard.face.report import report_html
from railyard.work.study.provenance import estimates

DATA = Path(__file__).parents[1] / "catalog" / "data"


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("nemotron-h-56b", ["the 54 mamba2 layers of nemotron-h-56b were estimated"]),
        ("qwen3.5-397b", ["the 45 gated-delta layers of qwen3.5-397b were estimated"]),
        ("kimi-k2.5", ["what joins a tower of its kind to the language model was estimated"]),
        ("qwen3-vl-2b", []),  # its tower's tensors are known
        ("llama-3-8b", []),
    ],
)
def test_each_estimate_is_one_sentence(name, words):
    found = list(estimates(hf_config.read(DATA / name)))
    assert len(found) == len(words)
    for part, sentence in zip(words, found, strict=True):
        assert part in sentence


def test_the_catalogue_estimates_recurrences_and_what_joins_towers_and_nothing_else():
    known = catalog.load()
    for model in map(known.model, known.names("models")):
        side = model.provenance.get("side_parameters")
        joined = side is not None and side.confidence == "estimated"
        assert len(list(estimates(model))) == (model.recurrent is not None) + joined, model.name
        assert not model.assumed


def test_a_training_result_and_its_report_say_it():
    training = {
        "model": str(DATA / "nemotron-3-nano" / "config.json"),
        "global_batch": 16,
        "sequence": 4096,
        "parallelism": {"ep": 8},
    }
    scenario = {
        "name": "x",
        "cluster": {"accelerators": 16, "server": "hgx-h100"},
        "engine": "analytic",
        "workload": {"training": training},
    }
    found = api.run(scenario, out=None)
    sentence = "the 23 mamba2 layers of nemotron-3-nano were estimated"
    assert any(sentence in warning for warning in found.result.plain()["variants"][0]["warnings"])
    data = re.search(r'id="railyard-result">([^<]*)<', report_html(found.result))
    assert sentence in gzip.decompress(base64.b64decode(data.group(1))).decode("utf-8")
