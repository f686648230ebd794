"""Whole steps in closed form: consistent with themselves, with scaling laws, and with published anchors."""

import dataclasses

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from railyard.kit.errors import InputError
from railyard.model import architecture
from railyard.model.machine import Machine
from railyard.work.training import Layout, LayoutError, Training, check_fit, estimate, memory, parameters, profiles
from railyard.work.training import layout as layouts
from railyard.work.training.compute import optimizer_ps, stage_parameters, stage_times
from railyard.work.training.profiles import default
from railyard.work.training.stages import virtual_stages

PARTS = (
    "compute_s", "host_s", "tensor_s", "context_s", "expert_s", "pipeline_s", "bubble_s", "gradient_s", "parameter_s",
    "optimizer_s", "fixed_s", "jitter_s",
)  # fmt: skip


def step(training, machine):
    return estimate([training], [machine]).row(0)


def designs(job):
    return [
        job("llama-3-8b", dp=8),
        job("llama-3-8b", dp=64, zero=3, precision="fp8"),
        job("llama-3-70b", tp=8, pp=4, vp=5, dp=4, schedule="interleaved", global_batch=64),
        job("gpt-3-175b", seq_len=2048, tp=8, pp=8, dp=2, recompute="full", global_batch=128),
        job("mixtral-8x7b", dp=16, ep=8),
        job("deepseek-v3", pp=16, dp=64, ep=64, global_batch=4096),
        job("llama-3-405b", seq_len=131_072, tp=8, cp=16, pp=16, dp=1, global_batch=16),
        job("llama-3-70b", tp=4, pp=8, schedule="zero-bubble", global_batch=32),
    ]


def test_many_designs_at_once_are_each_alone(job, machine):
    trainings = designs(job) * 3
    together = estimate(trainings, [machine] * len(trainings))
    for index, training in enumerate(trainings):
        alone = step(training, machine)
        assert {name: float(getattr(together, name)[index]) for name in alone} == pytest.approx(alone, rel=1e-12)


def test_the_parts_add_up(job, machine):
    found = estimate(designs(job), [machine] * 8)
    total = np.sum([getattr(found, name) for name in PARTS], axis=0)
    assert found.step_s == pytest.approx(total, rel=1e-12)
    assert all((getattr(found, name) >= 0).all() for name in PARTS)
    assert ((found.mfu > 0.02) & (found.mfu < 0.8)).all()


def test_a_stage_of_the_task_graph_takes_what_the_closed_form_says(job, machine, h100):
    training = job("llama-3-8b", micro_batch=2, global_batch=16)
    (stage,) = virtual_stages(training.model, training.layout)
    times = stage_times(training, h100, stage)
    passes = times.forward_ps + times.backward_input_ps + times.backward_weight_ps
    assert step(training, machine)["compute_s"] == pytest.approx(8 * passes * 1e-12, rel=1e-6)
    held = training.model.parameters()
    assert optimizer_ps(training, h100, held) == pytest.approx(held * 28 / (3.35e12 * 0.9) * 1e12, rel=1e-3)


def test_bubble_of_one_forward_one_backward(job, machine):
    # (p - 1) / m of the busy time when stages are alike (Narayanan et al. 2021); the head makes the last one longer.
    for batches in (8, 32, 128):
        found = step(job("gpt-3-175b", seq_len=2048, pp=8, tp=8, global_batch=batches), machine)
        busy = sum(found[name] for name in ("compute_s", "tensor_s"))
        assert found["bubble_s"] / busy == pytest.approx(7 / batches, rel=0.12)


def test_interleaving_divides_the_bubble(job, machine):
    plain = step(job("gpt-3-175b", seq_len=2048, pp=8, tp=8, global_batch=64), machine)
    cut = step(job("gpt-3-175b", seq_len=2048, pp=8, tp=8, vp=4, schedule="interleaved", global_batch=64), machine)
    assert plain["bubble_s"] / cut["bubble_s"] == pytest.approx(4, rel=0.02)


