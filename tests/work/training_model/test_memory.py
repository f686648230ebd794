"""Memory against published formulas and measured peaks."""

import csv
from pathlib import Path

import numpy as np
import pytest

from railyard.work.training import LayoutError, SoftwareProfile, check_fit, memory, profiles
from railyard.work.training.activations import layer_activations
from railyard.work.training.columns import Columns
from railyard.work.training.memory import in_flight
from railyard.work.training.stages import RankColumns

TABLE = Path(__file__).parent / "data" / "memory.csv"
PLAIN = SoftwareProfile(name="plain", attention="unfused")


def layer_bytes(job, device, **layout):
    training = job("gpt-3-175b", seq_len=2048, software=layout.pop("software", PLAIN), **layout)
    kept = layer_activations(Columns.of([training], [device]))
    return float((kept.attention + kept.mlp)[0])


@pytest.mark.parametrize("tp", [1, 4, 8])
def test_activations_of_a_gpt_layer_follow_korthikanti(h100, job, tp):
    # Korthikanti et al. 2022, table 2, in bytes of one layer and micro-batch.
    s, b, h, a = 2048, 1, 12288, 96
    scores = 5 * a * s / h
    plain = layer_bytes(job, h100, tp=tp, sequence_parallel=False)
    assert plain == pytest.approx(s * b * h * (10 + 24 / tp + scores / tp))
    split = layer_bytes(job, h100, tp=tp, sequence_parallel=True)
    assert split == pytest.approx(s * b * h / tp * (34 + scores))
    selective = layer_bytes(job, h100, tp=tp, sequence_parallel=True, recompute="selective")
    assert selective == pytest.approx(s * b * h / tp * 34)


def test_fused_attention_keeps_no_scores(h100, job):
    fused = layer_bytes(job, h100, software=SoftwareProfile(name="fused"))
    assert fused == pytest.approx(2048 * 12288 * 34 + 4 * 2048 * 96)


def test_full_recomputation_keeps_layer_inputs(h100, job):
    training = job("gpt-3-175b", seq_len=2048, recompute="full")
    assert memory(training, h100).rows[0].activations_bytes == 96 * 2 * 2048 * 12288


def test_peaks_measured_on_b200(catalog, job):
    device = catalog.accelerator("b200-sxm")
    software = profiles.profile("megatron-lm-2025", device)
    errors = []
    with TABLE.open() as handle:
        for row in csv.DictReader(handle):
            sizes = {name: int(row[name]) for name in ("tp", "pp", "dp", "cp", "ep")}
            changes = {"layers": int(row["layers"]), "mtp_layers": 0}
            if row["model"] == "deepseek-v3":
                changes["moe_layer_start"] = 1
            training = job(
                row["model"],
                seq_len=int(row["seq_len"]),
                software=software,
                model_changes=changes,
                sequence_parallel=row["sequence_parallel"] == "1",
                **sizes,
            )
            peak = max(stage.allocated_bytes for stage in memory(training, device).rows)
            errors.append(peak / (float(row["peak_gib"]) * 2**30) - 1)
    assert np.mean(np.abs(errors)) < 0.03
    assert np.max(np.abs(errors)) < 0.06


@pytest.mark.parametrize("zero", [0, 1, 2, 3])
def test_each_zero_stage_shards_one_thing_more(h100, job, zero):
    training = job("llama-3-8b", dp=8, zero=zero, software=SoftwareProfile(name="wide", gradient_bytes=4))
    row = memory(training, h100).rows[0]
    count = training.model.parameters()
    assert row.optimizer_bytes == pytest.approx(12 * count / (8 if zero >= 1 else 1), rel=1e-3)
    assert row.gradients_bytes == pytest.approx(4 * count / (8 if zero >= 2 else 1), rel=1e-3)
    assert row.parameters_bytes == pytest.approx(0 if zero == 3 else 2 * count, rel=1e-3)


def held(training, device):
    columns = Columns.of([training], [device])
    return list(in_flight(columns, RankColumns.of(training), np.arange(float(training.layout.pp))))


def test_stages_hold_as_many_micro_batches_as_lie_behind_them(h100, job):
    assert held(job(pp=8, micro_batch=1, global_batch=64), h100) == [8, 7, 6, 5, 4, 3, 2, 1]
    assert held(job(pp=8, micro_batch=1, global_batch=3), h100)[0] == 3


