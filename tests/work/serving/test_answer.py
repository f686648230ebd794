"""The first sentence of a serving result: the smallest size that is enough, and what the model's error leaves open."""

import pytest

from railyard.work.scenario import load
from railyard.work.serving import present
from railyard.work.study import study

SERVING = {
    "model": "llama-3.1-8b",
    "requests": {"synthetic": {"rate": 8, "count": 150, "input": {"mean": 600}, "output": {"mean": 100}}},
    "pools": {"both": {"tp": 1}},
    "slo": {"ttft": "1 s", "tpot": "50 ms"},
}


@pytest.fixture(scope="module")
def found():
    """Two to eight replicas on eight accelerators, the largest first."""
    values = {
        "name": "sized",
        "cluster": {"accelerators": 8, "server": "hgx-h100"},
        "workload": {"serving": SERVING},
    }
    return study.run(load.from_values(values), ["pools.both.replicas=8,4,2"], out=None).result


def test_a_sweep_over_replicas_names_the_smallest_that_meets_the_slo(found):
    said = present.verdict(found)
    assert said.startswith('"replicas 2" is the smallest of 3 that reaches 90 % of requests within the SLO: $')
    assert ", paid with 6 of 8 accelerators in no pool" in said


def test_a_median_whose_band_crosses_the_limit_is_said(found):
    variant = found.variants[0]
    (row,) = (one for one in variant.model_error if one.figure == "ttft_s")
    limit = variant.serving.slo.model_copy(update={"ttft_s": 0.99 * row.high, "tpot_s": None})
    near = variant.serving.model_copy(update={"slo": limit})
    assert "half may miss it, TTFT p50 up to" in present._doubt(variant.model_copy(update={"serving": near}))
    far = near.model_copy(update={"slo": limit.model_copy(update={"ttft_s": 1.01 * row.high})})
    assert present._doubt(variant.model_copy(update={"serving": far})) == ""