def test_dualpipe_of_two_ranks_has_no_bubble(job, machine):
    """(p/2 - 1)(F&B + B - 3W): nothing at 2 ranks; 1 and 2 chunks at 4 and 6, which hold 1/4 and 1/6 of the layers."""
    two, four, six = (
        step(job("gpt-3-175b", seq_len=2048, tp=8, pp=pp, schedule="dualpipe", global_batch=48), machine)["bubble_s"]
        for pp in (2, 4, 6)
    )
    assert two == 0.0
    assert six / four == pytest.approx(2 * 4 / 6, rel=0.02)


def test_recomputation_costs_a_third(job, machine):
    none, full = (step(job("gpt-3-175b", seq_len=2048, tp=8, pp=8, recompute=r), machine) for r in ("none", "full"))
    assert full["compute_s"] / none["compute_s"] == pytest.approx(4 / 3, rel=0.05)


@settings(max_examples=40, deadline=None)
@given(which=st.integers(0, 7), factor=st.floats(1.0, 8.0))
def test_faster_networks_never_slow_a_step(job, machine, which, factor):
    training = designs(job)[which]
    faster = dataclasses.replace(
        machine, scale_up_bps=machine.scale_up_bps * factor, scale_out_bps=machine.scale_out_bps * factor
    )
    assert step(training, faster)["step_s"] <= step(training, machine)["step_s"] * (1 + 1e-12)


@settings(max_examples=40, deadline=None)
@given(which=st.integers(0, 7), factor=st.floats(1.0, 4.0))
def test_faster_accelerators_never_slow_a_step(job, machine, which, factor):
    training, device = designs(job)[which], machine.accelerator
    quick = dataclasses.replace(
        device,
        flops={name: rate * factor for name, rate in device.flops.items()},
        memory_bps=device.memory_bps * factor,
    )
    assert step(training, dataclasses.replace(machine, accelerator=quick))["step_s"] <= step(training, machine)[
        "step_s"
    ] * (1 + 1e-9)


def test_the_host_is_the_floor_of_small_models(job, machine):
    tiny = {"model_changes": {"hidden": 512, "heads": 8, "kv_heads": 8, "head_dim": 64, "ffn": 2048}}
    software = dataclasses.replace(job().software, launch_ps=10_000_000, layer_host_ps=1_000_000_000)
    found = step(job("llama-3-8b", seq_len=512, software=software, **tiny), machine)
    assert found["host_s"] > found["compute_s"]
    graphs = dataclasses.replace(software, cuda_graphs=True)
    assert step(job("llama-3-8b", seq_len=512, software=graphs, **tiny), machine)["host_s"] == 0.0


def published(catalog, machine, layout, *, name, seq_len, software):
    training = Training(
        model=catalog.model(name),
        layout=Layout(schedule="interleaved", overlap_tensor=True, **layout),
        seq_len=seq_len,
        precision="fp8",
        software=profiles.profile(software, machine.accelerator),
    )
    return step(training, machine)["step_s"]


@pytest.mark.parametrize(
    ("dp", "batch", "measured"), [(16, 2048, 11.052), (128, 2048, 1.609), (256, 4096, 1.619), (336, 2688, 0.930)]
)
def test_gpt3_on_eos(catalog, machine, dp, batch, measured):
    # MLPerf Training v3.1: GPT-3 175B FP8, TP 4, PP 8, VP 12, 512 to 10,752 H100.
    # Only 512 and 768 were looked at for constants.
    layout = {"tp": 4, "pp": 8, "vp": 12, "dp": dp, "global_batch": batch}
    assert published(
        catalog, machine, layout, name="gpt-3-175b", seq_len=2048, software="megatron-2023"
    ) == pytest.approx(measured, rel=0.05)


