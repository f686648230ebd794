"""The lockstep fact: one GPU of 10,000 late by 20 us costs 0.2 GPU-seconds per collective."""

from __future__ import annotations

import numpy as np
import pytest
from tests.agreement import yard

from railyard import engine
from railyard.cluster.fault import Late
from railyard.cluster.topology import RailOptimized
from railyard.graph import CollectiveKind, Job
from railyard.measure.decompose import decompose
from railyard.measure.lockstep import lockstep

RANKS, US = 10_000, 1_000_000
LATE = 4321


def steps(count):
    """`count` times: every rank computes 1 ms, then all reduce 64 MiB together."""
    rows = []
    for _ in range(count):
        rows += [{"rank": rank, "duration_ps": 1000 * US} for rank in range(RANKS)]
        rows.append(yard.collective(CollectiveKind.ALL_REDUCE, 64 * yard.MIB, stream=0))
    return yard.graph(RANKS, rows, [np.arange(RANKS)])


@pytest.mark.parametrize("collectives", [1, 3])
def test_one_of_ten_thousand_late_by_20_us(collectives):
    cluster = yard.machine(RANKS, "infiniband", RailOptimized())
    what = steps(collectives)
    calm = engine.get("flow").simulate([Job(what)], cluster)
    each = calm.makespan_ps // collectives
    faults = [Late(rank=LATE, by_ps=20 * US, at_ps=each * index) for index in range(collectives)]
    late = engine.get("flow").simulate([Job(what)], cluster, faults=faults)
    assert late.makespan_ps - calm.makespan_ps == 20 * US * collectives
    assert lockstep(decompose(calm)).gpu_seconds_lost == 0
    found = lockstep(decompose(late))
    assert found.gpu_seconds_lost == pytest.approx(9_999 * 20e-6 * collectives, rel=1e-9)
    assert found.gpu_seconds_lost == pytest.approx(0.2 * collectives, rel=1e-3)
    assert found.events == collectives
    assert found.worst[0][0] == LATE
