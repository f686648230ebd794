"""Other traffic beside a job in the flow engine, by hand."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from tests.agreement import yard

from railyard import engine
from railyard.cluster.fabric.fabric import Behavior
from railyard.cluster.topology import LeafSpine
from railyard.collective import CollectivePolicy
from railyard.engine.background import Bursts, until
from railyard.graph import Job

LINE_BPS = 400e9
SIZE = 40_000_000


def machine(fabric="ideal", **behavior):
    overrides = (("behavior", replace(Behavior(), **behavior)),) if behavior else ()
    return yard.machine(64, fabric, LeafSpine(ports_per_leaf=16, spines=8), overrides=overrides)


def took_s(cluster, source, target, *bursts):
    """Seconds of one transfer of 40 MB without its latency."""
    flow = replace(engine.get("flow"), background=bursts)
    one = CollectivePolicy(connections=1)
    line = flow.simulate([Job(yard.graph(64, [yard.transfer(source, target, SIZE)]))], cluster, policy=one)
    assert len(line) == 1
    return yard.moving_s(line)[0] + line.column("latency_ps")[0] * 1e-12, line


def ends_of(cluster, burst):
    """A rank of the receiver's rail that has no part in an incast, the senders, and the receiver."""
    one = next(until(cluster, (burst,), 1))
    rank = {int(port): index for index, port in enumerate(cluster.back_end.port_of_rank[:, 0])}
    senders, receiver = [rank[int(port)] for port in one.source], rank[int(one.target[0])]
    quiet = [r for r in range(64) if r not in senders and r // 8 != receiver // 8 and r % 8 == receiver % 8]
    return quiet[0], senders, receiver


@pytest.mark.parametrize("weight", [1.0, 0.4, 3.0])
def test_a_flow_beside_an_incast_gets_its_share_by_weight(weight):
    """One flow of 40 MB, from 700 us on against three of 4 MB, which count as `weight` flows each.

    It then has 1 / (1 + 3 w) of the receiver's link and each of them w / (1 + 3 w), until either is done.
    """
    cluster = machine(background_weight=weight)
    burst = Bursts("incast", 3, SIZE // 10, 700_000_000)
    source, _, receiver = ends_of(cluster, burst)
    plain_s, quiet = took_s(cluster, source, receiver)
    found_s, line = took_s(cluster, source, receiver, burst)
    full_bps = LINE_BPS * cluster.fabric.payload_efficiency
    begins_s = 700e-6 + cluster.fabric.end_latency_ps * 1e-12
    left_s, of_each_s = plain_s - begins_s, SIZE / 10 * 8 / full_bps
    assert len(list(until(cluster, (burst,), quiet.makespan_ps))) == 1
    first = left_s * (1 + 3 * weight) < of_each_s * (1 + 3 * weight) / weight
    expected_s = begins_s + left_s * (1 + 3 * weight) if first else plain_s + 3 * of_each_s
    assert first == (weight < 0.5)
    assert found_s == pytest.approx(expected_s, rel=5e-3)
    assert line.meta["warnings"]


def test_a_victim_waits_behind_what_is_withheld():
    """A flow out of a sender of an incast: alone on its link, or behind flows that wait for the receiver."""
    burst = Bursts("incast", 8, 4_000_000, 200_000_000)
    took = []
    for withheld in (0.0, 0.5, 1.0):
        cluster = machine("infiniband", withheld=withheld)
        _, senders, receiver = ends_of(cluster, burst)
        other = next(r for r in range(64) if r % 8 == senders[0] % 8 and r // 8 not in {senders[0] // 8, receiver // 8})
        took.append(took_s(cluster, senders[0], other, burst)[0])
    assert took[0] < took[1] < took[2]


def test_without_bursts_nothing_changes():
    rows = [yard.transfer(0, 17, SIZE), yard.transfer(8, 25, SIZE)]
    cluster = machine()
    plain = engine.get("flow").simulate([Job(yard.graph(64, rows))], cluster)
    again = replace(engine.get("flow"), background=()).simulate([Job(yard.graph(64, rows))], cluster)
    assert plain.meta["digest"] == again.meta["digest"]
    assert not plain.meta["warnings"]


def test_two_runs_with_bursts_are_one():
    cluster = machine("uec")
    burst = Bursts("permutation", 64, 100_000, 10_000_000)
    first, second = (took_s(cluster, 0, 17, burst)[1] for _ in range(2))
    assert first.meta["digest"] == second.meta["digest"]


def test_what_was_never_compared_names_the_engine():
    overrides = (("load_balancing", "ecmp"),)
    cluster = yard.machine(64, "infiniband", LeafSpine(ports_per_leaf=16, spines=8), overrides=overrides)
    _, line = took_s(cluster, 0, 17, Bursts("incast", 8, 1000, 10**9))
    assert any("use the engine `packet`" in word for word in line.meta["warnings"])
    assert np.isfinite(line.end_ps).all()
