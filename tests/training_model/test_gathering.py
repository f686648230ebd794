"""ZeRO-3 as software gathers: a block ahead, a bucket ahead, or weight by weight with a copy of each rank's part."""

import dataclasses

import pytest

from railyard import catalog
from railyard.catalog import Model
from railyard.work.training import Layout, Machine, Training, estimate, profiles
from railyard.work.training.compute import stage_times
from railyard.work.training.stages import virtual_stages

A100 = catalog.load().accelerator("a100-sxm-80gb")
GPT = Model(
    name="gpt-13b",
    layers=40,
    hidden=5120,
    heads=40,
    kv_heads=40,
    head_dim=128,
    ffn=20480,
    vocab=51200,
    gated_mlp=False,
    tied_embeddings=True,
    norm="layer",
    learned_positions=2048,
    max_seq=2048,
)


def _deepspeed(**changed):
    software = dataclasses.replace(profiles.profile("deepspeed-2021", A100), **changed)
    layout = Layout(global_batch=16, dp=16, zero=3, micro_batch=1, recompute="full")
    return Training(model=GPT, layout=layout, seq_len=2048, software=software)


def _seconds(job):
    return estimate([job], [Machine.of_device(A100, 184e9, 8)]).row(0)


def test_what_is_not_gathered_ahead_is_exposed():
    # A layer has 12 x 5120^2 weights, and biases and norms of a few thousand; the bucket holds 5e7 of them.
    ahead, bucket = _deepspeed(prefetch_parameters=0.0, gather_copies=False), _deepspeed(gather_copies=False)
    half = _deepspeed(prefetch_parameters=6 * 5120**2, gather_copies=False)
    first, some, late = (_seconds(job)["parameter_s"] for job in (ahead, half, bucket))
    assert first < 0.1 * late
    # Of what is gathered ahead the first layer of a step is left.
    share = 5e7 / (12 * 5120**2)
    whole = (late - share * first) / (1.0 - share)
    assert some == pytest.approx(0.5 * first + 0.5 * whole, rel=0.02)
    # What is gathered beside the computation slows it by some percent; what is exposed does not.
    assert 0.95 < _seconds(bucket)["compute_s"] / _seconds(ahead)["compute_s"] < 1.0


def test_copies_of_gathered_parts_by_hand():
    # 40 layers, 12 weights, 16 ranks, forward and backward, each a launch.
    job = _deepspeed()
    copies = 40 * 12 * 16 * 2 * job.software.launch_ps * 1e-12
    without = _seconds(_deepspeed(gather_copies=False))["parameter_s"]
    assert _seconds(job)["parameter_s"] - without == pytest.approx(copies, rel=1e-9)
    stage = virtual_stages(GPT, job.layout)[0]
    times, plain = (stage_times(one, A100, stage) for one in (job, _deepspeed(gather_copies=False)))
    assert times.forward_ps - plain.forward_ps == pytest.approx(copies / 2 * 1e12, rel=1e-6)
