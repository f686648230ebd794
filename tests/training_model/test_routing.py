"""Skewed routing: bounds, closed forms, and what it does to a step."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from railyard import catalog
from railyard.model.routing import imbalance
from railyard.workload.training import Layout, Machine, Training, estimate, profiles


@given(st.sampled_from([8, 16, 64, 256]), st.sampled_from([1, 2, 4, 8]), st.floats(0.0, 4.0))
def test_load_lies_between_the_mean_and_everything(experts, ranks, skew):
    assert 1.0 <= imbalance(experts, ranks, skew) <= ranks * (1.0 + 1e-12)


def test_one_expert_a_rank_is_the_most_popular_ones_share():
    share = np.arange(1, 9) ** -1.0
    assert imbalance(8, 8, 1.0) == pytest.approx(8 * share[0] / share.sum())


def test_more_experts_a_rank_even_out():
    loads = [imbalance(256, ranks, 0.5) for ranks in (2, 8, 32, 128)]
    assert loads == sorted(loads)
    assert imbalance(256, 64, 0.0) == 1.0


def test_a_skewed_router_makes_the_step_longer_and_a_dense_model_none_the_wiser():
    known = catalog.load()
    device = known.accelerator("h100-sxm")
    machine = Machine(
        accelerator=device, scale_up_bps=device.scale_up_collective_bps, scale_up_domain=8, scale_out_bps=368e9
    )
    software = profiles.default(device)

    def step(model, skew, ep):
        layout = Layout(dp=16, ep=ep, global_batch=64)
        job = Training(model=known.model(model), layout=layout, seq_len=4096, software=software, routing_skew=skew)
        return float(estimate([job], [machine]).step_s[0])

    assert step("qwen3-30b-a3b", 0.8, 16) > 1.2 * step("qwen3-30b-a3b", 0.0, 16)
    assert step("llama-3-8b", 0.8, 1) == step("llama-3-8b", 0.0, 1)
