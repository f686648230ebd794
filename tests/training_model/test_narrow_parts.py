"""Parts whose precision is their own: attention in 8 bits, the output projection, experts' MLPs as one kernel."""

import dataclasses

import numpy as np
import pytest

from railyard.model.machine import DeviceColumns
from railyard.work.training import SoftwareProfile, blocks, operators
from railyard.work.training.blocks import grouped
from railyard.work.training.columns import Columns

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