@pytest.mark.parametrize(
    ("dp", "batch", "measured"), [(4, 1152, 55.13), (16, 1152, 14.22), (20, 1120, 11.17), (64, 1536, 5.18)]
)
def test_llama_405b_on_h100(catalog, machine, dp, batch, measured):
    # MLPerf Training v5.0: Llama 3.1 405B FP8, TP 8, PP 8, CP 2, VP 8, 512 to 8,192 H100.
    layout = {"tp": 8, "pp": 8, "vp": 8, "cp": 2, "dp": dp, "global_batch": batch}
    assert published(
        catalog, machine, layout, name="llama-3-405b", seq_len=8192, software="megatron-2025"
    ) == pytest.approx(measured, rel=0.05)


def test_the_newest_profile_of_an_architecture_is_the_default(catalog, h100):
    assert profiles.default(h100).name == "megatron-2026"
    assert profiles.default(catalog.accelerator("gb200")).architecture == "blackwell"
    assert profiles.default(catalog.accelerator("a100-sxm-80gb")).architecture == "ampere"
    assert profiles.default(catalog.accelerator("tpu-v5p")).name == "maxtext"
    with pytest.raises(Exception, match="did you mean"):
        profiles.profile("megatron-2062", h100)
    assert all(known.source and known.date for known in profiles.all_profiles())


@pytest.mark.parametrize("name", ["gaudi3", "mi300x", "mi325x", "mi355x", "trainium2"])
def test_a_device_without_training_runs_keeps_no_more_of_its_kernels_than_the_least_of_the_measured(catalog, name):
    device = catalog.accelerator(name)
    found = profiles.default(device)
    assert not profiles.read_on(found, device)
    for known in ("h100-sxm", "b200-sxm", "b300-sxm", "gb200", "gb300"):
        measured = profiles.default(catalog.accelerator(known))
        assert profiles.read_on(measured, catalog.accelerator(known))
        for share in ("gemm_fraction", "fp8_fraction", "fp4_fraction", "grouped_fraction", "attention_forward"):
            # H100 has no 4-bit units, so its share of them was read off nothing.
            if known != "h100-sxm" or share != "fp4_fraction":
                assert getattr(found, share) <= getattr(measured, share)


# FLOPs and parameters against published figures.


def test_gpt3_follows_megatrons_formula(catalog):
    # Narayanan et al. 2021, eq. 3 without recomputation: 72 B s l h^2 (1 + s / 6h + V / 12 l h) for a whole batch.
    model, s = catalog.model("gpt-3-175b"), 2048
    layers, hidden = model.layers, model.hidden
    expected = 72 * layers * hidden**2 * (1 + s / (6 * hidden) + model.vocab / (12 * layers * hidden))
    assert architecture.model_flops_per_token(model, s, causal=False) == pytest.approx(expected, rel=1e-6)


def test_llama_405b_takes_the_flops_that_its_paper_states(catalog):
    # 3.8e25 FLOPs for 15.6T tokens (Llama 3 Herd of Models, section 3.2.1, 6 N D) at sequences of 8,192.
    per_token = architecture.model_flops_per_token(catalog.model("llama-3-405b"), 8192, causal=True)
    assert 15.6e12 * per_token == pytest.approx(3.8e25, rel=0.06)


@pytest.mark.parametrize(
    ("name", "seq_len", "tokens_per_s", "tflops"),
    [
        # Megatron-Bridge performance summary 25.09 (Apache-2.0): tokens/s/GPU and TFLOP/s/GPU of the same rows.
        ("llama-3-8b", 8192, 29994, 1544),
        ("llama-3-405b", 8192, 661, 1667),
    ],
)
def test_nvidias_tflops_follow_from_its_tokens(catalog, name, seq_len, tokens_per_s, tflops):
    per_token = architecture.model_flops_per_token(catalog.model(name), seq_len, causal=True)
    assert tokens_per_s * per_token / 1e12 == pytest.approx(tflops, rel=0.02)


def test_experts_count_only_when_visited(catalog):
    model = catalog.model("deepseek-v3")
    # 37B active parameters of 671B: without the embedding (0.9B), attention apart, 6 N a token.
    weights = architecture.matrix_weights(model)
    ahead = model.mtp_layers * (2 * model.hidden**2 + model.vocab * model.hidden)
    assert 30e9 < weights - ahead < 40e9


