"""FLOPs and parameters against published figures."""

import pytest

from railyard.model import architecture
from railyard.work.training import parameters
from railyard.work.training.compute import stage_parameters
from railyard.work.training.stages import virtual_stages


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
