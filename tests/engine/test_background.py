"""Other traffic beside a job in the flow engine, by hand."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from itertools import pairwise
from typing import NamedTuple

import numpy as np
import pytest
from tests.agreement import yard

from railyard import engine
from railyard.cluster.fabric.fabric import Behavior
from railyard.cluster.topology import LeafSpine
from railyard.collective import CollectivePolicy
from railyard.engine.analytic import LEAST, ROUNDING, LinkUses, Spans, stretches
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


# How much communications slow each other on shared links, against a slow computation in exact fractions.

MINUTE_PS = 60 * 10**12


def on_links(rows):
    """Rows of (link, entity, demand, weight)."""
    link, entity, demand, weight = zip(*rows, strict=True)
    return LinkUses(np.array(link), np.array(entity), np.array(demand, float), np.array(weight, float))


def running(runs):
    """Of each entity a list of (start, end)."""
    ptr = np.cumsum([0, *map(len, runs)])
    rows = np.array([run for each in runs for run in each], np.int64).reshape(-1, 2)
    return Spans(ptr, np.ascontiguousarray(rows[:, 0]), np.ascontiguousarray(rows[:, 1]))


class Run(NamedTuple):
    """One run of an entity on a link."""

    entity: int
    number: int
    start: int
    end: int
    demand: Fraction
    weight: Fraction


class OneLink:
    """A link in fractions: what is asked at every moment at which anything changes."""

    def __init__(self, runs):
        self.runs, self.cuts = runs, sorted({time for run in runs for time in (run.start, run.end)})
        self.satisfied = {run for run in runs if run.demand <= self.fair(run) * (1 + Fraction(ROUNDING))}

    def mean(self, run, value):
        """Of a function of time over a run."""
        times = [time for time in self.cuts if run.start <= time <= run.end]
        return sum((b - a) * value(a) for a, b in pairwise(times)) / (run.end - run.start)

    def at(self, time):
        return [run for run in self.runs if run.start <= time < run.end]

    def fair(self, run):
        mean = self.mean(run, lambda time: sum(other.weight for other in self.at(time)))
        return run.weight / max(mean, run.weight)

    def slow(self, time):
        modest = sum(run.demand for run in self.at(time) if run in self.satisfied)
        asked = sum(run.demand for run in self.at(time) if run not in self.satisfied)
        needed = asked / max(1 - modest, Fraction(LEAST))
        return needed if needed > 1 + Fraction(ROUNDING) else Fraction(1)

    def slowdown(self, run, *, slowed):
        if run in self.satisfied:
            return Fraction(1)
        return 1 / self.mean(run, lambda time: 1 / self.slow(time)) if slowed else self.mean(run, self.slow)


def by_hand(rows, runs, *, slowed):
    """The same in fractions."""
    worst = {(entity, number): Fraction(1) for entity, each in enumerate(runs) for number in range(len(each))}
    for link in {row[0] for row in rows}:
        users = [
            Run(entity, number, *times, Fraction(demand), Fraction(weight))
            for on, entity, demand, weight in rows
            if on == link
            for number, times in enumerate(runs[entity])
        ]
        found = OneLink(users)
        for run in users:
            place = run.entity, run.number
            worst[place] = max(worst[place], found.slowdown(run, slowed=slowed))
    stretched = []
    for entity, each in enumerate(runs):
        slower = [(end - start, worst[entity, number]) for number, (start, end) in enumerate(each)]
        time = sum(length if slowed else length * by for length, by in slower)
        work = sum(length / by if slowed else length for length, by in slower)
        stretched.append(float(time / work) if slower else 1.0)
    return stretched


def drawn(seed):
    """A few entities on a few links; some run alike, some several times at once, some never."""
    random = np.random.default_rng(seed)
    scale = int(random.choice([1, 10**9]))
    base = int(random.choice([0, MINUTE_PS]))
    runs = []
    for entity in range(int(random.integers(2, 9))):
        if entity and random.random() < 0.4:
            runs.append(runs[int(random.integers(entity))])
            continue
        starts = random.integers(0, 20, int(random.integers(0, 4)))
        runs.append([(base + scale * int(s), base + scale * int(s + random.integers(1, 12))) for s in starts])
    rows = [
        (link, entity, random.choice([0.1, 0.3, 0.45, 0.7, 0.9995, 1.0]), random.choice([0.25, 1.0, 3.0]))
        for link in range(int(random.integers(1, 6)))
        for entity in random.permutation(len(runs))[: int(random.integers(1, len(runs) + 1))].tolist()
    ]
    return rows, runs


@pytest.mark.parametrize("slowed", [False, True])
def test_random_cases_are_the_exact_ones(slowed):
    slower = 0
    for seed in range(150):
        rows, runs = drawn(seed)
        found = stretches(on_links(rows), running(runs), slowed=slowed)
        assert found == pytest.approx(by_hand(rows, runs, slowed=slowed), rel=1e-12)
        slower += int((found > 1.0).sum())
    assert slower > 150


def test_a_short_run_an_hour_into_the_step_is_exact():
    """Three equal flows, of which one runs for a microsecond: three times as long, whatever came before."""
    hour = 3600 * 10**12
    runs = [[(0, hour + 7 * 10**6)], [(3, hour + 9 * 10**6)], [(hour, hour + 10**6)]]
    found = stretches(on_links([(0, each, 1.0, 1.0) for each in range(3)]), running(runs), slowed=False)
    assert found[2] == pytest.approx(3.0, rel=1e-14)


def test_a_modest_flow_has_its_rate_and_the_others_divide_the_rest():
    """0.17 of a link beside two that ask for 0.9 each: the modest one is below a third; two share 0.83."""
    rows = [(0, 0, 0.17, 1.0), (0, 1, 0.9, 1.0), (0, 2, 0.9, 1.0)]
    found = stretches(on_links(rows), running([[(0, 10)]] * 3), slowed=False)
    assert found.tolist() == pytest.approx([1.0, 1.8 / 0.83, 1.8 / 0.83], rel=1e-14)


def test_modest_flows_leave_a_thousandth_of_a_link():
    """Weights of 1,000 to 1: two at 0.4997 are below 1,000 of 2,001; the third, which asks for 0.2, gets 0.001."""
    rows = [(0, 0, 0.4997, 1000.0), (0, 1, 0.4997, 1000.0), (0, 2, 0.2, 1.0)]
    found = stretches(on_links(rows), running([[(0, 10)]] * 3), slowed=False)
    assert found[2] == pytest.approx(200.0, rel=1e-12)


def test_the_worst_link_counts_and_means_are_over_repetitions():
    """Entity 0 is three times as long in its first run, by link 1, and as long as alone in its second: 12 us for 6."""
    rows = [(0, 0, 1.0, 1.0), (0, 1, 1.0, 1.0), (1, 0, 1.0, 1.0), (1, 2, 1.0, 1.0), (1, 3, 1.0, 1.0)]
    runs = [[(0, 3), (5, 8)], [(2, 3)], [(0, 3)], [(0, 3)]]
    assert stretches(on_links(rows), running(runs), slowed=False).tolist() == pytest.approx([2.0, 2.0, 3.0, 3.0])
