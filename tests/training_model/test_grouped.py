"""Grouped products of experts against measured kernels, and the host's part of an expert layer."""

import dataclasses
import json
import re
from pathlib import Path

import numpy as np
import pytest

from railyard import catalog
from railyard.work.training import Layout, Machine, Training, estimate, profiles
from railyard.work.training.blocks import grouped
from railyard.work.training.columns import Columns

# MooreThreads/SimuMax, efficiency of grouped products on a B200 against 2,250 TFLOP/s.
TABLE = Path(__file__).resolve().parents[2] / "validation" / "data" / "kernels" / "b200_bf16_ceperm.json"
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
