"""Prompts computed as fast as a replica can, in iterations put together by hand."""

from __future__ import annotations

import numpy as np
import pytest

from railyard import catalog
from railyard.model.machine import Machine
from railyard.work.serving.iteration import IterationLoad, parts
from railyard.work.serving.layout import Deployments, ServingLayout
from railyard.work.serving.software import ServingSoftwareColumns, columns, profile
from railyard.work.serving.steady import batched_prompt_s

KNOWN = catalog.load()
DEVICE = KNOWN.accelerator("h100-sxm")


def replica(model: str, **layout: object) -> tuple[Deployments, ServingSoftwareColumns]:
    entry = KNOWN.model(model)
    rows = Deployments.of((entry, ServingLayout(**layout), Machine.of_device(DEVICE, 4e11)))
    return rows, columns([profile("vllm", DEVICE)])


def column(value: float) -> np.ndarray:
    return np.array([value])


@pytest.mark.parametrize(
    ("copies", "cached", "count", "tokens", "pairs"),
    [
        # floor(8,192 / 3,000) = 2 prompts a copy; each has 3,000^2 / 2 pairs
        (1, 0.0, 2, 6_000, 9_000_000),
        (4, 0.0, 8, 24_000, 36_000_000),
        # a quarter is there: floor(8,192 / 2,250) = 3 a copy; each has 4,500,000 - 750^2 / 2 pairs
        (4, 0.25, 12, 27_000, 50_625_000),
    ],
)
def test_batched_prompts_hide_the_exchange_where_copies_take_turns(copies, cached, count, tokens, pairs):
    rows, software = replica("mixtral-8x22b", tp=8 // copies, dp_attention=copies, ep=8, precision="fp8")
    found = parts(rows, software, IterationLoad(*(column(float(value)) for value in (tokens, count, 0, pairs))))
    total, compute, network = (float(one[0]) for one in (found.total_s, found.compute_s, found.network))
    assert 0 < network < compute
    each = float(batched_prompt_s(rows, software, column(3000.0), cached)[0])
    assert each == pytest.approx((total - (network if copies > 1 else 0)) / count, rel=1e-12)
