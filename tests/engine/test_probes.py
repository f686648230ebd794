"""Link utilization over time."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest

from railyard import engine
from railyard.engine.faults import FaultColumns
from railyard.engine.probing import counters, in_bytes

from .hand import Entity, Graph
from .test_semantics import GIGABYTE_PER_S, play


def test_utilization_of_a_link_that_is_used_half_of_the_time():
    graph = Graph(1)
    graph.compute(0, 500_000_000)
    graph.transfer(0, 0, 0, 0)
    record = play(graph, [Entity({0: 0.5, 1: 1.0}, 500_000)], [GIGABYTE_PER_S] * 2, probes=engine.Probes(16))
    assert record.table("sampled_links")["link"].tolist() == [0, 1]
    time_ps, utilization = record.table("link_series").values()
    step = time_ps[1]
    assert time_ps.tolist() == (np.arange(len(time_ps)) * step).tolist()
    assert 8 <= len(time_ps) <= 16
    busy = np.clip((time_ps + step - 500_000_000) / step, 0, None).clip(max=(1_000_000_000 - time_ps) / step)
    assert utilization[:, 1] == pytest.approx(np.clip(busy, 0, 1), abs=1e-6)
    assert utilization[:, 0] == pytest.approx(np.clip(busy, 0, 1) / 2, abs=1e-6)


def test_only_the_links_asked_for_in_their_order():
    graph = Graph(1)
    graph.transfer(0, 0, 0)
    probes = engine.Probes(samples=4, links=[2, 0])
    record = play(graph, [Entity({0: 1.0, 2: 0.5}, 1_000)], [GIGABYTE_PER_S] * 3, probes=probes)
    assert record.table("sampled_links")["link"].tolist() == [2, 0]
    utilization = record.table("link_series")["utilization"]
    assert (utilization[0] > 0).all()
    assert utilization[0, 1] == pytest.approx(2 * utilization[0, 0])


def test_no_probes_no_series():
    assert list(play(Graph(1)).tables) == ["links"]


def test_probing_changes_nothing():
    graph = Graph(4)
    for rank in range(4):
        graph.transfer(rank, 0, rank)
        graph.transfer(rank, 0, rank)
    rows = [Entity({0: 1.0, rank + 1: 1.0}, 1_000.0 * (rank + 1)) for rank in range(4)]
    plain = play(graph, rows, [GIGABYTE_PER_S] * 5)
    probed = play(graph, rows, [GIGABYTE_PER_S] * 5, probes=engine.Probes(samples=32))
    assert plain.digest() == probed.digest()


def test_time_at_full_load():
    """Link 0 is full while 1,000 bytes pass at 1 byte a ns; of link 1 half is used. Counting changes nothing else."""
    graph = Graph(1)
    graph.transfer(0, 0, 0)
    rows = [Entity({0: 1.0, 1: 0.5}, 1_000)]
    counted = play(graph, rows, [GIGABYTE_PER_S] * 2, probes=engine.Probes(full=True))
    assert counted.table("links")["full_ps"].tolist() == [1_000_000, 0]
    assert counted.digest() == play(graph, rows, [GIGABYTE_PER_S] * 2).digest()


def test_of_a_bundle_the_slower_member_is_full():
    """Links 0 to 2 are bundle 3; the bundle was full for 70 ps and link 0 by itself for 5."""
    links = SimpleNamespace(bundle_of=np.array([3, 3, 3]))
    result = SimpleNamespace(link_bytes=np.zeros(4), link_full_ps=np.array([5, 0, 0, 70]))

    def full(*rows):
        return counters(result, FaultColumns.of(rows), links)["full_ps"].tolist()

    assert full() == [75, 70, 70, 70]
    assert full((0, 0, 1, 0.5, 0)) == [5, 70, 0, 70]


def test_windows_keep_every_link_in_a_byte():
    """Link 0 carries 30 % of its rate for the second half of a millisecond, link 1 all of it: 76.5 and 255 of 255."""
    graph = Graph(1)
    graph.compute(0, 500_000_000)
    graph.transfer(0, 0, 0, 0)
    probes = engine.Probes(windows=16)
    record = play(graph, [Entity({0: 0.3, 1: 1.0}, 500_000)], [GIGABYTE_PER_S] * 2, probes=probes)
    time_ps, load = record.table("link_windows").values()
    assert load.dtype == np.uint8
    assert load.shape == (len(time_ps), 2)
    step = int(time_ps[1])
    before, within = time_ps + step <= 500_000_000, (time_ps >= 500_000_000) & (time_ps + step <= 1_000_000_000)
    assert (load[before] == 0).all()
    assert set(map(tuple, load[within].tolist())) <= {(76, 255), (77, 255)}
    carried = (load / 255 * step).sum(axis=0) * 1e-12 * 1e9
    assert carried == pytest.approx([150_000, 500_000], rel=0.01)
    assert "link_series" not in record.tables


def test_bytes_of_loads_are_rounded_and_bounded():
    assert in_bytes(np.array([0.0, 0.001, 0.003, 0.5, 0.999, 1.0, 1.4])).tolist() == [0, 0, 1, 128, 255, 255, 255]
