"""Grouped products of experts against measured kernels, and the host's part of an expert layer."""

import dataclasses
import json
import re
from pathlib import Path

import numpy as np
import pytest

from railyard import catalog
from railyard.catalog import Model
from railyard.model.architecture import UNBALANCED
from railyard.work.training import Layout, Machine, Training, estimate, profiles
from railyard.work.training.blocks import grouped
from railyard.work.training.columns import Columns
from railyard.work.training.compute import stage_times
from railyard.work.training.stages import virtual_stages

# MooreThreads/SimuMax, efficiency of grouped products on a B200 against 2,250 TFLOP/s.
TABLE = Path(__file__).resolve().parents[3] / "validation" / "data" / "kernels" / "b200_bf16_ceperm.json"
PEAK = 2250e12
# The one constant that is fitted on the table.
SHARE = 0.6


@pytest.fixture(scope="module")
def known():
    return catalog.load()


@pytest.fixture(scope="module")
def shapes():
    measured = json.loads(TABLE.read_text())["accelerator"]["op"]["group_matmul"]["accurate_efficient_factor"]
    return [_shape(text, share) for text, share in measured.items()]


def _shape(text, share):
    cell = dict(re.findall(r"(\w+)=([\w.]+)", text))
    groups, m, n, k = (int(cell[name]) for name in ("ng", "M", "N", "K"))
    bytes_of = {"bf16": 2.0, "fp32": 4.0}[cell["main_grad_dtype"]]
    seconds = 2.0 * groups * m * n * k / (share * PEAK)
    return {"groups": groups, "m": m, "n": n, "k": k, "stage": cell["stage"], "grad": bytes_of, "seconds": seconds}


def job(known, device="b200-sxm", *, precision="bf16", model="qwen3-30b-a3b", software=None, **layout):
    accelerator = known.accelerator(device)
    plain = {"dp": 8, "ep": 8, "global_batch": 64, "micro_batch": 1}
    return Training(
        model=known.model(model),
        layout=Layout(**{**plain, **layout}),
        seq_len=4096,
        precision=precision,
        software=software or profiles.profile("megatron-2026", accelerator),
    )


def step(known, training, device="b200-sxm"):
    accelerator = known.accelerator(device)
    machine = Machine(
        accelerator=accelerator,
        scale_up_bps=accelerator.scale_up_collective_bps,
        scale_up_domain=8,
        scale_out_bps=368e9,
    )
    return estimate([training], [machine]).row(0)


def test_grouped_products_meet_108_measured_shapes(known, shapes):
    device = known.accelerator("b200-sxm")
    software = dataclasses.replace(
        profiles.profile("megatron-2026", device),
        gemm_fraction=SHARE * PEAK / (device.flops["bf16"] * device.gemm_efficiency),
        grouped_fraction=1.0,
        memory_fraction=1.0,
        joule16=0.0,  # short kernels: the table was measured cold
    )
    columns = Columns.of([job(known, software=software)], [device])
    misses, stages = [], {"fwd": "forward", "bwd_grad_act": "backward_input", "bwd_grad_w": "backward_weight"}
    for shape in shapes:
        wide = dataclasses.replace(
            columns,
            software=columns.software.replace(gradient_bytes=np.array([shape["grad"]])),
        )
        one = np.ones(1)
        sizes = {name: shape[name] * one for name in ("m", "k", "n", "groups")}
        product = grouped(wide, "x", **sizes, joined="input")
        misses.append(float(getattr(product, stages[shape["stage"]])[0]) / shape["seconds"] - 1.0)
    assert len(misses) == 108
    assert np.mean(np.abs(misses)) < 0.115
    assert abs(np.mean(misses)) < 0.06


def test_an_overlapped_exchange_costs_the_host(known):
    # Qwen3-30B on 16 H100, Megatron-Bridge 26.02 (EP overlap, no graphs) and 26.02.01 (neither): 51.3 and 28.9 s.
    eager = dataclasses.replace(profiles.profile("megatron-2026", known.accelerator("h100-sxm")), graphs=())
    plain, split = (
        step(known, job(known, "h100-sxm", precision="fp8", software=eager, overlap_expert=on), "h100-sxm")
        for on in (False, True)
    )
    assert split["step_s"] > 1.3 * plain["step_s"]
    assert plain["host_s"] > 0


def test_graphs_take_only_their_own_part_of_the_host(known):
    base = profiles.profile("megatron-2026", known.accelerator("b200-sxm"))
    hosts = [
        step(known, job(known, precision="fp8", software=dataclasses.replace(base, graphs=scopes)))["host_s"]
        for scopes in ((), ("moe_router",), ("moe_router", "moe_preprocess"), ("attn", "moe_router", "moe_preprocess"))
    ]
    assert hosts == sorted(hosts, reverse=True)
    assert len(set(hosts)) == 4
    whole = dataclasses.replace(base, graphs=("layer",))
    assert step(known, job(known, precision="fp8", software=whole))["host_s"] < 0.02 * hosts[0]


@pytest.mark.parametrize(
    ("modules", "least", "most"),
    [(("moe_act",), 0.002, 0.08), (("layernorm",), 0.001, 0.08), (("moe",), 0.1, 0.4), (("core_attn",), 0.01, 0.2)],
)
def test_a_module_computed_again_costs_its_forward_pass(known, modules, least, most):
    base = dataclasses.replace(profiles.profile("megatron-2026", known.accelerator("b200-sxm")), graphs=("layer",))
    kept = step(known, job(known, software=base, micro_batch=4))["step_s"]
    again = step(known, job(known, software=base, micro_batch=4, recompute_modules=modules))["step_s"]
    assert least < again / kept - 1.0 < most


def test_up_projections_again_only_in_latent_attention(known):
    base = profiles.profile("megatron-2026", known.accelerator("b200-sxm"))
    kept, again = (
        step(known, job(known, software=base, micro_batch=4, recompute_modules=modules))["compute_s"]
        for modules in ((), ("mla_up_proj",))
    )
    assert again == pytest.approx(kept, rel=1e-9)


def test_words_of_the_dispatcher_count_copies(known):
    base = profiles.profile("megatron-2026", known.accelerator("b200-sxm"))
    every, once = (
        step(known, job(known, software=dataclasses.replace(base, dispatcher=kind)))["expert_s"]
        for kind in ("alltoall", "deepep")
    )
    # 8 experts on 8 ranks: 8 (1 - (7/8)^8) = 5.25 ranks are reached on average; latency does not shrink.
    assert once / every == pytest.approx(8 * (1 - (7 / 8) ** 8) / 8, rel=0.06)


def test_a_checkpoint_costs_a_host_that_is_the_limit(known):
    # Moonlight on 8 H100, one micro-batch: 457 ms; layernorm and moe_act again 507 ms (+11 %), core_attn 475 ms (+4 %).
    base = profiles.profile("megatron-2026", known.accelerator("h100-sxm"))
    layout = {"tp": 2, "dp": 4, "ep": 8, "global_batch": 4}
    kept, norms, cores = (
        step(known, job(known, "h100-sxm", software=base, recompute_modules=modules, **layout), "h100-sxm")["step_s"]
        for modules in ((), ("layernorm", "moe_act"), ("core_attn",))
    )
    assert 1.05 < norms / kept < 1.35
    assert 1.0 < cores / kept < norms / kept


# ZeRO-3 as software gathers: a block ahead, a bucket ahead, or weight by weight with a copy of each rank's
# part.

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


# Skewed routing: bounds, closed forms, and what it does to a step.


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
