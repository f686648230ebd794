"""What backward computes again, and what older software adds to a step."""

import dataclasses

import numpy as np
import pytest

from railyard.graph import CollectiveKind
from railyard.work.training import SoftwareProfile, compute, operators
from railyard.work.training.columns import Columns
from railyard.work.training.designs import estimate
from railyard.work.training.passes import layer_passes
from railyard.work.training.stages import virtual_stages

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
