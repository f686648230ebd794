"""The law of jitter: against its closed forms, against drawn steps, and on published quantiles."""

from __future__ import annotations

import dataclasses
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from railyard import catalog
from railyard.model.machine import DeviceColumns, MachineColumns
from railyard.work.training import Layout, Machine, Training, blocks, estimate, operators, profiles
from railyard.work.training.blocks import grouped
from railyard.work.training.columns import Columns
from railyard.work.training.jitter import Interruption, JitterLaw, law_of, median_delay_s
from railyard.work.training.operators import gemm_rate
from railyard.work.training.passes import concurrent_passes, layer_passes
from railyard.work.training.spec import SoftwareProfile

MEAN_S, RATE_HZ = 0.01, 1e-3


def plain(sigma: float = 0.0, *more: Interruption) -> JitterLaw:
    return JitterLaw("", sigma, (Interruption(RATE_HZ, MEAN_S), *more), "")


def test_one_kind_is_a_gumbel_distribution() -> None:
    """p95 - p50 is 2.60 means, however many ranks; the median is mean ln(rate N T / ln 2)."""
    for ranks in (10_000, 100_000):
        law = plain()
        middle, high = (law.delay_s(share, ranks, 5.0, 8) for share in (0.5, 0.95))
        assert high - middle == pytest.approx(MEAN_S * (math.log(math.log(2)) - math.log(-math.log(0.95))), rel=1e-6)
        assert middle == pytest.approx(MEAN_S * math.log(RATE_HZ * ranks * 5.0 / math.log(2)), rel=1e-6)


def test_without_interruptions_steps_are_normal() -> None:
    law = JitterLaw("", 0.01, (), "")
    assert law.delay_s(0.5, 8, 1.0, 4) == pytest.approx(0, abs=1e-6)
    assert law.delay_s(0.95, 8, 1.0, 4) == pytest.approx(1.645 * 0.01 / 2, rel=0.02)
    assert law.ratio(0.95, 8, 1.0, 400) < law.ratio(0.95, 8, 1.0, 4)


def test_the_law_is_the_maximum_of_drawn_interruptions() -> None:
    rng = np.random.default_rng(1)
    ranks, step_s = 2000, 2.0
    law = plain(0.005, Interruption(2e-5, 0.3))
    drawn = np.zeros(40_000)
    for kind in law.interruptions:
        times = rng.poisson(kind.rate_hz * ranks * step_s, len(drawn))
        for number in np.flatnonzero(times):
            drawn[number] = max(drawn[number], rng.exponential(kind.mean_s, times[number]).max())
    drawn += rng.normal(0, 0.005 * step_s / math.sqrt(8), len(drawn))
    for share in (0.5, 0.95, 0.99):
        found = law.delay_s(share, ranks, step_s, 8)
        assert (drawn <= found).mean() == pytest.approx(share, abs=0.006)


@settings(max_examples=50, deadline=None)
@given(ranks=st.integers(1, 200_000), step_s=st.floats(0.05, 100), batches=st.integers(1, 512))
def test_quantiles_are_ordered_and_grow_with_ranks(ranks: int, step_s: float, batches: int) -> None:
    law = plain(0.01, Interruption(1e-6, 0.5))
    found = [law.delay_s(share, ranks, step_s, batches) for share in (0.05, 0.5, 0.95, 0.99)]
    assert found == sorted(found)
    assert law.delay_s(0.5, 2 * ranks, step_s, batches) >= found[1] - 1e-9
    assert law.share_below(found[2], ranks, step_s, batches) == pytest.approx(0.95, abs=1e-3)


def test_the_median_of_many_designs_is_that_of_each(h100) -> None:
    law = law_of(h100)
    ranks, steps = np.array([8.0, 512.0, 4096.0, 16_384.0]), np.array([0.3, 11.0, 1.6, 5.0])
    steady = JitterLaw("", 0.0, law.interruptions, "")
    wanted = [max(steady.delay_s(0.5, int(n), t, 1), 0.0) for n, t in zip(ranks, steps, strict=True)]
    assert median_delay_s([h100], np.zeros(4, np.int64), ranks, steps) == pytest.approx(wanted, abs=1e-6)
    assert median_delay_s([h100], np.zeros(1, np.int64), ranks[:1], steps[:1])[0] == 0


# p95/p50 of steps on Eos (MLPerf Training v3.1 and v5.0): ranks, step in s, micro-batches, measured. Only those of 512
# and 768 were fitted. Left out: 2,560 (1.080), which no run beside it resembles.
EOS = [
    (512, 11.052, 128, 1.0014), (768, 11.0751, 128, 1.0016), (4096, 1.6088, 16, 1.0121), (6144, 1.6153, 16, 1.0134),
    (8192, 1.6193, 16, 1.0122), (10_240, 0.9256, 8, 1.0184), (10_752, 0.9296, 8, 1.0176), (512, 55.1341, 288, 1.0024),
    (2048, 14.2202, 72, 1.0054), (8192, 5.1801, 24, 1.0275),
]  # fmt: skip


