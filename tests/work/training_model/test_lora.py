"""Adapters beside a frozen model: their weights by hand, and what a step no longer does."""

import dataclasses

import numpy as np
import pytest

from railyard import catalog
from railyard.graph import CollectiveKind
from railyard.kit.errors import InputError
from railyard.model import architecture
from railyard.model.machine import Machine
from railyard.work.training import Layout, Lora, SoftwareProfile, Training, compute, operators, profiles
from railyard.work.training.columns import Columns
from railyard.work.training.compute import stage_parameters, stage_times, weight_cast_s
from railyard.work.training.designs import estimate
from railyard.work.training.lora import adapters_of_layer, check_lora
from railyard.work.training.memory import memory
from railyard.work.training.offload import Offload
from railyard.work.training.passes import layer_passes
from railyard.work.training.stages import PipelineRanks, virtual_stages

KNOWN = catalog.load()
MODEL, DEVICE = KNOWN.model("llama-3.1-8b"), KNOWN.accelerator("h100-sxm")
SOFTWARE = profiles.profile("torchtitan-2025", DEVICE)


def job(lora=None, **layout):
    sizes = {"global_batch": 32, "micro_batch": 2, **layout}
    return Training(model=MODEL, layout=Layout(**sizes), seq_len=4096, software=SOFTWARE, lora=lora)


def parts(training):
    return estimate([training], [Machine.of_device(DEVICE, 368e9, 8)]).row(0)


def test_weights_of_adapters_by_hand():
    # Llama 3.1 8B: hidden 4096, 32 heads of 128, 8 groups, width 14336. Rank 16 on every product:
    # query 16 (4096 + 4096), key and value 16 (4096 + 1024) each, output as query; up, gate and down 16 (18432) each.
    attention = 16 * (8192 + 2 * 5120 + 8192)
    every = attention + 16 * 3 * 18432
    assert adapters_of_layer(MODEL, Layout(global_batch=1), Lora(rank=16), experts=False) == every
    of_attention = Lora(rank=16, targets="attention")
    assert adapters_of_layer(MODEL, Layout(global_batch=1), of_attention, experts=False) == attention
    # Four tensor-parallel ranks: A of query, key, value, up and gate is whole, B a quarter; of output and down the
    # other way round.
    split = 16 * (4096 + 1024 + 2 * (4096 + 256) + 1024 + 4096 + 2 * (4096 + 3584) + 3584 + 4096)
    assert adapters_of_layer(MODEL, Layout(global_batch=1, tp=4), Lora(rank=16), experts=False) == split
    # One adapter beside each fused product: 16 (4096 + 6144), 16 (4096 + 2 x 14336).
    fused = every - 16 * 2 * 4096 - 16 * 4096
    assert adapters_of_layer(MODEL, Layout(global_batch=1), Lora(rank=16), experts=False, fused=True) == fused
    (stage,) = virtual_stages(MODEL, Layout(global_batch=1))
    held = stage_parameters(job(Lora(rank=16)), stage)
    assert (held.trained_dense, held.trained_expert) == (32 * every, 0)
    assert held.dense == stage_parameters(job(), stage).dense == stage_parameters(job(), stage).trained_dense
    plain = job(Lora(rank=16))  # side by side, too, each job has the adapters of its own software
    both = PipelineRanks.of([plain, plain.replace(software=dataclasses.replace(SOFTWARE, fused_adapters=True))])
    assert both.last.trained_dense.tolist() == [32 * every, 32 * fused]


def test_frozen_products_have_no_gradient_of_their_weight():
    whole, frozen = (
        layer_passes(Columns.of([job(one)], [DEVICE])) for one in (None, Lora(rank=16, targets="attention"))
    )
    assert frozen.mlp.backward_weight[0] == 0.0
    assert frozen.mlp.backward_input[0] == whole.mlp.backward_input[0]
    assert frozen.mlp.forward[0] == whole.mlp.forward[0]
    assert frozen.head.backward_weight[0] == 0.0
    assert 0.0 < frozen.attention.backward_weight[0] < 0.35 * whole.attention.backward_weight[0]
    assert frozen.attention.forward[0] > whole.attention.forward[0]
    assert frozen.embedding.backward_input[0] == 0.0
    # Two of the three products of a dense layer's matrices are left to launch behind it.
    assert frozen.mlp.host_backward[0] < whole.mlp.host_backward[0]


