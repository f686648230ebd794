"""The sentence on what requests wait for, from the trials with one more replica of each pool."""

from __future__ import annotations

import pytest

from railyard.measure.result.serving import ModelServing, ObjectiveFigures, Percentiles, ReplicaTrial
from railyard.measure.result.variants import ServingVariant
from railyard.work.serving.present import bottleneck


def variant(*trials: ReplicaTrial) -> ServingVariant:
    """First tokens at 0.4 s, 0.1 s a token, 24.2 % in time."""
    serving = ModelServing.model_construct(
        ttft_s=Percentiles.model_construct(p99=0.4),
        tpot_s=Percentiles.model_construct(p99=0.1),
        slo=ObjectiveFigures.model_construct(attainment=0.242),
        trials=trials,
    )
    return ServingVariant.model_construct(serving=serving)


def trial(pool: str, ttft_s: float, tpot_s: float, attainment: float) -> ReplicaTrial:
    return ReplicaTrial(
        pool=pool, replicas=3, accelerators=4, ttft_p99_s=ttft_s, tpot_p99_s=tpot_s,
        attainment=attainment, goodput_rps=1.0, reason="",
    )  # fmt: skip


@pytest.mark.parametrize(
    ("prefill", "decode", "words"),
    [
        # Sooner first tokens that bring nothing in time are not what slow answers wait for.
        ((0.3, 0.1, 0.242), (0.4, 0.02, 0.99), "answers wait for the decode replicas: one more decode replica"),
        ((0.2, 0.1, 0.60), (0.4, 0.05, 0.30), "first tokens wait for the prefill replicas: one more prefill"),
        # Neither brings more in time: then the sooner first token counts, from one percent on.
        ((0.4, 0.1, 0.242), (0.395, 0.1, 0.242), "first tokens wait for the decode replicas"),
        ((0.4, 0.1, 0.25), (0.397, 0.1, 0.242), "one more replica of any pool changes next to nothing"),
    ],
)
def test_the_pool_is_the_one_whose_growth_brings_requests_in_time(prefill, decode, words) -> None:
    assert bottleneck(variant(trial("prefill", *prefill), trial("decode", *decode))).startswith(words)


def test_without_trials_nothing_is_said() -> None:
    assert bottleneck(variant()) == ""