@pytest.mark.parametrize(("ranks", "step_s", "batches", "measured"), EOS)
def test_eos_within_three_hundredths(h100, *, ranks: int, step_s: float, batches: int, measured: float) -> None:
    assert law_of(h100).ratio(0.95, ranks, step_s, batches) == pytest.approx(measured, abs=0.03)


# What collectives take from computation beside them, against what was measured elsewhere.


@pytest.fixture(scope="module")
def known():
    return catalog.load()


def machine(device, **changes):
    rates = {"scale_up_bps": device.scale_up_collective_bps, "scale_up_domain": 8, "scale_out_bps": 4e11}
    return Machine(**{"accelerator": device, **rates, **changes})


def job(model, *, seq_len=2048, software=None, **layout):
    software = software or SoftwareProfile(name="test")
    return Training(model=model, layout=Layout(**layout), seq_len=seq_len, software=software)


def test_nothing_is_lost_to_copies_without_units_and_without_bytes(known):
    device = known.accelerator("h100-sxm")
    quiet = SoftwareProfile(name="test", communication_sms=0.0)
    what = job(known.model("llama-3-8b"), software=quiet, tp=2, dp=4, global_batch=16)
    columns = Columns.of([what], [device])
    slow = MachineColumns.of([machine(device, scale_up_bps=1.0, scale_out_bps=1.0)])
    held = (8.0, 0.0, 1.0, 1.0)
    loss = concurrent_passes(columns, slow).loss(layer_passes(columns).stage(*held), held)
    assert all(float(lost[0]) < 1e-9 for side in (loss.forward, loss.backward) for lost in side.values())


def test_a_stated_budget_counts_more_than_the_general_share(known):
    device = known.accelerator("h100-sxm")
    steps = []
    for ctas in (0, 8, 32, None):
        software = SoftwareProfile(name="test", communication_sms=0.5, data_ctas=ctas)
        what = job(known.model("llama-3-8b"), software=software, dp=32, zero=1, global_batch=32)
        steps.append(float(estimate([what], [machine(device, scale_out_bps=1e11)]).step_s[0]))
    assert steps == sorted(steps)
    assert steps[0] < steps[-1]


def test_memory_is_what_a_fast_collective_takes(known):
    """At NVLink's rate a reduction moves a third of an H100's memory bandwidth; over one NIC next to none."""
    device = known.accelerator("h100-sxm")
    software = SoftwareProfile(name="test", data_ctas=0)
    what = job(known.model("llama-3-8b"), software=software, dp=8, global_batch=8)
    columns, held = Columns.of([what], [device]), (8.0, 0.0, 1.0, 1.0)
    alone, lost = layer_passes(columns).stage(*held), []
    for domain in (8, 1):
        rates = MachineColumns.of([machine(device, scale_up_domain=domain)])
        lost.append(float(concurrent_passes(columns, rates).loss(alone, held).forward["dp"][0]))
    assert lost[0] > 3 * lost[1]
    assert lost[1] < 0.02


def test_passes_beside_a_reduction_are_those_of_a_smaller_device(known):
    """24 of 132 units are gone, and of the memory's rate 2.5 times what one NIC of 50 GB/s carries."""
    device = known.accelerator("h100-sxm")
    software = SoftwareProfile(name="test", data_ctas=24, collective_fraction=1.0)
    what = job(known.model("llama-3-8b"), software=software, dp=32, global_batch=32)
    columns = Columns.of([what], [device])
    found = concurrent_passes(columns, MachineColumns.of([machine(device, scale_up_domain=1)])).data
    part, rest = 108 / 132, 1 - 2.5 * 50e9 / columns.device.hbm_bytes_s
    rates = {name: getattr(columns.device, name) * part for name in ("gemm16", "gemm8", "gemm4", "attention")}
    smaller = columns.device.replace(units=np.array([108.0]), hbm_bytes_s=columns.device.hbm_bytes_s * rest, **rates)
    held = (8.0, 0.0, 1.0, 1.0)
    slow = layer_passes(dataclasses.replace(columns, device=smaller)).stage(*held)
    assert found.stage(*held).forward[0] == pytest.approx(slow.forward[0], rel=1e-9)
    assert found.stage(*held).backward_weight[0] == pytest.approx(slow.backward_weight[0], rel=1e-9)


