"""Server processors and encoders of the catalogue."""

from __future__ import annotations

import pytest

from railyard import catalog

CATALOG = catalog.load()


@pytest.mark.parametrize(("name", "millions"), [("bge-m3", 568), ("bge-large-en", 335)])
def test_encoders_have_their_published_size(name: str, millions: float) -> None:
    assert CATALOG.model(name).parameters() == pytest.approx(1e6 * millions, rel=0.005)


@pytest.mark.parametrize(
    ("name", "cores", "flops_per_cycle", "channels", "transfers_per_s"),
    [("xeon-8592", 64, 2048, 8, 5.6e9), ("epyc-9755", 128, 128, 12, 6.0e9)],
)
def test_processors_have_the_peaks_of_their_cores_and_channels(
    name: str, cores: int, flops_per_cycle: int, channels: int, transfers_per_s: float
) -> None:
    device = CATALOG.accelerator(name)
    assert device.sm_count == cores
    assert device.flops["bf16"] == pytest.approx(cores * flops_per_cycle * device.clock_hz, rel=0.01)
    assert device.memory_bps == pytest.approx(channels * 64 * transfers_per_s)