def test_frozen_weights_want_no_second_copy_of_their_operands():
    """Of 2 bytes read, 1 and 1 written for each element, the last stays away: gate and up, and down, forward."""
    eight = {"precision": "fp8", "software": dataclasses.replace(SOFTWARE, cast_bytes=4.0)}
    whole, frozen = (
        layer_passes(Columns.of([job(one).replace(**eight)], [DEVICE]))
        for one in (None, Lora(rank=16, targets="attention"))
    )
    columns = Columns.of([job()], [DEVICE])
    memory = columns.device.hbm_bytes_s[0] * SOFTWARE.memory_fraction
    saved = 2 * 4096 * (4096 + 14336) / memory
    assert whole.mlp.forward[0] - frozen.mlp.forward[0] == pytest.approx(saved, rel=1e-6)


def test_frozen_weights_are_cast_once_and_not_each_step():
    """8.03 billion weights, 4 bytes each through 3.35 TB/s at 0.9: 10.7 ms that a step with adapters does not have."""
    eight = {"precision": "fp8", "software": dataclasses.replace(SOFTWARE, cast_bytes=0.0, memory_fraction=1e9)}
    held = np.array([8.03e9])
    whole, frozen = (Columns.of([job(one).replace(**eight)], [DEVICE]) for one in (None, Lora(rank=16)))
    once_s = 4 * 8.03e9 / (3.35e12 * 0.9)
    batches = job().layout.micro_batches
    assert batches > 1
    assert batches * weight_cast_s(whole, held)[0] == pytest.approx(once_s, rel=0.02)
    assert weight_cast_s(frozen, held)[0] == 0.0
    sharded = Columns.of([job(Lora(rank=16), zero=3, dp=8, global_batch=64).replace(**eight)], [DEVICE])
    assert weight_cast_s(sharded, held)[0] > 0.0


def test_a_step_with_adapters_is_shorter_but_not_by_a_third():
    whole, adapted, few = (parts(job(one)) for one in (None, Lora(), Lora(targets="attention")))
    assert 0.68 < few["step_s"] / whole["step_s"] < adapted["step_s"] / whole["step_s"] < 0.95
    assert adapted["optimizer_s"] < 0.02 * whole["optimizer_s"]


def test_fused_products_have_one_adapter_each():
    fused = dataclasses.replace(SOFTWARE, fused_adapters=True)
    separate, joint = (
        layer_passes(Columns.of([job(Lora(rank=16)).replace(software=one)], [DEVICE])) for one in (SOFTWARE, fused)
    )
    # Backward the sum of the input's gradient is read and written once in place of three times: 2 x 6 B of
    # 2 x 4,096 tokens x 4,096 features are saved in attention, 1 x 6 B in the MLP, and the products of A.
    memory = DEVICE.memory_bps / 8 * DEVICE.memory_efficiency * SOFTWARE.memory_fraction
    saved = 6 * 8192 * 4096 / memory
    assert 2 * saved < separate.attention.backward_input[0] - joint.attention.backward_input[0] < 3 * saved
    assert saved < separate.mlp.backward_input[0] - joint.mlp.backward_input[0] < 1.7 * saved
    assert joint.attention.forward[0] < separate.attention.forward[0]


def test_flops_of_a_frozen_model_are_two_thirds_of_its_products():
    products = 6.0 * architecture.matrix_weights(MODEL)
    scores = 3.0 * architecture.attention_flops(MODEL, 4096, causal=True)
    assert architecture.model_flops_per_token(MODEL, 4096, frozen=True) == pytest.approx(products * 2 / 3 + scores)
    assert architecture.model_flops_per_token(MODEL, 4096) == pytest.approx(products + scores)


def test_memory_holds_the_model_once_and_the_state_of_adapters():
    # 8.03e9 weights in 16 bits; 41.9e6 adapters with 4 bytes of gradient and 12 of state.
    (row,) = memory(job(Lora(rank=16)), DEVICE).rows
    assert row.parameters_bytes == pytest.approx(2 * 8.03e9, rel=0.01)
    assert row.gradients_bytes == pytest.approx(4 * 41.9e6, rel=0.01)
    assert row.optimizer_bytes == pytest.approx(12 * 41.9e6, rel=0.01)
    # Frozen weights of 4-bit products are 4-bit numbers with a scale each 16, in both orders; the ends keep 16 bits.
    ends = 2 * 128256 * 4096
    (four,) = memory(job(Lora(rank=16)).replace(precision="fp4"), DEVICE).rows
    assert four.parameters_bytes == pytest.approx(1.125 * (8.03e9 - ends) + 2 * ends, rel=0.01)
    (whole,) = memory(job(), DEVICE).rows
    assert whole.optimizer_bytes == pytest.approx(12 * 8.03e9, rel=0.01)
    (few,) = memory(job(Lora(rank=16, targets="attention")), DEVICE).rows
    assert few.activations_bytes < row.activations_bytes


