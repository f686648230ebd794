"""The law of an iteration, part by part, with round rates and uneven sizes: every constant counts."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from railyard import catalog
from railyard.model.architecture import ModelColumns, busiest
from railyard.model.machine import Machine
from railyard.work.serving.iteration import IterationLoad, parts, prompts_on_copies
from railyard.work.serving.layout import Deployments, ServingLayout
from railyard.work.serving.memory import cache_tokens, sequences, weight_bytes, workspace_bytes
from railyard.work.serving.software import ServingSoftware, ServingSoftwareColumns

KNOWN = catalog.load()
SOFTWARE = ServingSoftware(
    name="round",
    weights_fraction=0.8,
    expert_fraction=0.6,
    gemm_fraction=0.5,
    grouped_fraction=0.3,
    kv_fraction=0.4,
    attention_fraction=0.25,
    latent_fraction=0.7,
    pass_bytes=30.0,
    layer_s=20e-6,
    moe_layer_s=7e-6,
    latent_layer_s=5e-6,
    index_layer_s=9e-6,
    prompt_layer_s=0.2e-3,
    prompt_latent_s=0.5e-3,
    reduce_s=10e-6,
    reduce_fraction=0.5,
    exchange_s=25e-6,
    exchange_fraction=0.6,
    host_s=1e-3,
    host_per_sequence_s=4e-6,
    skew=1.3,
)
#: Bytes/s and FLOP/s that are easy to divide by.
RATES = {"hbm_bytes_s": 1e12, "gemm16": 1e14, "best8": 2e14, "attention": 1e14}


def rows(model, domain, device="h200-sxm", *, up_bytes_s=1e11, out_bytes_s=1e10, **layout):
    machine = Machine(
        accelerator=KNOWN.accelerator(device),
        scale_up_bps=8 * up_bytes_s,
        scale_up_domain=domain,
        scale_out_bps=8 * out_bytes_s,
    )
    found = Deployments.of((KNOWN.model(model), ServingLayout(**layout), machine))
    return replace(found, device=found.device.replace(**{name: np.array([rate]) for name, rate in RATES.items()}))


def found(deployments, tokens, sequences, kv_tokens, pairs):
    load = IterationLoad(*(np.array([float(value)]) for value in (tokens, sequences, kv_tokens, pairs)))
    times = parts(deployments, ServingSoftwareColumns([SOFTWARE]), load)
    return {name: float(getattr(times, name)[0]) for name in times.__slots__}


def both(one, other):
    """Two times that overlap: their third-power mean."""
    return (one**3 + other**3) ** (1 / 3)


@pytest.mark.parametrize(
    ("tp", "reduce_s"),
    [
        # 4 ranks: two flags beyond two; in one shot 10 tokens x 8,192 x 2 bytes of 3 peers at half of 100 GB/s.
        (4, 10e-6 * 1.06 + 3 * 163_840 / 5e10),
        # 8 ranks in two domains of 4: a second shot, 2 x 12 us more, and half of what 4 NICs of 10 GB/s carry.
        (8, 10e-6 * 1.06 + 20e-6 + 24e-6 + 1.75 * 163_840 / 2e10),
    ],
)
def test_a_dense_model(tp, reduce_s):
    """Llama 3 70B: 80 layers of 8,192, 64 heads of 128 and 8 of keys, 28,672 in between, 128,256 words."""
    times = found(rows("llama-3-70b", 4, tp=tp), 10, 6, 9000, 500)
    held = 80 * (8192 * 128 * 144 + 3 * 8192 * 28672) / tp
    head = 2 * 128_256 * 8192 / tp
    layers = both(2 * held / 0.8e12, 2 * held * 10 / 0.5e14)
    assert times["matrices"] == pytest.approx(layers + both(head / 0.8e12, head * 6 / 0.5e14), rel=1e-3)
    assert times["cache"] == pytest.approx(80 * 9000 * 2 * 8 * 128 * 2 / tp / 0.4e12, rel=1e-9)
    assert times["prompt"] == pytest.approx(80 * 2 * 500 * 64 / tp * 256 / 0.25e14, rel=1e-9)
    assert times["passes"] == pytest.approx(80 * 10 * 8192 * 30 / 1e12, rel=1e-9)
    assert times["kernels"] == pytest.approx(80 * 20e-6, rel=1e-9)
    assert times["network"] == pytest.approx(160 * reduce_s, rel=1e-9)
    device = sum(times[name] for name in ("matrices", "cache", "prompt", "passes", "kernels", "network"))
    # 80 layers of 0.2 ms of launches, which the host begins while the device works: the longer of both counts.
    assert times["host"] == pytest.approx(1e-3 + 6 * 4e-6 + both(device, 80 * 0.2e-3) - device, rel=1e-9)
    assert times["experts"] == 0


def test_large_all_reduces_take_two_shots():
    """1,000 tokens of 16 KiB on 4 ranks: 3 messages would take 0.98 ms at 50 GB/s, two shots of 3/4 take 0.51 ms."""
    times = found(rows("llama-3-70b", 4, tp=4), 1000, 6, 9000, 500)
    assert times["network"] == pytest.approx(160 * (10.6e-6 + 20e-6 + 1.5 * 1000 * 16_384 / 5e10), rel=1e-9)


def test_stages_of_a_pipeline_pass_on_what_they_have():
    """Three passes of 12 us between four stages."""
    assert found(rows("llama-3-70b", 8, tp=1, pp=4), 10, 6, 9000, 500)["network"] == pytest.approx(36e-6)


def test_experts_within_a_server():
    """DeepSeek-V3 in 8 bits on 8 ranks with attention of their own: 58 of 61 layers have 256 experts of 2,048."""
    times = found(rows("deepseek-v3", 8, dp_attention=8, ep=8, precision="fp8"), 40, 40, 90_000, 0)
    expert = 3 * 7168 * 2048
    visited = float(busiest(*(np.array([value]) for value in (256.0, 8.0, 40.0, 8.0)))[0])
    padded = 40 * 8 / 8 * 1.3 + visited * 64
    seconds = both(visited * expert / 0.6e12, 2 * padded * expert / (2e14 * 0.3 * 0.6))
    assert times["experts"] == pytest.approx(58 * seconds, rel=1e-9)
    # Kernels: 61 layers, all with latent attention, 58 with experts.
    assert times["kernels"] == pytest.approx(61 * 25e-6 + 58 * 7e-6, rel=1e-9)
    # All 40 tokens go to every rank and come back, 2 bytes an element each way: 7 others of 5 tokens each.
    near = 5 * 7168 * 4 * 7 / (1e11 * 0.6)
    assert times["network"] == pytest.approx(58 * (2 * 25e-6 + near), rel=1e-9)
    # Attention of 11,250 cached tokens a rank over 512 + 64 elements of 2 bytes, 128 heads of 2 x 512 + 64.
    memory, units = 11_250 * 576 * 2 / 0.4e12, 2 * 11_250 * 128 * 1088 / (1e14 * 0.7)
    assert times["cache"] == pytest.approx(61 * both(memory, units), rel=1e-9)


def test_experts_beyond_a_domain():
    """On 16 ranks in domains of 4 halves take turns; a token goes once to each of 3 other domains, by slow NICs."""
    slow = rows("deepseek-v3", 4, out_bytes_s=2e9, dp_attention=16, ep=16, precision="fp8")
    times = found(slow, 64_000, 16, 0, 0)
    far = 32_000 / 16 * 7168 * 3 * 3 / (2e9 * 0.6)
    network = 2 * 58 * (2 * 25e-6 + 2 * 12e-6 + far)
    others = sum(times[name] for name in ("matrices", "experts", "passes", "kernels"))
    assert others < network
    assert times["network"] == pytest.approx(network - others, rel=1e-9)
    assert times["kernels"] == pytest.approx(2 * (61 * 25e-6 + 58 * 7e-6), rel=1e-9)


def test_an_index_picks_2048_keys():
    """DeepSeek-V3.2: the index reads 132 bytes of every cached token, and has kernels of its own in every layer."""
    times = found(rows("deepseek-v3.2", 8, tp=8, precision="fp8"), 3, 3, 30_000, 0)
    seen = 3 * 2048
    memory, units = seen * 576 * 2 / 0.4e12, 2 * seen * 128 / 8 * 1088 / (1e14 * 0.7)
    assert times["cache"] == pytest.approx(61 * (both(memory, units) + 30_000 * 132 / 0.4e12), rel=1e-9)
    assert times["kernels"] == pytest.approx(61 * (20e-6 + 5e-6 + 9e-6) + 58 * 7e-6, rel=1e-9)


@pytest.mark.parametrize(
    ("ranks", "above"),
    [(1, 0), (2, 0.564), (4, 1.029), (8, 1.424), (16, 1.766), (32, 2.070), (64, 2.344), (128, 2.594), (256, 2.827)],
)
def test_the_busiest_rank_stands_above_the_mean_as_the_largest_normal_number(ranks, above):
    """Expected maxima of Harter 1961; 100 tokens of 2 among 1,024 experts find 1,024 (1 - (1 - 1/512)^100)."""
    mean = 1024 * (1 - (511 / 512) ** 100) / ranks
    spread = (mean * (1 - mean * ranks / 1024)) ** 0.5
    most = float(busiest(*(np.array([value]) for value in (1024.0, 2.0, 100.0, float(ranks))))[0])
    assert most == pytest.approx(min(mean + above * spread, 1024 / ranks), rel=1e-6)


@pytest.mark.parametrize(
    ("model", "published", "within"),
    [("mixtral-8x22b", 39e9, 0.01), ("deepseek-v3", 37e9, 0.02), ("llama-3-70b", 70.6e9, 0.002)],
)
def test_active_parameters_are_the_published_ones(model, published, within):
    assert ModelColumns([KNOWN.model(model)]).active_parameters[0] == pytest.approx(published, rel=within)


@pytest.mark.parametrize(
    ("model", "layout", "tokens", "most", "allocator_bytes"),
    [
        # 1 GB of libraries, half of communicators; 2 bytes of 3,000 x (3 x 28,672 / 4 + 2 x 8,192).
        ("llama-3-70b", {"tp": 4}, 3000, 100, 1.5e9 + 2 * 3000 * (21_504 + 16_384)),
        # 6 bytes of 1,000 x 128,256 logits are more than a layer of 100 tokens; one rank has no communicators.
        ("llama-3-70b", {}, 100, 1000, 1.0e9 + 6 * 1000 * 128_256),
        # Two experts of 16,384 on one rank for each token, with their inputs; the residual in and out.
        ("mixtral-8x22b", {}, 3000, 10, 1.0e9 + 2 * 3000 * (2 * (3 * 16_384 + 6144) + 2 * 6144)),
        # The defaults of large devices: 8,192 tokens and 1,024 sequences.
        ("llama-3-70b", {"tp": 4}, None, None, 1.5e9 + 6 * 1024 * 128_256),
    ],
)
def test_workspace(model, layout, tokens, most, allocator_bytes):
    assert workspace_bytes(rows(model, 8, **layout), tokens, most)[0] == pytest.approx(allocator_bytes, rel=1e-9)


def test_workspace_of_a_small_device():
    """2,048 tokens and 256 sequences below 70 GB: 2 x 2,048 x (3 x 14,336 + 2 x 4,096) against 6 x 256 x 128,256."""
    assert workspace_bytes(rows("llama-3-8b", 1, device="l40s"))[0] == pytest.approx(1e9 + 2 * 2048 * 51_200)


def test_sequences_that_fit():
    """Llama 3 8B: 2 x 32 layers x 8 heads x 128 x 2 bytes a token; 70 % of the device, less weights and workspace."""
    deployments = rows("llama-3-8b", 1)
    held = weight_bytes(deployments)[0] + workspace_bytes(deployments, 2000, 30)[0]
    tokens = (0.7 * deployments.device.memory_bytes[0] - held) / 131_072
    found_tokens = cache_tokens(deployments, share=0.7, tokens=2000, most=30)[0]
    assert found_tokens == pytest.approx(tokens, rel=1e-9)
    usual = cache_tokens(deployments)[0]
    assert sequences(deployments, np.array([3000.0]))[0] == usual // 3000
    assert sequences(deployments, np.array([3000.0]), 7)[0] == 7
    assert sequences(deployments, np.array([2 * usual]), 7)[0] == 7  # does not fit, and yet is known to run


def test_scales_of_mxfp4_take_a_quarter_of_a_bit():
    """gpt-oss-120b: experts of 4 bits, a scale of 8 bits for each 32 of them; over 4 ranks."""
    deployments = rows("gpt-oss-120b", 8, tp=4, precision="mxfp4")
    wide = replace(deployments, layout=deployments.layout.replace(expert_bits=np.array([8.0])))
    experts = float((deployments.model.total_parameters * deployments.model.expert_share)[0])
    assert (weight_bytes(wide) - weight_bytes(deployments))[0] == pytest.approx(experts * (8 - 4.25) / 8 / 4, rel=1e-9)


@pytest.mark.parametrize(
    ("device", "tp", "elements"),
    [
        ("a100-sxm-80gb", 1, 3072 * 2944),  # 2,880 x 2,880 in tiles of 256 and 128
        ("l40s", 4, 4 * 3072 * 768),  # 720 of the intermediate dimension on each rank
        ("h200-sxm", 1, 2880 * 2880),
    ],
)
def test_experts_in_four_bits_fill_the_tiles_of_marlin(device, tp, elements):
    """gpt-oss-20b: 24 layers of 32 experts of three matrices in 4.25 bits; vLLM, `Mxfp4MoEMethod.create_weights`."""
    deployments = rows("gpt-oss-20b", 8, device=device, tp=tp, precision="mxfp4")
    bare = replace(deployments, layout=deployments.layout.replace(expert_padding=np.array([1.0])))
    more = 24 * 32 * 3 * (elements - 2880 * 2880) * 4.25 / 8 / tp
    assert (weight_bytes(deployments) - weight_bytes(bare))[0] == pytest.approx(more, rel=2e-3, abs=1.0)


def test_scales_of_nvfp4_take_half_a_bit_and_are_read_with_the_weights():
    """Llama 3 70B in fp4 over 4 ranks, one token: 4.5 bits of each dense weight at 0.6 of 0.8 TB/s, little math.

    Two of a layer's four products quantise their activations first, 3 us each.
    """
    times = found(rows("llama-3-70b", 4, device="b200-sxm", tp=4, precision="fp4"), 1, 0, 0, 0)
    held = 80 * (8192 * 128 * 144 + 3 * 8192 * 28672) / 4
    head = 2 * 128_256 * 8192 / 4
    assert times["matrices"] == pytest.approx(held * 4.5 / 8 / 0.48e12 + head / 0.8e12 + 80 * 6e-6, rel=2e-3)


def test_links_of_a_domain_that_are_slower_than_nics():
    """A token goes to 7.5 of 16 ranks on average: 8 experts, one in 16 at home."""
    slow = rows("deepseek-v3", 4, up_bytes_s=2e9, out_bytes_s=1e11, dp_attention=16, ep=16, precision="fp8")
    times = found(slow, 64_000, 16, 0, 0)
    near = 32_000 / 16 * 7168 * 3 * 7.5 / (2e9 * 0.6)
    network = 2 * 58 * (2 * 25e-6 + 2 * 12e-6 + near)
    assert times["network"] == pytest.approx(
        network - sum(times[name] for name in ("matrices", "experts", "passes", "kernels")), rel=1e-9
    )


def test_copies_of_a_token_for_its_experts_move_bytes():
    """Eight bytes an element of the input, ten of a rank's part of the row in between, for each of eight experts."""
    times = found(rows("deepseek-v3", 8, tp=4, ep=2, precision="fp8"), 40, 40, 90_000, 0)
    residual = 61 * 40 * 7168 * 30
    # Two of the four ranks share an expert's 2,048 rows; two groups of experts have four copies each.
    copies = 58 * 40 * 8 / 2 * (8 * 7168 + 10 * 2048 / 2)
    assert times["passes"] == pytest.approx((residual + copies) / 1e12, rel=1e-9)


