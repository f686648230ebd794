"""The serving part of a result: what a run writes is accepted, and whatever is taken away or turned is named."""

from __future__ import annotations

import functools
import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from railyard.face import api
from railyard.kit.errors import InputError
from railyard.measure.result.reading import result_from
from railyard.measure.result.serving import ModelServing
from railyard.measure.result.variants import ServingVariant

SCENARIO = {
    "name": "small",
    "cluster": {"accelerators": 16, "server": "hgx-h100", "back_end": {"topology": "rail-optimized", "fabric": "roce"}},
    "workload": {
        "serving": {
            "model": "llama-3.1-8b",
            "requests": {"synthetic": {"rate": 20, "input": {"mean": 800, "p99": 4000}, "output": 40, "count": 120}},
            "pools": {"prefill": {"replicas": 2, "tp": 2}, "decode": {"replicas": 2, "tp": 2}},
            "slo": {"ttft": "1 s", "tpot": "50 ms"},
            "capacity": {"first": 60, "tolerance": 0.5},
        }
    },
}
KEPT = json.dumps(api.run(SCENARIO, out=None).result.plain())


def places(value, way=()):
    """Every way to a key, through objects and the first entry of lists."""
    if isinstance(value, dict):
        for key, inner in value.items():
            yield (*way, key)
            yield from places(inner, (*way, key))
    elif isinstance(value, list) and value:
        yield from places(value[0], (*way, 0))


VARIANT = json.loads(KEPT)["variants"][0]
FREE = {("settings",), ("warnings",)}
KEYS = [way for way in places(VARIANT) if isinstance(way[-1], str) and way[:1] not in FREE]
PARTS = [way for way in KEYS if way[:2] == ("serving", "ttft_parts") and len(way) == 4]
BANDS = [way for way in KEYS if way[-1] in ("typical", "typical_w", "typical_usd") and "rented_total" not in way]
COUNTS = [("serving", "requests", name) for name in ("count", "done", "dropped", "unfinished")]


def spoiled(way, change):
    """The result with one value of its first variant changed, or without it."""
    result = json.loads(KEPT)
    place = result["variants"][0]
    for key in way[:-1]:
        place = place[key]
    if change is None:
        del place[way[-1]]
    else:
        place[way[-1]] = change(place[way[-1]])
    return json.dumps(result)


def test_a_run_is_accepted_and_every_key_of_it_is_checked():
    result_from(KEPT)
    assert set(VARIANT) == set(ServingVariant.model_fields)
    assert set(VARIANT["serving"]) == set(ModelServing.model_fields) - {"faults", "begun_anew"}  # nothing died


def test_every_key_that_a_run_writes_is_wanted():
    """Whichever is taken away is missed, and its place is said."""
    for way in KEYS:
        with pytest.raises(InputError) as caught:
            result_from(spoiled(way, None))
        assert any((problem.key or "").startswith("result.variants[0]") for problem in caught.value.problems), way


NUMBERS = [way for way in KEYS if isinstance(functools.reduce(lambda at, key: at[key], way, VARIANT), float)]


@given(st.sampled_from(NUMBERS), st.sampled_from(["x", [], True, float("nan"), float("inf")]))
@settings(deadline=None, max_examples=60)
def test_what_is_no_number_is_refused_in_its_place(way, value):
    with pytest.raises(InputError) as caught:
        result_from(spoiled(way, lambda _: value))
    assert any((problem.key or "").endswith(str(way[-1])) for problem in caught.value.problems)


@given(st.sampled_from([*PARTS, *BANDS, *COUNTS]), st.sampled_from([3, 10, 1000]))
@settings(deadline=None, max_examples=100)
def test_figures_that_do_not_agree_are_refused(way, more):
    """A part, a typical value, or a count that is four times what it was: the band of tokens/s reaches twice."""
    with pytest.raises(InputError) as caught:
        result_from(spoiled(way, lambda value: value + more * max(abs(value), 1)))
    text = str(caught.value)
    assert any(
        words in text
        for words in ("add up", "not in order", "the bill of the hour", "less than or equal to 1", "each end")
    )


@pytest.mark.parametrize("name", ["ttft_s", "tpot_s", "itl_s", "e2e_s"])
def test_percentiles_ascend(name):
    with pytest.raises(InputError, match="do not ascend"):
        result_from(spoiled(("serving", name, "p90"), lambda value: 1e6 * value))