@pytest.mark.parametrize("profile", ["torchtitan-2025", "megatron-2025"])
def test_a_sharded_frozen_model_is_16_bits_a_weight(profile):
    software = profiles.profile(profile, DEVICE)
    sharded = job(Lora(rank=16), dp=8, zero=3, global_batch=64).replace(software=software)
    (row,) = memory(sharded, DEVICE).rows
    assert row.parameters_bytes == pytest.approx(2 * 8.03e9 / 8, rel=0.01)


def test_only_adapters_cross_the_network_but_all_are_gathered():
    whole, adapted = (parts(job(one, dp=8, zero=0, global_batch=64, micro_batch=1)) for one in (None, Lora()))
    assert adapted["gradient_s"] < 0.02 * whole["gradient_s"]
    slow = Machine.of_device(DEVICE, 5e9, 8)
    sharded = [job(one, dp=16, zero=3, global_batch=64, micro_batch=1) for one in (None, Lora())]
    full, few = (estimate([one], [slow]).row(0) for one in sharded)
    assert few["gradient_s"] < 0.1 * full["gradient_s"]
    assert few["parameter_s"] > 0.5 * full["parameter_s"]


def test_adapters_that_cannot_be_are_refused():
    with pytest.raises(InputError, match="rank"):
        check_lora(job(Lora(rank=0)))
    with pytest.raises(InputError, match="offload"):
        check_lora(dataclasses.replace(job(Lora()), offload=Offload()))
    check_lora(job())
    check_lora(job(Lora(rank=1)))


def test_latent_attention_and_experts_have_adapters_beside_what_is_dense():
    model = KNOWN.model("deepseek-v3")
    wide = adapters_of_layer(model, Layout(global_batch=1), Lora(rank=8), experts=True)
    # Query down 7168 + 1536, query up 1536 + 128 x 192, latent down 7168 + 576, latent up 512 + 128 x 256,
    # output 128 x 128 + 7168, and the shared expert's three products of 7168 + 2048.
    assert wide == 8 * (8704 + 26112 + 7744 + 33280 + 23552 + 3 * 9216)
    trained = job(Lora(rank=8)).replace(model=model, layout=Layout(global_batch=64, ep=8, dp=8))
    passes = layer_passes(Columns.of([trained], [DEVICE]))
    assert np.isfinite(passes.experts.backward_weight[0])
    assert passes.experts.backward_weight[0] < 0.2 * passes.experts.backward_input[0]


def test_the_task_graph_of_a_step_casts_its_weights_once_too():
    """The passes of all micro-batches are 10.7 ms longer than their kernels; those beside adapters are not."""
    eight = {"precision": "fp8", "software": dataclasses.replace(SOFTWARE, cast_bytes=0.0, memory_fraction=1e9)}
    for lora, cast_s in ((None, 4 * 8.03e9 / (3.35e12 * 0.9)), (Lora(rank=16), 0.0)):
        training = job(lora).replace(**eight)
        (stage,) = virtual_stages(training.model, training.layout)
        kernels = layer_passes(Columns.of([training], [DEVICE])).stage(float(stage.layers), 0.0, 1.0, 1.0)
        longer = 1e-12 * stage_times(training, DEVICE, stage).forward_ps - float(kernels.forward[0])
        assert training.layout.micro_batches * longer == pytest.approx(cast_s, rel=0.02, abs=1e-9)


# What backward computes again, and what older software adds to a step.

PLAIN = SoftwareProfile(name="test", launch_ps=0)


def again(job, device, software=PLAIN, **layout):
    """Seconds that backward computes again in one layer, and that layer's passes."""
    columns = Columns.of([job(software=software, recompute="full", **layout)], [device])
    passes = layer_passes(columns)
    layer = passes.layers(1.0, 0.0)
    return float(compute.recompute_s(columns, passes, layer, 1.0, 0.0)[0]), layer


