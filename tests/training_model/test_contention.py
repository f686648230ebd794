"""What collectives take from computation beside them, against what was measured elsewhere."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest

from railyard import catalog
from railyard.model.machine import MachineColumns
from railyard.work.training import Layout, Machine, Training, estimate
from railyard.work.training.columns import Columns
from railyard.work.training.passes import concurrent_passes, layer_passes
from railyard.work.training.spec import SoftwareProfile


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
