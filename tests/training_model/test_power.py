"""Products at the power limit, and 8-bit products with a scale a row, pinned by hand."""

import dataclasses

import numpy as np
import pytest

from railyard.work.training import SoftwareProfile, profiles
from railyard.work.training.columns import Columns
from railyard.work.training.operators import gemm_rate


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
