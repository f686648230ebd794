"""Labels of split deployments read by the published recipes, and labels of one server."""

from __future__ import annotations

import numpy as np
import pytest

from railyard import catalog
from railyard.model.machine import Machine
from railyard.work.serving.iteration import IterationLoad, parts
from railyard.work.serving.layout import Deployments, ServingLayout
from railyard.work.serving.software import ServingSoftwareColumns, profile
from railyard_validation.serving.cases import Case, case_of
from railyard_validation.serving.loads import batched_prompt_s
from railyard_validation.serving.metrics import measured, predict
from railyard_validation.serving.model import deployment_software, steady, table
from railyard_validation.serving.recipes import decoding, may_draft, recipe
from railyard_validation.serving.schedulers import scheduler_of
from railyard_validation.serving.settings import cold
from railyard_validation.serving.table import Row

KNOWN = catalog.load()


def case(**cells: str) -> Case:
    text = {"id": "x", "model": "deepseek-ai/DeepSeek-R1", "precision": "fp8", "load": "conc 64", **cells}
    text = {"framework": "trtllm 0.8.1.post2", "accelerator": "h200_sxm", "isl": "1024", "osl": "1024", **text}
    text.setdefault("source", "aiconfigurator silicon_sample.csv 2026_02_14_deepseek_r1")
    found = case_of(Row("x", 2, text, {"isl": float(text["isl"]), "osl": float(text["osl"]), "tpot_ms": 9.0}), KNOWN)
    assert isinstance(found, Case), found
    return found


# What the recipes of TensorRT-LLM on 8 x B200 in fp8 and on H200 say, 1k prompts: users, replicas, copies of attention.
@pytest.mark.parametrize(
    ("device", "users", "replicas", "copies"),
    [("b200_sxm", 896, 4, True), ("b200_sxm", 4096, 1, True), ("b200_sxm", 64, 5, False), ("h200_sxm", 64, 10, False)],
)
def test_replicas_follow_the_users(device: str, users: float, replicas: int, copies: bool) -> None:
    known = recipe("trtllm 0.8.1.post2", device, 1024.0)
    assert known is not None
    assert decoding(known, users, 8, 8) == (replicas, copies)


def test_a_rank_decodes_no_more_sequences_than_engines_take() -> None:
    known = recipe("trtllm 0.8.1.post2", "b200_sxm", 1024.0)
    assert known is not None
    assert decoding(known, 10860, 4, 4)[0] == 5


def test_drafts_are_open_from_the_first_recipe_with_them_on() -> None:
    assert not may_draft("sglang 0.5.8.post1", "b200_sxm", "2026-02-06")
    assert may_draft("sglang 0.5.8.post1", "b200_sxm", "2026-02-13")
    assert not may_draft("sglang 0.5.8.post1", "gb200", "2026-03-01")


ODD = {"load": "conc 65"}


def test_a_label_without_counts_and_without_a_recipe_is_said_to_be_one() -> None:
    found = case(
        parallelism="P x(TP8 aDP1 EP8 bs) D x(TP8 aDP1 EP8 bs)", pd_split="disagg", date="2026-02-14", load="conc 65"
    )
    assert found.vague
    assert (found.decode.workers, found.decode.tp, found.drafts) == (10, 8, 3)
    assert 0.0 < found.drafting < 1.0


# Lines of InferenceX's configurations as they stood: GB200, fp4, 1k prompts; 180 users with three drafts on one replica
# of 32 copies, 96 without drafts on four of 8 ranks; 48 users are run with both.
@pytest.mark.parametrize(
    ("users", "width", "pools", "drafts"),
    [
        (180, 32, ((1, 4), (1, 32)), (3, 1.0)),
        (96, 8, ((1, 4), (4, 1)), (0, 1.0)),
        (48, 8, ((1, 4), (4, 1)), (3, 0.75)),
    ],
)
def test_users_tell_the_published_deployment(
    users: int, width: int, pools: tuple[tuple[int, int], ...], drafts: tuple[int, float]
) -> None:
    row = {"accelerator": "gb200", "precision": "fp4", "pd_split": "disagg", "date": "2026-03-23"}
    found = case(parallelism=f"P x(TP4 aDP1 EP4 bs) D x(TP{width} aDP1 EP4 bs)", load=f"conc {users}", **row)
    assert found.prefill is not None
    assert tuple((pool.workers, pool.dp) for pool in (found.prefill, found.decode)) == pools
    assert (found.drafts, found.drafting) == drafts


