"""Gathers and scatters of sharded parameters that nothing hides, by hand."""

import pytest

from railyard.work.training import Machine, estimate
from railyard.work.training.spec import SoftwareProfile

PARAMETERS = 8_030_261_248
"""Of Llama 3 8B, in 32 layers: 250.95 million each."""

# One layer over 6 ranks of a switched domain of 300 GB/s: launch and 5 steps, and 5/6 of the bytes.
START_S = 9e-6 + 5 * 1.5e-6
GATHER_S = START_S + 2 * PARAMETERS / 32 * 5 / 6 / 300e9  # 16 bits a parameter: 1.411 ms
SCATTER_S = START_S + 4 * PARAMETERS / 32 * 5 / 6 / 300e9  # 32 bits a gradient: 2.805 ms


def row(h100, job, *, overlap, tokens=3000, **layout):
    """Five micro-batches of one sequence on each of 6 ranks."""
    software = SoftwareProfile(name="test", shard_overlap=overlap, communication_sms=0.0)
    training = job("llama-3-8b", seq_len=tokens, software=software, dp=6, zero=3, global_batch=30, **layout)
    machine = Machine(accelerator=h100, scale_up_bps=2.4e12, scale_up_domain=8, scale_out_bps=4e11)
    return estimate([training], [machine]).row(0)


def test_with_nothing_above_them_all_layers_are_exposed(h100, job):
    """Five times 32 layers: 0.226 s of gathers, 0.449 s of scatters."""
    found = row(h100, job, overlap=0.0, reshard=False)
    assert found["parameter_s"] == pytest.approx(5 * 32 * GATHER_S, rel=1e-9)
    assert found["gradient_s"] == pytest.approx(5 * 32 * SCATTER_S, rel=1e-9)


def test_parameters_that_were_dropped_are_gathered_twice(h100, job):
    found = row(h100, job, overlap=0.0, reshard=True)
    assert found["parameter_s"] == pytest.approx(2 * 5 * 32 * GATHER_S, rel=1e-9)
    assert found["gradient_s"] == pytest.approx(5 * 32 * SCATTER_S, rel=1e-9)


def test_under_long_passes_the_first_gather_and_the_last_scatter_are_left(h100, job):
    """Once a step, of the first layer and the embedding: 743 of the 8,030 million parameters, two tables of 525."""
    found = row(h100, job, overlap=1.0, tokens=24_000, reshard=False)
    table = 128_256 * 4096
    first = (PARAMETERS - 2 * table) / 32 + table
    assert found["parameter_s"] == pytest.approx(START_S + 2 * first * 5 / 6 / 300e9, rel=1e-4)
    assert found["gradient_s"] == pytest.approx(START_S + 4 * first * 5 / 6 / 300e9, rel=1e-4)
