"""Bytes of a step by class of communicators, by hand."""

from __future__ import annotations

import pytest

from railyard import catalog
from railyard.model.machine import Machine, MachineColumns
from railyard.work.training import Training, profiles
from railyard.work.training.columns import Columns
from railyard.work.training.spec import Layout
from railyard.work.training.stages import PipelineRanks
from railyard.work.training.state import CLASSES, traffic

UP, OUT = 3.2e12, 4e11  # bit/s
KNOWN = catalog.load()
DEVICE = KNOWN.accelerator("h100-sxm")


def sent(model="llama-3-8b", **layout):
    """By class: domains, hop, bytes inside, bytes outside."""
    training = Training(
        model=KNOWN.model(model), layout=Layout(**layout), seq_len=2048, software=profiles.default(DEVICE)
    )
    columns, pipeline = Columns.of([training], [DEVICE]), PipelineRanks.of([training])
    machine = Machine(accelerator=DEVICE, scale_up_bps=UP, scale_up_domain=8, scale_out_bps=OUT)
    found = traffic(columns, pipeline, MachineColumns.of([machine]))
    rows = zip(found.domains[0], found.hop[0], found.inside_s[0] * UP / 8, found.outside_s[0] * OUT / 8, strict=True)
    return dict(zip(CLASSES, rows, strict=True)), columns, pipeline


def test_replicas_sum_all_gradients():
    """96 replicas in 12 servers: a ring moves 2 x 95/96 of the gradients, a twelfth of a server's by each NIC."""
    found, columns, pipeline = sent(tp=1, dp=96, global_batch=96, zero=0)
    gradients = pipeline.last.dense[0] * columns.software.gradient_bytes[0]
    moved = 2 * 95 / 96 * gradients
    assert found["dp"] == pytest.approx((12, 1, moved, moved / 8))
    assert found["tp"][2:] == found["pp"][2:] == found["ep"][2:] == (0, 0)


def test_sharded_optimizers_scatter_gradients_and_gather_parameters():
    found, columns, pipeline = sent(tp=2, dp=24, global_batch=24, zero=1)
    moved = 23 / 24 * pipeline.last.dense[0] * (columns.software.gradient_bytes[0] + 2)
    assert found["dp"] == pytest.approx((6, 1, moved, moved / 4))


def test_sharded_parameters_are_gathered_twice_for_every_micro_batch():
    found, columns, pipeline = sent(tp=1, dp=16, global_batch=48, zero=3, reshard=True)
    moved = 3 * 15 / 16 * pipeline.last.dense[0] * (2 + 2 + columns.software.gradient_bytes[0])
    assert found["dp"][2:] == pytest.approx((moved, moved / 8))


def test_stages_send_activations_ahead_and_gradients_back():
    """Stages 16 ranks apart are two servers apart; 6 micro-batches of 2048 tokens, 4096 numbers of two bytes each."""
    found, columns, _ = sent(tp=2, pp=3, dp=8, global_batch=48)
    share = 2 if columns.layout.sequence[0] or columns.software.scattered_sends[0] else 1
    assert found["pp"] == pytest.approx((3, 2, 0, 2 * 6 * 2048 * 4096 * 2 / share))


def test_tokens_travel_to_experts_and_back():
    """Groups of 16 with 8 in a server: of what a rank sends, 7/16 stay inside and 8/16 leave."""
    found, _, _ = sent("deepseek-v3", tp=1, ep=16, dp=16, global_batch=16)
    inside, outside = found["ep"][2:]
    assert found["ep"][:2] == (2, 1)
    assert inside / outside == pytest.approx(7 / 8)
