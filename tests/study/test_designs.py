"""Thousands of designs with contention: against the engine `flow`, and as the sum of their rows."""

from __future__ import annotations

from dataclasses import replace
from functools import cache

import numpy as np
import pytest

from railyard import catalog, engine
from railyard.cluster import ClusterSpec, FabricSpec, NetworkSpec, build
from railyard.cluster.spec import Placement
from railyard.cluster.topology import LeafSpine, RailOptimized
from railyard.graph import Job
from railyard.work.training import Training, profiles
from railyard.work.training.designs import Site, evaluate
from railyard.work.training.graphs import build as graph_of
from railyard.work.training.graphs import redrawn
from railyard.work.training.spec import Layout
from railyard.work.training.state import CLASSES


@cache
def machine(ratio=4.0, fabric="spectrum-x", place="packed", ranks=128):
    topology = LeafSpine(oversubscription=ratio, ports_per_leaf=32) if ratio else RailOptimized()
    spec = ClusterSpec(ranks, "hgx-h100", NetworkSpec(topology, FabricSpec(fabric)))
    return build(spec, catalog.load(), Placement(place, 0))


@cache
def job(model="llama-3-8b", ranks=128, tp=2, pp=2, batch=128, **more):
    known = catalog.load()
    cp = more.get("cp", 1)
    layout = Layout(tp=tp, pp=pp, dp=ranks // (tp * pp * cp), global_batch=batch, **more)
    software = profiles.default(known.accelerator("h100-sxm"))
    return Training(model=known.model(model), layout=layout, seq_len=4096, software=software)


def flow_s(training, cluster, seeds=1):
    graph = graph_of(training, cluster)
    runs = [engine.get("flow").simulate([Job(graph)], redrawn(cluster, seed)) for seed in range(seeds)]
    return np.mean([run.makespan_ps for run in runs]) * 1e-12


@pytest.mark.parametrize(
    ("training", "where", "seeds", "off"),
    [
        (job(), {"place": "scattered"}, 1, 0.022),  # the two stages' reductions all meet in the closed form
        (job(), {"fabric": "roce"}, 4, 0.08),
        (job(zero=3, tp=1, pp=1), {"place": "scattered"}, 1, 0.002),
        # Flow's dense reductions are fewer and larger by buckets; what they save is not in the closed form's meetings.
        (job("mixtral-8x7b", tp=4, pp=1, ep=8, expert_tp=4), {"place": "scattered"}, 1, 0.033),
        (job("mixtral-8x7b", tp=2, pp=1, ep=8, zero=3), {"place": "scattered", "ratio": 2.0}, 1, 0.015),
        (
            job("mixtral-8x7b", ranks=80, tp=1, pp=1, ep=8, zero=3, batch=80),
            {"place": "scattered", "ranks": 80},
            1,
            0.02,
        ),
        (job(tp=4, pp=1, cp=4), {"fabric": "roce", "place": "scattered"}, 4, 0.05),
        (job(ranks=512, tp=8, pp=1, batch=512, zero=3), {"ranks": 512}, 1, 0.01),
        (job("llama-3-70b", ranks=256, tp=8, pp=4, batch=64), {"ratio": 0.0, "fabric": "roce", "ranks": 256}, 1, 0.03),
    ],
    ids=["sprayed", "hashed", "sharded", "experts", "sharded-experts", "uneven-leafs", "context", "trees", "rails"],
)
def test_steps_are_near_those_of_flow(training, where, seeds, off):
    cluster = machine(**where)
    found = evaluate([training], [Site.of(cluster)])
    assert found.step.step_s[0] == pytest.approx(flow_s(training, cluster, seeds), rel=off)


def test_what_there_is_to_find():
    """Sharded parameters of a job in shuffled servers at 4:1: alone it would take seven tenths as long."""
    training, cluster = job(zero=3, tp=1, pp=1), machine(place="scattered")
    assert evaluate([training], [Site.of(cluster)]).alone.step_s[0] < 0.7 * flow_s(training, cluster)


def test_many_designs_are_many_single_ones():
    sites = [Site.of(machine()), Site.of(machine(fabric="roce", place="scattered")), Site.of(machine(ratio=1.0))]
    trainings = [job(), job("mixtral-8x7b", tp=4, pp=2, ep=8), job(tp=1, pp=4)]
    together = evaluate(trainings, sites)
    for row, (training, site) in enumerate(zip(trainings, sites, strict=True)):
        alone = evaluate([training], [site])
        assert together.step.step_s[row] == pytest.approx(alone.step.step_s[0], rel=1e-12)
        assert together.stretch.outside[row] == pytest.approx(alone.stretch.outside[0], rel=1e-12)


def test_more_oversubscription_is_slower():
    steps = [
        evaluate([job()], [Site.of(machine(ratio, place="scattered"))]).step.step_s[0] for ratio in (1.0, 2.0, 4.0)
    ]
    assert steps == sorted(steps)
    assert steps[2] > 1.05 * steps[0]


def test_a_change_of_the_network_needs_no_cluster():
    """Half the rate of all links between switches is what twice the oversubscription is."""
    whole = Site.of(machine(2.0, place="scattered"))
    links = whole.tiers.link_bps * [1.0, 0.5]
    changed = replace(whole, tiers=replace(whole.tiers, link_bps=links))
    built = Site.of(machine(4.0, place="scattered"))
    steps = evaluate([job()] * 3, [whole, changed, built]).step.step_s
    assert steps[1] == pytest.approx(steps[2], rel=1e-9)
    assert steps[1] > steps[0]


def test_without_links_between_switches_nothing_is_lost_to_them():
    found = evaluate([job(tp=8, pp=1)], [Site.of(machine(fabric="ideal"))])
    assert found.stretch.demand.shape == (1, len(CLASSES), 1)
    assert found.step.step_s[0] == pytest.approx(found.alone.step_s[0], rel=0.01)


def test_other_jobs_make_a_step_longer():
    site = Site.of(machine(place="scattered"))
    busy = np.array([[0.0, 0.6]])
    assert evaluate([job()], [site], others=busy).step.step_s[0] > 1.02 * evaluate([job()], [site]).step.step_s[0]
