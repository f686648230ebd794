"""Nothing that a caller can write ends in anything but a result or an InputError."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from railyard.engine.serving import Autoscale, Cost, Deployment, Speculative, running, simulate
from railyard.kit.errors import InputError, StaleCoreError

from .columns import LINEAR, pool, rows

GOOD = {"arrival_ps": [0, 5, 9], "input_tokens": [3, 4, 5], "output_tokens": [1, 2, 3]}


@pytest.mark.parametrize(
    ("name", "column", "word"),
    [
        ("arrival_ps", [0, 9, 5], "ascend"),
        ("arrival_ps", [-1, 5, 9], "ascend"),
        ("arrival_ps", [0, 5], "same length"),
        ("input_tokens", [3, 0, 5], "at least 1"),
        ("output_tokens", [1, -2, 3], "at least 1"),
        ("output_tokens", [1, 2, 3, 4], "same length"),
        ("session", [1], "session"),
        ("block_ptr", [0, 0, 0, 5], "block_ptr"),
        ("input_tokens", [1.5, 2, 3], "integers"),
    ],
)
def test_bad_columns_are_named(name, column, word):
    requests = rows(**GOOD)
    setattr(requests, name, np.asarray(column))
    with pytest.raises(InputError, match=word):
        simulate(requests, Deployment((pool(),)))


@pytest.mark.parametrize(
    ("changed", "word"),
    [
        ({"role": "prefil"}, "prefill"),
        ({"role": "prefill"}, "decode"),
        ({"kv_blocks": 0}, "kv_blocks"),
        ({"max_batched_tokens": 513}, "max_batched_tokens"),
        ({"watermark": 1.5}, "watermark"),
        ({"prefix_cache": True}, "prefix_cache"),
        ({"host_kv_bytes": 1e9}, "swap_bps"),
        ({"replicas": -1}, "replicas"),
        ({"replicas": "two"}, "replicas"),
        ({"speculative": Speculative(3, 1.5)}, "acceptance"),
        ({"autoscale": Autoscale(5, 0.5)}, "min_replicas"),
        ({"cost": replace(LINEAR, host_s=float("nan"))}, "times"),
        ({"cost": replace(LINEAR, stage_share=0.2, pipeline_stages=2)}, "stage_share"),
        ({"cost": replace(LINEAR, tokens=np.array([0, 600]))}, "same length"),
        ({"cost": Cost(np.zeros(0), np.zeros(0), np.zeros(0))}, "same length"),
    ],
)
def test_bad_pools_are_named(changed, word):
    with pytest.raises(InputError, match=word):
        simulate(rows(**GOOD), Deployment((pool(**changed),)))


@settings(max_examples=150, deadline=None)
@given(st.data())
def test_whatever_the_columns_are_it_ends(data):
    column = st.lists(st.integers(-3, 700), min_size=0, max_size=4)
    made = {name: np.asarray(data.draw(column), np.int64) for name in ("arrival_ps", "input_tokens", "output_tokens")}
    requests = rows(**made)
    requests.block_ptr = np.asarray(data.draw(column), np.int64)
    requests.block_hash = np.asarray(data.draw(st.lists(st.integers(0, 2), max_size=4)), np.uint64)
    requests.block_tokens = data.draw(st.sampled_from([0, -1, 16, 17]))
    numbers = st.sampled_from([-1, 0, 1, 2, 40, 512])
    names = ("replicas", "block_tokens", "kv_blocks", "max_sequences", "max_batched_tokens")
    changed = {name: data.draw(numbers) for name in data.draw(st.sets(st.sampled_from(names)))}
    deployment = Deployment((pool(prefix_cache=data.draw(st.booleans()), **changed),))
    try:
        run = simulate(requests, deployment)
    except InputError:
        return
    assert run.meta["outcome"] == "finished"
    assert (run.table("replicas")["kv_used_blocks"] == 0).all()


def test_a_core_that_was_not_built_again_is_said(monkeypatch):
    """Its objects lack what newer Python code sets."""
    monkeypatch.setattr(running._core, "ServingStore", type("ServingStore", (), {}))
    with pytest.raises(StaleCoreError, match=r"asks it for `ServingStore\..*pip install -e"):
        simulate(rows(**GOOD), Deployment((pool(),)))
