"""Units of a service: filled up to a pace, and prompts of which a cache has a part."""

import numpy as np
import pytest

from railyard import catalog
from railyard.work.serving.steady import batched_prompt_s
from railyard_validation.serving.cases import Case, case_of
from railyard_validation.serving.metrics import measured, predict
from railyard_validation.serving.model import deployment_software, steady, table
from railyard_validation.serving.table import Row

KNOWN = catalog.load()
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
