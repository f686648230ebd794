"""What InferenceX's recipes set: caches, tokens of an iteration, days with requests ahead."""

import pytest

from railyard import catalog
from railyard_validation.serving.cases import Case, case_of
from railyard_validation.serving.schedulers import scheduler_of
from railyard_validation.serving.settings import cold
from railyard_validation.serving.table import Row

KNOWN = catalog.load()
MINIMAX, OSS, R1 = "MiniMaxAI/MiniMax-M2.5", "openai/gpt-oss-120b", "deepseek-ai/DeepSeek-R1"
AGGREGATED = "TP4 PP1 aDP1 mTP4 mEP1"


def case(model: str, device: str, framework: str, date: str, *, label: str = AGGREGATED) -> Case:
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
    assert case(model, device, framework, date).layout.kv_bits == bits


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
    assert scheduler_of(case(model, device, framework, date)).budget == tokens


def test_copies_of_a_prefilling_replica_share_sglangs_chunk() -> None:
    label = "P 1x(TP1 aDP8 EP8 bs1) D 1x(TP8 aDP1 EP8 bs1)"
    assert scheduler_of(case(R1, "b200_sxm", "sglang 0.5.8", "2026-02-11", label=label)).budget == 16384 // 8


def test_runs_are_cold_until_requests_were_sent_ahead() -> None:
    days = [case(R1, "b200_sxm", "sglang 0.5.6", day).row for day in ("2026-01-20", "2026-01-21")]
    assert [cold(row) for row in days] == [True, False]