def test_early_stop_spares_the_down_projection(h100, job):
    stops = dataclasses.replace(PLAIN, recompute_stops=True)
    whole, layer = again(job, h100)
    stopped, _ = again(job, h100, stops)
    assert whole == pytest.approx(float(layer.forward[0]))
    model, tokens = job().model, 4096.0
    flops = 2.0 * tokens * model.ffn * model.hidden
    rate = h100.flops["bf16"] * h100.gemm_efficiency
    assert whole - stopped == pytest.approx(flops / rate, rel=0.1)


def test_recomputation_by_operator_keeps_attention_and_every_second_product(h100, job):
    by_operator, layer = again(job, h100, recompute_by_operator=True)
    passes_over_memory = float((layer.forward - layer.core - layer.product)[0])
    assert by_operator == pytest.approx(passes_over_memory + float(layer.product[0]) / 2.0)
    assert by_operator < 0.6 * float(layer.forward[0])


def test_stages_scatter_what_they_send_and_gather_it_again(h100, job):
    # Narayanan et al. 2021, section 4.1: 1/t of the bytes over the network, an all-gather over NVLink.
    software = dataclasses.replace(PLAIN, scattered_sends=True)
    scattered = job(software=software, tp=8, pp=4, sequence_parallel=False)
    whole = scattered.replace(software=PLAIN)
    assert compute.p2p_bytes(whole, h100) == 8 * compute.p2p_bytes(scattered, h100)
    stages = virtual_stages(scattered.model, scattered.layout)
    for stage, received in zip(stages, ((0, 1), (1, 1), (1, 1), (1, 0)), strict=True):
        found = compute.stage_times(scattered, h100, stage).collectives
        gathers = tuple(
            sum(c.count for c in found if c.kind == CollectiveKind.ALL_GATHER and c.phase == phase)
            for phase in ("forward", "backward")
        )
        assert gathers == received


def test_starting_collectives_costs_the_host(job, machine):
    slow = dataclasses.replace(PLAIN, collective_host_ps=1_000_000_000)
    plain, slowed = (job(software=software, tp=2, seq_len=64, sequence_parallel=False) for software in (PLAIN, slow))
    found = estimate([plain, slowed], [machine, machine])
    # Two all-reduces a layer, forward and backward, and those of embedding and head.
    starts = plain.layout.micro_batches * (4 * plain.model.layers + 2)
    passes = found.compute_s + found.tensor_s + found.host_s
    assert passes[1] == pytest.approx(starts * 1e-3, rel=0.01)
    assert passes[1] > 2.0 * passes[0]


@pytest.mark.parametrize(("micro_batch", "fused"), [(1, False), (2, True), (4, True)])
def test_softmax_of_2021_wants_four_rows_of_batch_and_head(catalog, job, micro_batch, fused):
    # 16 heads on 8 ranks at micro-batch 1 give two: vTrain measured 5.1 ms a layer there, 4.2 ms at micro-batch 2.
    software = dataclasses.replace(PLAIN, attention="unfused")
    changes = {"heads": 16, "kv_heads": 16, "head_dim": 128, "hidden": 2048}
    training = job(software=software, tp=8, micro_batch=micro_batch, seq_len=1024, model_changes=changes)
    columns = Columns.of([training], [catalog.accelerator("a100-sxm-80gb")])
    assert float(operators.attention(columns).launches[0]) == (8.0 if fused else 12.0)


def test_a_loss_in_32_bits_moves_its_bytes(h100, job):
    light = Columns.of([job(software=dataclasses.replace(PLAIN, loss_bytes=32.0))], [h100])
    heavy = Columns.of([job(software=dataclasses.replace(PLAIN, loss_bytes=52.0))], [h100])
    more = [float((p.head.forward + p.head.backward_input)[0]) for p in (layer_passes(light), layer_passes(heavy))]
    cells = 4096.0 * job().model.vocab
    assert more[1] - more[0] == pytest.approx(20.0 * cells / float(light.device.hbm_bytes_s[0]), rel=1e-6)
    assert np.isfinite(more).all()


def test_gathered_keys_are_waited_for_and_ring_ones_hide(job, machine):
    gathered = dataclasses.replace(PLAIN, context_overlap=0.0)
    ring, whole = (job(software=software, cp=4, dp=2, seq_len=131_072) for software in (PLAIN, gathered))
    found = estimate([ring, whole], [machine, machine])
    assert found.context_s[1] == pytest.approx(10.0 * found.context_s[0])
