"""Searches of vectors by hand: bytes, scores and steps, and the power of the shards."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest

from railyard import catalog
from railyard.work.pipeline.batched import search
from railyard.work.pipeline.section import RetrieveStage
from railyard.work.serving.reuse import Index, search_s

KNOWN = catalog.load()
#: 96 cores behind 600 GB/s, all of which is reached.
SERVER = replace(
    KNOWN.accelerator("epyc-9755"), sm_count=96, memory_bps=600e9 * 8, memory_efficiency=1.0, memory_bytes=1e12
)
GPU = KNOWN.accelerator("h100-sxm")


def seconds(index, device, queries, shards=1):
    return float(search_s(index, device, np.array([queries]), shards)[0])


def test_a_walk_takes_a_core_for_each_query():
    """200 queries on 96 cores: three turns of 1,500 steps, each a miss of 100 ns and 3 kB at 10 GB/s."""
    index = Index("hnsw", 10**7, 768, 3072, visited=1500)
    assert seconds(index, SERVER, 200) == pytest.approx(3 * 1500 * (100e-9 + 3072 / 10e9))
    assert index.size_bytes == 10**7 * (3072 + 256)


@pytest.mark.parametrize(
    ("size", "core_bytes_s"),
    [(96, 18e9), (4096, 10e9)],  # short codes, whole vectors of 1,024 dimensions
)
def test_a_scan_of_cores(size, core_bytes_s):
    """40 queries of 5 % each over 3 shards: by 96 cores, which take longer than 1 - 0.95^40 of the shard's bytes."""
    index = Index("ivf", 10**8, 1024, size, probed=0.05)
    part = 10**8 * size / 3
    scan, read = 40 * 0.05 * part / (96 * core_bytes_s), part * (1 - 0.95**40) / 600e9
    assert scan < read if size == 96 else scan > read
    assert seconds(index, SERVER, 40, 3) == pytest.approx(max(scan, read), rel=1e-9)


def test_a_scan_of_an_accelerator():
    """Few queries read the vectors, many compute 2 FLOPs an element, at the best 16-bit rate."""
    index = Index("flat", 10**7, 1024, 2048)
    read = 10**7 * 2048 / (GPU.memory_bps / 8 * GPU.memory_efficiency)
    assert seconds(index, GPU, 3) == pytest.approx(read, rel=1e-9)
    units = 2 * 5000 * 10**7 * 1024 / (GPU.flops["bf16"] * GPU.gemm_efficiency)
    assert seconds(index, GPU, 5000) == pytest.approx(units, rel=1e-9)


def test_shards_draw_power_together():
    """Three shards of 700 W: a fifth between batches, 0.33 + 0.14 more of it while they search."""
    stage = RetrieveStage(kind="retrieve", server="x", vectors=10**7, dimensions=1024, shards=3, batch=8)
    built = search(stage, SimpleNamespace(cluster=SimpleNamespace(accelerator=GPU), nic_bps=4e11, count=3))
    cost = built.stage.deployment.pools[0].cost
    assert cost.idle_w == pytest.approx(0.20 * 2100)
    assert cost.busy_w == pytest.approx(0.47 * 2100)
    assert len(cost.tokens) == 8
