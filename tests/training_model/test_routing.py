"""Skewed routing: bounds, closed forms, and what it does to a step."""

import numpy as np

from railyard import catalog
from railyard.model.architecture import UNBALANCED
from railyard.work.training import Layout, Machine, Training, estimate, profiles


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


def test_what_nothing_balances_meets_both_published_bounds_and_little_less_does_not():
    def shares(exponent):
        share = np.arange(1, 17) ** -exponent / (np.arange(1, 17) ** -exponent).sum()
        return share[:3].sum(), share[-3:].sum()

    most, least = shares(UNBALANCED)
    assert 0.5 < most < 0.62
    assert least < 0.05
    assert shares(UNBALANCED - 0.05)[1] > 0.05
