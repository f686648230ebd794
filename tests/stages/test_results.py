"""What the result says of a pipeline's models agrees with what the same models say alone."""

from __future__ import annotations

from typing import Any

import pytest

from railyard.work.scenario import load
from railyard.work.serving.measuring import latencies
from railyard.work.serving.measuring import measure as measure_serving
from railyard.work.study.study import prepare

from .pipelines import LARGE, SMALL, measured

TALKS: dict[str, Any] = {"rate": 6, "turns": 4.0, "input": 900, "output": 400, "count": 300}
TIGHT: dict[str, Any] = {"host": "20 GB"}


def alone(stage: dict[str, Any], asked: dict[str, Any]) -> dict[str, Any]:
    """The model's `kv` as a serving workload without stages."""
    model = {key: value for key, value in stage.items() if key not in {"kind", "server"}}
    values = {
        "cluster": {"accelerators": 8, "server": stage["server"]},
        "workload": {"serving": {**model, "requests": {"synthetic": asked}}},
    }
    ready = prepare(load.from_values(values))[0]
    run = ready.run(ready.requests)
    served = latencies(ready, ready.requests, run)
    found: dict[str, Any] = measure_serving(ready, run, (served, served)).variant.serving.kv.plain()
    return found


def test_caches_of_a_model_are_those_of_the_serving_workload() -> None:
    """Hits, loads from host memory, and preemptions, with a cache too small for the requests."""
    server = {"kind": "model", "model": "llama-3-8b", "server": "l40s-8", "cache": TIGHT}
    stage = {**server, "pools": {"both": {"replicas": 1}}}
    asked = {**TALKS, "rate": 12}
    known, found = alone(stage, asked), measured({"a": stage}, asked)["serving"]["kv"]
    assert known["preemptions"] > 0
    assert known["loaded_rate"] > 0
    for name in ("hit_rate", "loaded_rate", "preemptions", "peak_share"):
        assert found[name] == pytest.approx(known[name], rel=1e-9), name


def test_what_a_cascade_finds_in_its_caches_is_said() -> None:
    """Its first answers do not stream, for another model may replace them; their hits count all the same."""
    large = {**LARGE, "when": {"share": 0.0}, "after": ["small"]}
    # Conversations that began before the first request find a cold cache: the run is long enough for the others.
    talks = {**TALKS, "count": 1500}
    assert measured({"small": SMALL, "large": large}, talks)["serving"]["kv"]["hit_rate"] > 0.3


@pytest.mark.parametrize(("prefill", "decode"), [("l40s-8", "hgx-h100"), ("hgx-h100", "l40s-8")])
def test_pools_of_two_kinds_have_servers_of_their_own(prefill: str, decode: str) -> None:
    """Whichever of them the stage names."""
    pools = {"prefill": {"replicas": 1, "server": prefill}, "decode": {"replicas": 1, "server": decode}}
    for server in (prefill, decode):
        stage = {"kind": "model", "model": "llama-3-8b", "server": server, "pools": pools}
        found = measured({"a": stage}, {"rate": 2, "input": 300, "output": 20, "count": 20})
        assert [row["accelerator"] for row in found["serving"]["pools"]] == [
            "h100-sxm" if name == "hgx-h100" else "l40s" for name in (prefill, decode)
        ]


def test_a_reranker_is_busy_for_its_batches() -> None:
    """37 requests that never meet, each one batch of 20 x 300 tokens: all of a request but its 3 ms of tokenizing."""
    stage = {"kind": "rerank", "model": "bge-m3", "server": "l40s-8", "tokens": 300, "items": 20, "overhead": "3 ms"}
    serving = measured({"rank": stage}, {"rate": 2, "input": 300, "output": 1, "count": 37})["serving"]
    assert serving["queue_s"]["p99"] == 0
    busy = 37 * (serving["e2e_s"]["mean"] - 0.003) / serving["throughput"]["span_s"]
    assert serving["replicas"] == [
        {
            "busy": pytest.approx(busy, rel=1e-9), "iterations": 37, "input_tokens": 37 * 20 * 300, "output_tokens": 0,
            "cached_tokens": 0, "kv_peak_share": 0.0, "pool": "rank",
        }
    ]  # fmt: skip
    assert serving["pools"][0]["prompt"] == pytest.approx(busy, rel=1e-9)
