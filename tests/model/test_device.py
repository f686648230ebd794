"""Rates of accelerators by the width of operands, from their entries in the catalogue."""

from __future__ import annotations

import numpy as np
import pytest

from railyard import catalog
from railyard.model.machine import DeviceColumns

KNOWN = catalog.load()


@pytest.mark.parametrize(
    ("name", "gemm8", "best8", "best4"),
    [
        # Floating point of 8 bits at 330.3 TFLOP/s, integers at 660.6.
        ("rtx-4090", 0.85 * 330.3e12, 0.85 * 660.6e12, 0.85 * 660.6e12),
        # No 8-bit floating point: 16 bits at 312 TFLOP/s, integers at 624.
        ("a100-sxm-80gb", 0.87 * 312e12, 0.8 * 624e12, 0.8 * 624e12),
    ],
)
def test_integers_are_the_best_of_8_bits_only_where_they_are_faster(name, gemm8, best8, best4):
    found = DeviceColumns([KNOWN.accelerator(name)])
    assert found.gemm8[0] == pytest.approx(gemm8, rel=1e-12)
    widths = [float(found.best_flops_s(np.array([bits]))[0]) for bits in (16.0, 8.0, 4.0)]
    assert widths == pytest.approx([float(found.gemm16[0]), best8, best4], rel=1e-12)


def test_four_bits_are_the_best_where_there_are_units_for_them():
    device = KNOWN.accelerator("b200-sxm")
    found = DeviceColumns([device])
    four = device.flops["fp4"] * device.gemm_efficiency_8bit
    assert float(found.gemm4[0]) == float(found.best_flops_s(np.array([4.0]))[0]) == four
    assert float(found.hbm_bytes_s[0]) == device.memory_bps / 8 * device.memory_efficiency
