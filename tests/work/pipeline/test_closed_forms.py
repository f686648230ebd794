"""Pipelines whose times are known in closed form, or by runs of the same models alone."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from railyard import catalog
from railyard.engine.stage import starts
from railyard.work.pipeline.batched import search as batched_search
from railyard.work.pipeline.section import RetrieveStage
from railyard.work.scenario import load
from railyard.work.serving.measuring import latencies
from railyard.work.serving.reuse import Index, search_s
from railyard.work.study.study import prepare

from .pipelines import ASKED, CLUSTER, LARGE, SMALL, measured, run, search

POISSON: dict[str, Any] = {"rate": 60, "input": 100, "output": 1, "count": 20_000}


def alone(stage: dict[str, Any]) -> Any:
    """The same model as a serving workload without stages."""
    model = {key: value for key, value in stage.items() if key != "kind"}
    values = {
        "cluster": {**CLUSTER, "accelerators": 8},
        "workload": {"serving": {**model, "requests": {"synthetic": ASKED}}},
    }
    ready = prepare(load.from_values(values))[0]
    return latencies(ready, ready.requests, ready.run(ready.requests))


def test_one_stage_of_fixed_time_waits_as_m_d_1() -> None:
    found = run({"a": search(0.010)}, POISSON)
    load_ = 60 * 0.010
    assert found.compute_s.mean() == pytest.approx(0.010, rel=1e-3)
    assert found.queue_s.mean() == pytest.approx(load_ * 0.010 / (2 * (1 - load_)), rel=0.06)


def test_behind_a_stage_of_fixed_time_one_that_is_no_slower_never_waits() -> None:
    """What leaves a server of fixed time D is at least D apart."""
    found = measured({"a": search(0.010), "b": search(0.010)}, POISSON)
    first, second = found["serving"]["stages"]
    assert first["queue_s"] > 0.005
    assert second["queue_s"] == pytest.approx(0, abs=1e-9)


def test_stages_of_fixed_time_may_change_places() -> None:
    """Friedman (Operations Research 13, 1965): the time in a tandem of fixed times does not hang on their order."""
    one = run({"a": search(0.012), "b": search(0.005), "c": search(0.009)}, POISSON)
    other = run({"a": search(0.005), "b": search(0.009), "c": search(0.012)}, POISSON)
    np.testing.assert_allclose(one.e2e_s, other.e2e_s, atol=1e-9)


def test_a_pipeline_of_one_model_is_the_serving_workload() -> None:
    known, found = alone(LARGE), run({"a": LARGE})
    for name in ("ttft_s", "tpot_s", "e2e_s", "queue_s", "compute_s"):
        np.testing.assert_allclose(getattr(found, name), getattr(known, name), rtol=1e-9, atol=1e-11)


def test_a_cascade_that_never_escalates_is_the_small_model() -> None:
    found = run({"small": SMALL, "large": {**LARGE, "when": {"share": 0}}})
    np.testing.assert_allclose(found.e2e_s, alone(SMALL).e2e_s, rtol=1e-9)
    np.testing.assert_allclose(found.ttft_s, found.e2e_s)  # the answer is judged before it shows


def test_a_cascade_that_always_goes_to_the_large_model_is_the_large_model() -> None:
    never = {**SMALL, "when": {"share": 0}}
    found, known = run({"small": never, "large": {**LARGE, "when": {"unless": "small"}}}), alone(LARGE)
    np.testing.assert_allclose(found.ttft_s, known.ttft_s, rtol=1e-9)
    np.testing.assert_allclose(found.tpot_s, known.tpot_s, rtol=1e-9, atol=1e-12)


def test_a_cascade_that_always_escalates_takes_both() -> None:
    found = run({"small": SMALL, "large": {**LARGE, "pools": {"both": {"replicas": 8}}}}, {**ASKED, "rate": 0.02})
    small, large = run({"a": SMALL}, {**ASKED, "rate": 0.02}), run({"a": LARGE}, {**ASKED, "rate": 0.02})
    np.testing.assert_allclose(found.e2e_s, small.e2e_s + large.e2e_s, rtol=0.02)


def test_long_prompts_have_a_share_of_their_own() -> None:
    when = {"share": 0, "long": 800, "share_long": 1}
    found = measured({"small": SMALL, "large": {**LARGE, "when": when}})
    seen = run({"small": SMALL})
    assert found["serving"]["stages"][1]["taken"] == pytest.approx((seen.input_tokens > 800).mean())


@pytest.mark.parametrize(("quorum", "seconds"), [(None, 3.0), (1, 1.0), (2, 2.0), (3, 3.0)])
def test_an_ensemble_is_its_slowest_member_or_its_quorum(quorum: int | None, seconds: float) -> None:
    stages: dict[str, Any] = {f"t{n}": {"kind": "tool", "delay": f"{n} s", "after": []} for n in (1, 2, 3)}
    fuse = {"kind": "tool", "delay": "0 s", "after": ["t1", "t2", "t3"], "size": "0 B"}
    stages["fuse"] = fuse if quorum is None else {**fuse, "quorum": quorum}
    np.testing.assert_allclose(run(stages).e2e_s, seconds, rtol=1e-9)


def test_an_ensemble_of_models_is_the_later_of_both() -> None:
    found = run({"a": {**SMALL, "after": []}, "b": {**LARGE, "after": []}})
    np.testing.assert_allclose(found.e2e_s, np.maximum(alone(SMALL).e2e_s, alone(LARGE).e2e_s), rtol=1e-9)
    np.testing.assert_allclose(found.ttft_s, found.e2e_s)


def test_the_way_between_stages_takes_its_latency_and_its_bytes() -> None:
    stages = {"a": search(0.001, top=10, passage="1 MB"), "b": {"kind": "tool", "delay": "1 s"}}
    found = run(stages, {**POISSON, "count": 50}, between={"latency": "1 ms", "rate": "8 Gb/s"})
    assert found.transfer_s == pytest.approx(0.001 + 10e6 / 1e9)


def test_a_longer_way_to_the_draft_model_makes_every_iteration_wait() -> None:
    draft = {"model": "llama-3.2-1b", "server": "hgx-h100", "tokens": 4, "acceptance": 0.7}
    one = {**LARGE, "pools": {"both": {"replicas": 2, "max_sequences": 1}}}
    slow = {**ASKED, "rate": 0.05, "count": 60}
    near = measured({"a": {**one, "draft": {**draft, "latency": "0 s"}}}, slow)["serving"]
    far = measured({"a": {**one, "draft": {**draft, "latency": "10 ms"}}}, slow)["serving"]
    yields = near["stages"][0]["draft"]["tokens_per_iteration"]
    assert yields == pytest.approx((1 - 0.7**5) / 0.3)
    assert far["tpot_s"]["mean"] - near["tpot_s"]["mean"] == pytest.approx(2 * 0.010 / yields, rel=0.12)
    assert [one["role"] for one in near["stages"][0]["hardware"]] == ["both", "draft"]


@given(
    st.lists(st.tuples(st.integers(0, 50), st.integers(0, 60)), min_size=1, max_size=40),
    st.integers(1, 5),
)
def test_first_come_first_served(rows: list[tuple[int, int]], servers: int) -> None:
    arrival = np.cumsum([gap for gap, _ in rows]).astype(np.int64)
    service = np.array([time for _, time in rows], np.int64)
    begin = starts(arrival, service, servers)
    assert (begin >= arrival).all()
    assert (np.diff(begin) >= 0).all()
    for row in range(len(rows)):
        held = (begin[:row] <= begin[row]) & (begin[:row] + service[:row] > begin[row])
        assert held.sum() < servers
        if begin[row] > arrival[row]:  # it waited: just before, everybody was busy
            before = begin[row] - 1
            assert ((begin[:row] <= before) & (begin[:row] + service[:row] > before)).sum() == servers


def test_nobody_waits_where_there_is_no_limit() -> None:
    stages = {"t": {"kind": "tool", "delay": "2 s", "p99": "9 s"}}
    found = run(stages, {**POISSON, "count": 20_000})
    assert found.queue_s.max() == 0
    assert found.e2e_s.mean() == pytest.approx(2, rel=0.02)
    assert np.quantile(found.e2e_s, 0.99) == pytest.approx(9, rel=0.05)


def test_between_stages_nothing_is_lost_or_gained() -> None:
    stages = {
        "embed": {"kind": "embed", "model": "bge-m3", "server": "cpu-xeon-8592", "tokens": 64},
        "find": {"kind": "retrieve", "server": "cpu-epyc-9755", "vectors": "100 M", "vector_size": "96 B"},
        "rank": {"kind": "rerank", "model": "bge-m3", "server": "l40s-8", "tokens": 300, "items": 20},
        "web": {"kind": "tool", "after": [], "delay": "30 ms", "p99": "200 ms", "when": {"share": 0.5}},
        "answer": {**LARGE, "after": ["rank", "web"], "add_input": 1000},
        "words": {"kind": "host", "server": "cpu-epyc-9755", "per_output_token": "20 us"},
    }
    found = measured(stages, between={"latency": "200 us"})["serving"]
    for whole, part in (("ttft_s", "ttft_parts"), ("e2e_s", "e2e_parts")):
        for level in ("p50", "p90", "p99", "p999", "mean"):
            told = sum(sum(stage[part][level].values()) for stage in found["stages"])
            assert told == pytest.approx(found[whole][level], rel=1e-9)
    assert sum(found["ttft_parts"]["p99"].values()) == pytest.approx(found["ttft_s"]["p99"], rel=1e-9)
    web = next(stage for stage in found["stages"] if stage["name"] == "web")
    assert web["taken"] == pytest.approx(0.5, abs=0.1)


# Searches of vectors by hand: bytes, scores and steps, and the power of the shards.

KNOWN = catalog.load()
#: 96 cores behind 600 GB/s, all of which is reached.
SERVER = replace(
    KNOWN.accelerator("epyc-9755"), sm_count=96, memory_bps=600e9 * 8, memory_efficiency=1.0, memory_bytes=1e12
)
GPU = KNOWN.accelerator("h100-sxm")


def seconds(index, device, queries, shards=1):
    return float(search_s(index, device, np.array([queries]), shards)[0])


def test_a_walk_takes_a_core_for_each_query():
    """200 queries on 96 cores: three turns of 1,500 steps, each a miss of 100 ns and 3 kB at 10 GB/s."""
    index = Index("hnsw", 10**7, 768, 3072, visited=1500)
    assert seconds(index, SERVER, 200) == pytest.approx(3 * 1500 * (100e-9 + 3072 / 10e9))
    assert index.size_bytes == 10**7 * (3072 + 256)


@pytest.mark.parametrize(
    ("size", "core_bytes_s"),
    [(96, 18e9), (4096, 10e9)],  # short codes, whole vectors of 1,024 dimensions
)
def test_a_scan_of_cores(size, core_bytes_s):
    """40 queries of 5 % each over 3 shards: by 96 cores, which take longer than 1 - 0.95^40 of the shard's bytes."""
    index = Index("ivf", 10**8, 1024, size, probed=0.05)
    part = 10**8 * size / 3
    scan, read = 40 * 0.05 * part / (96 * core_bytes_s), part * (1 - 0.95**40) / 600e9
    assert scan < read if size == 96 else scan > read
    assert seconds(index, SERVER, 40, 3) == pytest.approx(max(scan, read), rel=1e-9)


def test_a_scan_of_an_accelerator():
    """Few queries read the vectors, many compute 2 FLOPs an element, at the best 16-bit rate."""
    index = Index("flat", 10**7, 1024, 2048)
    read = 10**7 * 2048 / (GPU.memory_bps / 8 * GPU.memory_efficiency)
    assert seconds(index, GPU, 3) == pytest.approx(read, rel=1e-9)
    units = 2 * 5000 * 10**7 * 1024 / (GPU.flops["bf16"] * GPU.gemm_efficiency)
    assert seconds(index, GPU, 5000) == pytest.approx(units, rel=1e-9)


def test_shards_draw_power_together():
    """Three shards of 700 W: a fifth between batches, 0.33 + 0.14 more of it while they search."""
    stage = RetrieveStage(kind="retrieve", server="x", vectors=10**7, dimensions=1024, shards=3, batch=8)
    built = batched_search(stage, SimpleNamespace(cluster=SimpleNamespace(accelerator=GPU), nic_bps=4e11, count=3))
    cost = built.stage.deployment.pools[0].cost
    assert cost.idle_w == pytest.approx(0.20 * 2100)
    assert cost.busy_w == pytest.approx(0.47 * 2100)
    assert len(cost.tokens) == 8