def test_recomputation_costs_a_forward_pass(catalog):
    model, seq_len = catalog.model("gpt-3-175b"), 2048
    useful = architecture.model_flops_per_token(model, seq_len)
    full = architecture.hardware_flops_per_token(model, seq_len, recompute="full")
    core = architecture.hardware_flops_per_token(model, seq_len, recompute="selective")
    assert full == pytest.approx(useful * 4 / 3, rel=0.02)
    assert core - useful == pytest.approx(architecture.attention_flops(model, seq_len, causal=True))


@pytest.mark.parametrize("name", ["gpt-3-175b", "llama-3-70b", "llama-3-405b", "mixtral-8x7b", "deepseek-v3"])
def test_ranks_hold_the_whole_model_together(catalog, job, name):
    layout = {"tp": 4, "pp": 4, "dp": 8, "ep": 8 if catalog.model(name).experts else 1}
    training = job(name, **layout)
    model = training.model
    stages = [stage_parameters(training, stage) for stage in virtual_stages(model, training.layout)]
    experts = sum(stage.expert for stage in stages) * layout["ep"]
    dense = sum(stage.dense for stage in stages) * layout["tp"]
    # Norms, router and low-rank projections are on every tensor-parallel rank: at most a few per cent more.
    total = model.parameters() + model.mtp_parameters()
    assert total * 0.999 <= experts + dense <= total * 1.05


def test_tensor_parallel_ranks_split_the_matrices(job):
    whole, split = (parameters.layer_dense(job(tp=tp).model, job(tp=tp).layout) for tp in (1, 8))
    assert whole / split == pytest.approx(8, rel=0.001)


# A device without units for a precision refuses the job; what does not fit shows the smallest layout there
# is.


def job(catalog, device, precision):
    return Training(
        model=catalog.model("llama-3.1-8b"),
        layout=Layout(global_batch=64, dp=8, tp=8, recompute="full"),
        seq_len=2048,
        software=default(device),
        precision=precision,
    )


@pytest.mark.parametrize(
    ("device", "precision", "allowed"),
    [("h100-sxm", "fp4", "bf16, fp16, fp8"), ("a100-sxm-80gb", "fp8", "bf16, fp16"), ("tpu-v5p", "fp8", "bf16")],
)
def test_a_precision_without_units_is_refused(catalog, device, precision, allowed):
    found = catalog.accelerator(device)
    with pytest.raises(InputError) as caught:
        check_fit(job(catalog, found, precision), found)
    problem = caught.value.problems[0]
    assert (problem.key, problem.found, problem.allowed) == ("precision", precision, allowed)


@pytest.mark.parametrize(("device", "precision"), [("h100-sxm", "fp8"), ("gb200", "fp4"), ("v100-sxm2-32gb", "bf16")])
def test_a_precision_with_units_of_that_width_is_taken(catalog, device, precision):
    found = catalog.accelerator(device)
    assert check_fit(job(catalog, found, precision), found).fits


def test_where_nothing_fits_the_smallest_layout_is_shown(catalog):
    device, model = catalog.accelerator("h100-sxm"), catalog.model("llama-3.1-405b")
    machine = Machine(
        accelerator=device, scale_up_bps=device.scale_up_bps, scale_up_domain=8, scale_out_bps=400e9, nvls=True
    )
    with pytest.raises(LayoutError) as caught:
        layouts.auto(model, machine, 16, global_batch=64, seq_len=8192, software=default(device))
    search = layouts.Search(accelerators=16, domain=8, global_batch=64, seq_len=8192, fixed={})
    job = Training(model=model, layout=Layout(global_batch=64), seq_len=8192, software=default(device))
    smallest = min(
        memory(job.replace(layout=found.replace(recompute="full")), device).fullest.total_bytes
        for found in layouts.layouts(model, search)
    )
    assert caught.value.table.fullest.total_bytes == pytest.approx(smallest)
    assert str(caught.value).splitlines()[-1].strip().startswith("take more accelerators")