@pytest.mark.parametrize(
    ("device", "precision", "width", "rate", "launch"),
    [("b200-sxm", "fp8", 1.0, 2e14 * 0.3 * 0.6, 1.0), ("b200-sxm", "fp4", 4.5 / 8, 2e14 * 0.3 * 0.85, 0.4)],
)
def test_experts_of_few_bits(device, precision, width, rate, launch):
    """Grouped products reach 0.6 of 16 bits' share of their units in 8 bits, 0.85 in 4, where one kernel does all."""
    replica = rows("deepseek-v3", 8, device=device, tp=4, precision=precision)
    replica = replace(replica, device=replica.device.replace(best4=np.array([2e14])))
    expert = 3 * 7168 * 2048 / 4
    visited = float(busiest(*(np.array([value]) for value in (256.0, 8.0, 40.0, 1.0)))[0])
    seconds = both(visited * expert * width / 0.6e12, 2 * (40 * 8 + visited * 64) * expert / rate)
    times = found(replica, 40, 40, 90_000, 0)
    assert times["experts"] == pytest.approx(58 * seconds, rel=1e-9)
    assert times["kernels"] == pytest.approx(61 * 25e-6 + 58 * 7e-6 * launch, rel=1e-9)


def test_weights_of_eight_bits_are_read_more_slowly():
    """A tenth less of the memory rate takes a tenth longer, of dense layers alone."""
    times = []
    for narrow in (1.0, 0.9):
        constants = ServingSoftwareColumns([replace(SOFTWARE, narrow_fraction=narrow)])
        load = IterationLoad(*(np.array([value]) for value in (1.0, 0.0, 0.0, 0.0)))
        times.append(float(parts(rows("llama-3-70b", 4, tp=4, precision="fp8"), constants, load).matrices[0]))
    head = 2 * 128_256 * 8192 / 4 / 0.8e12
    assert (times[1] - head) / (times[0] - head) == pytest.approx(1 / 0.9, rel=1e-3)


def test_a_prompt_lies_on_one_copy_of_attention():
    """Five prompts of 300 tokens on four copies: one has two, and the others wait for it."""
    replica = rows("deepseek-v3", 8, dp_attention=4, ep=4, precision="fp8")
    count, tokens = np.array([5.0]), np.array([300.0])
    most = prompts_on_copies(replica.model, count, tokens, replica.layout.dp, np.array([12.0]))
    assert most["copy_tokens"].tolist() == [603.0]
    assert most["copy_pairs"].tolist() == [2 * 300**2 / 2]
    even = IterationLoad(np.array([1512.0]), np.array([17.0]), np.array([0.0]), np.array([225_000.0]))
    one, other = (parts(replica, ServingSoftwareColumns([SOFTWARE]), load) for load in (even, replace(even, **most)))
    # 90,000 pairs in the place of 56,250; 603 residuals in the place of 378, with the same copies for experts.
    assert float(other.prompt[0] / one.prompt[0]) == pytest.approx(1.6)
    assert float(other.passes[0] - one.passes[0]) == pytest.approx(61 * 225 * 7168 * 30 / 1e12)
    assert float(other.experts[0]) == float(one.experts[0])
    assert float(other.network[0]) == float(one.network[0])