def test_interleaving_holds_more_on_the_first_stage(h100, job):
    # Narayanan et al. 2021: 1 + (p - 1) / (p v) times the plain schedule's p micro-batches.
    pp, vp = 8, 4
    training = job("gpt-3-175b", pp=pp, vp=vp, global_batch=512, schedule="interleaved")
    assert held(training, h100)[0] == pytest.approx(pp * (1 + (pp - 1) / (pp * vp)), rel=0.01)


def test_a_short_chunk_is_held_as_often_as_it_is_short(h100, job):
    """Llama 405B on 8 x 8 virtual stages: the first has one layer beside the embedding, the others two.

    Rank 0 holds 15 micro-batches of its first chunk and 8 of each of the 7 others, by hand 15 * 1 + 7 * 8 * 2 layers.
    """
    training = job("llama-3-405b", pp=8, vp=8, global_batch=288, schedule="interleaved")
    assert held(training, h100)[0] * 15 == pytest.approx(15 * 1 + 7 * 8 * 2)
    assert held(training, h100)[1] * 16 == pytest.approx((2 * 6 + 7 * 8 + 1) * 2)


def test_a_table_adds_up_and_reads_well(h100, job):
    table = memory(job("llama-3-70b", tp=8, pp=4, dp=2, global_batch=64), h100)
    assert len(table.rows) == 4
    row = table.rows[0]
    parts = (row.parameters_bytes, row.gradients_bytes, row.optimizer_bytes, row.activations_bytes, row.buffers_bytes)
    assert sum(parts) + row.reserved_bytes == row.total_bytes
    assert str(table).splitlines()[0].split() == [
        *(
            "stage",
            "parameters",
            "gradients",
            "optimizer",
            "activations",
            "buffers",
            "runtime",
            "total",
            "device",
            "has",
        )
    ]


def test_what_does_not_fit_is_refused_with_the_nearest_that_does(h100, job):
    training = job("llama-3-70b", seq_len=8192, dp=64, global_batch=256)
    with pytest.raises(LayoutError, match="does not fit: stage 0 needs") as caught:
        check_fit(training, h100)
    assert caught.value.exit_code == 2
    assert not caught.value.table.fits
    assert caught.value.nearest
    for layout in caught.value.nearest:
        assert layout.ranks == 64
        assert check_fit(training.replace(layout=layout), h100).fits


def test_what_can_never_fit_says_so(h100, job):
    with pytest.raises(LayoutError, match="no layout on as many ranks fits"):
        check_fit(job("llama-3-405b", dp=8, global_batch=8), h100)


FSDP2 = SoftwareProfile(name="fsdp2", fully_shard=True, gradient_bytes=4)


def test_an_allocator_holds_at_least_what_is_allocated(h100, job):
    for layout in ({"dp": 8, "zero": 3}, {"dp": 8, "tp": 8, "zero": 3, "recompute": "full"}, {"pp": 8, "zero": 3}):
        for row in memory(job("llama-3-70b", software=FSDP2, **layout), h100).rows:
            assert row.allocated_bytes <= row.allocator_bytes
            assert row.allocator_bytes - row.cached_bytes < row.total_bytes


def test_full_recomputation_keeps_layer_inputs_under_fsdp2(h100, job):
    training = job("llama-3-8b", dp=8, zero=3, recompute="full", software=FSDP2, seq_len=8192)
    assert memory(training, h100).rows[0].activations_bytes == 32 * 2 * 8192 * 4096


def test_a_pipeline_keeps_the_logits_of_its_micro_batches(h100, job):
    # torch.distributed.pipelining holds every output to the end of the step, then joins them: 2 x 2 bytes a logit.
    def last(batch):
        layout = {"pp": 4, "zero": 3, "reshard": False, "recompute": "full", "global_batch": batch}
        return memory(job("llama-3-8b", software=FSDP2, **layout), h100).rows[-1].buffers_bytes

    logits, received = 4096 * 128256, 2 * 4096 * 4096
    assert last(32) - last(16) == pytest.approx(16 * (4 * logits + received))