@pytest.mark.parametrize(
    ("label", "degrees"),
    [
        ("TEP8", (8, 1, 8)),
        ("DEP8", (1, 8, 8)),
        ("TP1 EP8 DP1", (8, 1, 8)),
        ("TP1 EP8 DP8", (1, 8, 8)),
        ("TP8", (8, 1, 1)),
    ],
)
def test_labels_of_one_server(label: str, degrees: tuple[int, int, int]) -> None:
    found = case(parallelism=label, framework="vLLM nightly (Feb 2026)", date="20260214", n_accel="8")
    assert (found.layout.tp, found.layout.dp_attention, found.layout.ep) == degrees


# What InferenceX's recipes set: caches, tokens of an iteration, days with requests ahead.

MINIMAX, OSS, R1 = "MiniMaxAI/MiniMax-M2.5", "openai/gpt-oss-120b", "deepseek-ai/DeepSeek-R1"
AGGREGATED = "TP4 PP1 aDP1 mTP4 mEP1"


def settings_case(model: str, device: str, framework: str, date: str, *, label: str = AGGREGATED) -> Case:
    text = {"id": "x", "model": model, "accelerator": device, "framework": framework, "date": date, "isl": "1024"}
    text |= {"osl": "1024", "load": "conc 64", "precision": "fp8", "parallelism": label}
    text |= {"source": f"aiconfigurator silicon_sample.csv {date.replace('-', '_')}_x"}
    found = case_of(Row("x", 2, text, {"isl": 1024.0, "osl": 1024.0, "tpot_ms": 9.0}), KNOWN)
    assert isinstance(found, Case), found
    return found


@pytest.mark.parametrize(
    ("model", "device", "framework", "date", "bits"),
    [
        (MINIMAX, "b200_sxm", "vllm 0.19.0", "2026-04-03", 8),
        (MINIMAX, "b200_sxm", "vllm 0.17.0", "2026-03-28", 16),
        (MINIMAX, "h200_sxm", "vllm 0.19.0", "2026-04-03", 16),
        (OSS, "b200_sxm", "vllm 0.15.1", "2025-12-05", 8),
        (OSS, "b200_sxm", "vllm", "2025-12-04", 16),
        (OSS, "h200_sxm", "vllm 0.18.0", "2026-03-27", 16),
        (OSS, "b200_sxm", "trtllm 1.1", "2026-02-05", 8),
        (OSS, "h200_sxm", "trtllm 1.1", "2026-02-05", 16),
        ("meta-llama/Llama-3.3-70B-Instruct", "h200_sxm", "vllm", "2025-10-29", 8),
        (R1, "h200_sxm", "sglang 0.5.6", "2026-01-10", 16),
        (R1, "b200_sxm", "sglang 0.5.6", "2026-01-10", 8),
    ],
)
def test_caches_are_as_wide_as_the_recipe_of_that_day_has_them(model, device, framework, date, bits) -> None:
    assert settings_case(model, device, framework, date).layout.kv_bits == bits


@pytest.mark.parametrize(
    ("model", "device", "framework", "date", "tokens"),
    [
        (MINIMAX, "b200_sxm", "vllm 0.19.0", "2026-04-03", 2048),
        (MINIMAX, "b200_sxm", "vllm 0.17.0", "2026-03-28", 8192),
        (R1, "b200_sxm", "trtllm 1.2", "2026-01-21", 8192),
        # 64 users and a prompt of 1,024 tokens, up to whole 64: at least room for the longest prompt and a fifth more.
        (R1, "b200_sxm", "trtllm 1.2", "2026-01-20", 1152),
        (OSS, "b200_sxm", "trtllm 1.1", "2026-02-05", 20000),
    ],
)
def test_iterations_take_the_tokens_that_the_recipe_allows(model, device, framework, date, tokens) -> None:
    assert scheduler_of(settings_case(model, device, framework, date)).budget == tokens


def test_copies_of_a_prefilling_replica_share_sglangs_chunk() -> None:
    label = "P 1x(TP1 aDP8 EP8 bs1) D 1x(TP8 aDP1 EP8 bs1)"
    assert scheduler_of(settings_case(R1, "b200_sxm", "sglang 0.5.8", "2026-02-11", label=label)).budget == 16384 // 8