def test_tensor_collectives_take_their_stated_units(known):
    """20 of 132; half of all where only that is stated; nine tenths at most."""
    device = known.accelerator("h100-sxm")
    rates = MachineColumns.of([machine(device)])
    cases = [({"tensor_ctas": 20}, 20 / 132), ({"communication_sms": 0.5}, 0.5), ({"tensor_ctas": 130}, 0.9)]
    for stated, share in cases:
        what = job(known.model("llama-3-8b"), software=SoftwareProfile(name="test", **stated), tp=2, global_batch=1)
        assert concurrent_passes(Columns.of([what], [device]), rates).tensor[0] == pytest.approx(share)


# Products at the power limit, and 8-bit products with a scale a row, pinned by hand.


def rate(job, device, bits, **constants):
    software = SoftwareProfile(name="by hand", **constants)
    columns = Columns.of([dataclasses.replace(job(), software=software)], [device])
    return float(gemm_rate(columns, np.full(1, float(bits)))[0])


@pytest.mark.parametrize(("name", "tdp", "best"), [("b200-sxm", 1000, 1755e12), ("gb300", 1400, 1825e12)])
def test_power_limits_where_it_is_less_than_the_share(job, catalog, name, tdp, best):
    device = catalog.accelerator(name)
    # 0.873 of the best short product; or 0.97 TFLOP for each joule.
    assert rate(job, device, 16, gemm_fraction=0.873) == pytest.approx(0.873 * best, rel=1e-3)
    assert rate(job, device, 16, gemm_fraction=0.873, joule16=0.97e12) == pytest.approx(0.97e12 * tdp)
    assert rate(job, device, 16, gemm_fraction=0.4, joule16=0.97e12) == pytest.approx(0.4 * best, rel=1e-3)


def test_widths_with_a_joule_of_their_own_are_16_and_8_bits(job, catalog):
    joules = {"joule16": 0.9e12, "joule8": 2.1e12}
    device = catalog.accelerator("b200-sxm")
    assert [rate(job, device, bits, **joules) for bits in (16, 8)] == pytest.approx([0.9e15, 2.1e15])
    # 4-bit products follow the peak: 15 against 10 PFLOP/s, 72 % of which a short product reaches, whatever the watts.
    for name, peak in (("gb200", 10e15), ("gb300", 15e15)):
        found = rate(job, catalog.accelerator(name), 4, fp4_fraction=0.6, **joules)
        assert found == pytest.approx(0.6 * 0.72 * peak)


def test_a_scale_a_row_costs_rate_and_casts(job, h100):
    tensor = rate(job, h100, 8, fp8_fraction=0.95)
    assert tensor == pytest.approx(0.95 * 0.71 * 1979e12, rel=1e-3)
    assert rate(job, h100, 8, fp8_fraction=0.95, fp8_scaling="row") == pytest.approx(0.78 * tensor)
    assert rate(job, h100, 16, fp8_scaling="row") == rate(job, h100, 16)
    rows = SoftwareProfile(name="by hand", cast_bytes=3.5, fp8_scaling="row")
    columns = Columns.of([dataclasses.replace(job(), software=rows)], [h100])
    assert columns.software.cast_bytes[0] == 7.0


def test_one_scale_a_row_gains_a_tenth_over_16_bits_on_8b(catalog):
    """torchao's float8 README, Llama 3 8B on 8 H100: 6,150, 7,690 and 6,768 tokens/s a GPU, +25 and +10 %."""
    from railyard.work.training import Layout, Machine, Training, estimate

    device = catalog.accelerator("h100-hbm2e-96gb")
    software = profiles.profile("torchtitan-2025", device)
    layout = Layout(global_batch=8, dp=8, zero=3, recompute="full", recompute_share=0.5, recompute_by_operator=True)

    def seconds(precision, **changes):
        job = Training(
            model=catalog.model("llama-3-8b"),
            layout=layout,
            seq_len=8192,
            precision=precision,
            software=dataclasses.replace(software, **changes),
        )
        return float(estimate([job], [Machine.of_device(device, 368e9)]).step_s[0])

    assert seconds("bf16") / seconds("fp8") == pytest.approx(7690 / 6150, rel=0.05)
    assert seconds("bf16") / seconds("fp8", fp8_scaling="row") == pytest.approx(6768 / 6150, rel=0.03)


# Parts whose precision is their own: attention in 8 bits, the output projection, experts' MLPs as one kernel.

SOFTWARE = SoftwareProfile(name="test")


def columns_of(job, device, **changes):
    return Columns.of([job(software=dataclasses.replace(SOFTWARE, **changes), **MOE)], [device])


MOE = {"model": "gpt-oss-20b", "precision": "fp8", "dp": 8, "micro_batch": 3, "seq_len": 8192}


def of(columns, name):
    return next(operator for operator in blocks.moe_block(columns) if operator.name == name)