def test_heads_exchanged_for_context_keep_the_output_twice(h100, job):
    ring, exchanged = (
        memory(job("llama-3-8b", cp=4, seq_len=32768, context_heads=heads), h100).rows[0].activations_bytes
        for heads in (False, True)
    )
    assert exchanged - ring == 32 * 2 * 32768 // 4 * 4096


def test_the_peak_is_that_of_the_fullest_moment(h100, job):
    # On the last stage the output layer's backward pass is fullest with a wide vocabulary, a layer's with a narrow one.
    def last(vocab):
        table = memory(job("llama-3-8b", pp=2, model_changes={"vocab": vocab}), h100)
        return table.rows[-1].buffers_bytes

    assert last(1024) == last(2048)
    assert last(512_000) > last(256_000) > last(2048)


def kept_by(job, device, *modules, model="deepseek-v3"):
    table = memory(job(model, seq_len=4096, ep=8, dp=8, recompute_modules=modules, pp=1), device)
    return table.rows[0].activations_bytes


def test_modules_computed_again_keep_what_they_say(h100, job):
    # DeepSeek-V3: 61 layers (3 dense), hidden 7168, 128 heads of 192 and 128, 8 experts of width 2048 a token.
    tokens, all_kept = 4096, kept_by(job, h100)
    assert all_kept - kept_by(job, h100, "moe_act") == 58 * tokens * 8 * 2048 * 2
    assert all_kept - kept_by(job, h100, "layernorm") == 61 * 2 * tokens * 7168 * 2
    assert all_kept - kept_by(job, h100, "mla_up_proj") == 61 * tokens * 128 * (192 + 192 + 128) * 2
    both = all_kept - kept_by(job, h100, "layernorm", "moe_act")
    assert both == 58 * tokens * 8 * 2048 * 2 + 61 * 2 * tokens * 7168 * 2


def test_latents_of_a_model_without_them_are_not_dropped(h100, job):
    assert kept_by(job, h100, "mla_up_proj", model="mixtral-8x7b") == kept_by(job, h100, model="mixtral-8x7b")


def test_moments_in_16_bits_save_four_bytes_a_parameter(h100, job):
    wide, narrow = (
        memory(job("llama-3-8b", zero=0, software=SoftwareProfile(name="m", moment_bytes=size)), h100).rows[0]
        for size in (4, 2)
    )
    assert wide.optimizer_bytes - narrow.optimizer_bytes == pytest.approx(4 * 8_030_261_248, rel=1e-6)


def test_eight_bit_parameters_without_transposed_copies_take_half(h100, job):
    # Embedding and head of Llama 3 8B are 1.05 of its 8.03 billion parameters, and stay in 16 bits.
    software = SoftwareProfile(name="narrow", narrow_parameter_bytes=1.0)
    row = memory(job("llama-3-8b", precision="fp8", software=software), h100).rows[0]
    ends = 2 * 128256 * 4096
    assert row.parameters_bytes == pytest.approx(2 * ends + (8_030_261_248 - ends), rel=1e-6)


def test_placeholders_are_of_every_weight_or_of_the_widest(h100, job):
    # Llama 3 70B on 8 ranks: a layer's attention and MLP, or its gate and up projection, 2 bytes each.
    kept, passing = (
        memory(job("llama-3-70b", tp=8, software=SoftwareProfile(name="p", keeps_placeholders=keeps)), h100)
        .rows[0]
        .buffers_bytes
        for keeps in (True, False)
    )
    attention, mlp = 8192 * (2 * 8192 + 2 * 1024), 3 * 8192 * 28672
    assert kept - passing == pytest.approx(2 * (attention + mlp - 2 * 8192 * 28672) / 8, rel=1e-6)


def test_a_fused_loss_writes_its_gradient_over_the_logits(h100, job):
    """Of 2 x 1,000 tokens and 128,256 words over 2 ranks: 2 bytes for 12; under FSDP 4 for 12, of all the words."""

    def buffers(fused, **layout):
        training = job(
            "llama-3-8b", seq_len=1000, micro_batch=2, software=SoftwareProfile(name="x", fused_loss=fused), **layout
        )
        return memory(training, h100).rows[0].buffers_bytes

    assert buffers(fused=False, tp=2) - buffers(fused=True, tp=2) == 10 * 2000 * 128_256 / 2
    assert buffers(fused=False, dp=8, zero=3) - buffers(fused=True, dp=8, zero=3) == 8 * 2000 * 128_256