def test_runs_are_cold_until_requests_were_sent_ahead() -> None:
    days = [settings_case(R1, "b200_sxm", "sglang 0.5.6", day).row for day in ("2026-01-20", "2026-01-21")]
    assert [cold(row) for row in days] == [True, False]


# Prompts computed as fast as a replica can, in iterations put together by hand.

DEVICE = KNOWN.accelerator("h100-sxm")


def replica(model: str, **layout: object) -> tuple[Deployments, ServingSoftwareColumns]:
    entry = KNOWN.model(model)
    rows = Deployments.of((entry, ServingLayout(**layout), Machine.of_device(DEVICE, 4e11)))
    return rows, ServingSoftwareColumns([profile("vllm", DEVICE)])


def column(value: float) -> np.ndarray:
    return np.array([value])


@pytest.mark.parametrize(
    ("copies", "cached", "count", "tokens", "pairs"),
    [
        # floor(8,192 / 3,000) = 2 prompts a copy; each has 3,000^2 / 2 pairs
        (1, 0.0, 2, 6_000, 9_000_000),
        (4, 0.0, 8, 24_000, 36_000_000),
        # a quarter is there: floor(8,192 / 2,250) = 3 a copy; each has 4,500,000 - 750^2 / 2 pairs
        (4, 0.25, 12, 27_000, 50_625_000),
    ],
)
def test_batched_prompts_hide_the_exchange_where_copies_take_turns(copies, cached, count, tokens, pairs):
    rows, software = replica("mixtral-8x22b", tp=8 // copies, dp_attention=copies, ep=8, precision="fp8")
    found = parts(rows, software, IterationLoad(*(column(float(value)) for value in (tokens, count, 0, pairs))))
    total, compute, network = (float(one[0]) for one in (found.total_s, found.compute_s, found.network))
    assert 0 < network < compute
    each = float(batched_prompt_s(rows, software, column(3000.0), cached)[0])
    assert each == pytest.approx((total - (network if copies > 1 else 0)) / count, rel=1e-12)


# Units of a service: filled up to a pace, and prompts of which a cache has a part.

OWN = {"id": "x", "model": "deepseek-ai/DeepSeek-V3", "accelerator": "H800", "framework": "DeepSeek in-house"}


def unit(parallelism: str, load: str, accelerators: int, **cells: str) -> Case:
    text = {**OWN, "parallelism": parallelism, "load": load, "precision": "FP8", **cells}
    found = case_of(Row("x", 2, text, {"n_accel": float(accelerators), "out_tok_s_per_gpu": 1850.0}), KNOWN)
    assert isinstance(found, Case), found
    return found


@pytest.mark.parametrize(("pace", "seconds"), [("20-22", 1 / 21), ("12-14", 1 / 13)])
def test_a_unit_is_as_full_as_its_pace_lets_it_be(pace: str, seconds: float) -> None:
    rows = table([unit("EP144, DP144 (18 nodes/unit)", f"avg KV length 4,989; {pace} tok/s/user", 144)])
    (state,) = (found for _, found in steady(rows, deployment_software(rows.cases)).values())
    assert state.tpot_s[0] == pytest.approx(seconds, rel=1e-3) or state.batch[0] == pytest.approx(
        rows.most[0], rel=0.01
    )
    assert 1 < state.batch[0] <= rows.most[0]


def test_a_slower_pace_serves_more_tokens_and_is_no_measurement() -> None:
    rates = [
        predict([unit("EP144, DP144", f"{pace} tok/s/user", 144)], "throughput")[0].value for pace in ("20-22", "25-27")
    ]
    assert rates[0] > rates[1] > 0
    paced = unit("EP144, DP144", "20-22 tok/s/user", 144).row
    assert measured(Row("x", 2, paced.text, {**paced.real, "tpot_ms": 47.6}), "tpot") is None


def test_cached_tokens_are_not_computed_but_looked_at() -> None:
    rows = table([unit("EP32, DP32", "16,384 seq/device", 32)])
    software = deployment_software(rows.cases)
    prompt = np.array([8192.0])
    whole, half, short = (
        batched_prompt_s(rows.ahead, software, *given)[0]
        for given in ((prompt, 0.0), (prompt, 0.5), (prompt / 2.0, 0.0))
    )
    assert short < half < whole