def test_eight_bits_shorten_only_the_products_of_attention(catalog):
    # H100: products 989.4 x 0.8 = 791 TFLOP/s, attention 613: 0.367 s of 1.631 s an EFLOP are softmax. 8-bit products
    # take 1 / 1405 s a TFLOP: 0.712 + 0.367 = 1.079 s, 927 TFLOP/s.
    device = DeviceColumns([catalog.accelerator("h100-sxm")])
    softmax = 1 / device.attention[0] - 1 / device.gemm16[0]
    assert device.attention[0] == pytest.approx(613e12, rel=0.002)
    assert device.attention8[0] == pytest.approx(927e12, rel=0.002)
    assert 1 / device.attention8[0] == pytest.approx(1 / device.gemm8[0] + softmax)


def test_no_eight_bits_no_gain(catalog):
    device = DeviceColumns([catalog.accelerator("a100-sxm-80gb")])
    assert device.attention8[0] == device.attention[0]


def test_attention_in_eight_bits_casts_its_operands(job, h100):
    # Llama 3 70B, 4,096 tokens, 64 heads and 8 groups of 128: (64 + 2 x 8) x 128 x 4096 x 3 B = 126 MB forward.
    plain, narrow = (
        operators.attention(Columns.of([job(software=dataclasses.replace(SOFTWARE, attention_precision=name))], [h100]))
        for name in ("bf16", "fp8")
    )
    columns = Columns.of([job()], [h100])
    shorter = columns.device.attention / columns.device.attention8
    gap, memory = columns.device.gap_s, columns.device.hbm_bytes_s
    cast = 80 * 128 * 4096 * 3 / memory
    assert narrow.forward[0] == pytest.approx(((plain.forward - gap) * shorter + cast + gap)[0], rel=1e-9)
    back = 64 * 128 * 4096 * 3 / memory
    assert narrow.backward_input[0] == pytest.approx(
        ((plain.backward_input - 3 * gap) * shorter + back + 3 * gap)[0], rel=1e-9
    )


def test_the_output_projection_has_a_precision_of_its_own(job, h100):
    def logits(**changes):
        head = blocks.head(
            Columns.of([job(precision="fp8", software=dataclasses.replace(SOFTWARE, **changes))], [h100])
        )
        return next(operator for operator in head if operator.name == "logits")

    wide, narrow = logits(), logits(head_precision="fp8")
    assert wide.forward[0] == logits(head_precision="fp16").forward[0]
    # 791 to 1,405 TFLOP/s, and the cast of 4,096 x 8,192 inputs.
    assert wide.forward[0] / narrow.forward[0] == pytest.approx(1405 / 791, rel=0.05)
    assert narrow.launches[0] == wide.launches[0] + 1


def test_a_fused_mlp_of_experts_has_no_passes_between_its_products(job, catalog):
    device = catalog.accelerator("gb300")
    plain, kernel, fused = (
        columns_of(job, device, **changes) for changes in ({}, {"grouped_kernel": True}, {"fused_experts": True})
    )
    for name in ("experts clamp", "experts activation"):
        assert of(plain, name).forward[0] == of(kernel, name).forward[0] > 0.0
        assert of(fused, name).forward[0] == of(fused, name).backward_input[0] == of(fused, name).launches[0] == 0.0
    # Only the gradient of the second bias is read by itself: 2 B of 8,192 x 3 x 4 routed tokens' 2,880 features.
    bias = of(fused, "experts bias")
    assert bias.forward[0] == 0.0
    assert bias.backward_input[0] == pytest.approx(8192 * 3 * 4 * 2880 * 2 / fused.device.hbm_bytes_s[0])
    # The kernel casts what it hands to the next product: the down projection's input, the up projection's gradient.
    cast = 4.0 * 8192 * 3 * 4 / fused.device.hbm_bytes_s[0]
    up, down = (of(kernel, name) for name in ("experts up", "experts down"))
    assert down.forward[0] - of(fused, "experts down").forward[0] == pytest.approx(cast * 2880)
    assert up.backward_input[0] - of(fused, "experts up").backward_input[0] == pytest.approx(cast * 2 * 2880)
    assert up.forward[0] == of(fused, "experts up").forward[0]
    assert of(fused, "experts up").launches[0] == 1.0 < of(plain, "experts up").launches[0]


def test_a_fused_mlp_makes_no_difference_in_sixteen_bits_to_casts(job, h100):
    columns = Columns.of([job(software=dataclasses.replace(SOFTWARE, fused_experts=True))], [h100])
    each = np.array([1024.0])
    sides = [grouped(columns, "up", each, each, each, groups=each / 256, joined=side) for side in ("input", "output")]
    assert sides[0].forward[0] == sides[1].forward[0]
