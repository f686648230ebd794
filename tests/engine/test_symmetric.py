"""Copies that do the same are simulated once, and the record is that of all of them, to the picosecond."""

from __future__ import annotations

import pickle
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from railyard import catalog, cluster, engine
from railyard.cluster import ClusterSpec, FabricSpec, NetworkSpec
from railyard.cluster.fault import SlowAccelerator
from railyard.collective.policy import CollectivePolicy
from railyard.engine import Jitter, Probes
from railyard.engine.analytic import AnalyticEngine
from railyard.engine.fluid import FluidEngine
from railyard.graph import Job
from railyard.graph.symmetry import copies_of, first_of
from railyard.measure.decompose import decompose
from railyard.work.training.collectives import collective_rows
from railyard.work.training.graphs import build
from railyard.work.training.spec import Layout, SoftwareProfile, Training

POLICY = CollectivePolicy()
ENGINES = FLOW, ANALYTIC = engine.get("flow"), engine.get("analytic")


def machine_of(ranks, fabric="uec", over=1.0):
    topology = cluster.topologies.get("rail-optimized")(oversubscription=over)
    network = NetworkSpec(topology=topology, fabric=FabricSpec(fabric))
    return cluster.build(ClusterSpec(accelerators=ranks, server="hgx-h100", back_end=network), catalog.load())


def graph_of(machine, model="llama-2-7b", **layout):
    made = Layout(**layout)
    software = SoftwareProfile(name="test")
    return build(Training(model=catalog.load().model(model), layout=made, seq_len=4096, software=software), machine)


@pytest.fixture
def folds(monkeypatch):
    """Whether each run so far was one of the first copy only."""
    seen = []

    def spied(real):
        def spy(*given, **named):
            found = real(*given, **named)
            seen.append(found is not None)
            return found

        return spy

    for engine_class in (FluidEngine, AnalyticEngine):
        monkeypatch.setattr(engine_class, "first_copy", spied(engine_class.first_copy))
    return seen


def both(graph, machine, by=FLOW, **how):
    """The record of a graph, and that of every copy simulated by itself."""
    return tuple(by.simulate([Job(each)], machine, **how) for each in (graph, graph.whole))


def assert_same(folded, whole):
    ours, theirs = decompose(folded), decompose(whole)
    assert ours.rows == theirs.rows
    assert np.array_equal(ours.by_rank_ps, theirs.by_rank_ps)
    assert ours.straggler_events == theirs.straggler_events
    assert np.array_equal(ours.waited_for_ps, theirs.waited_for_ps)
    assert np.array_equal(folded.start_ps, whole.start_ps)
    assert np.array_equal(folded.end_ps, whole.end_ps)
    for name in set(whole.optional) - {"blocker"}:
        assert np.array_equal(folded.optional[name], whole.optional[name]), name
    # Of tasks that end at the same picosecond any may be named as the last.
    ours, theirs = folded.optional["blocker"], whole.optional["blocker"]
    assert np.array_equal(ours >= 0, theirs >= 0)
    assert np.array_equal(whole.end_ps[ours[ours >= 0]], whole.end_ps[theirs[theirs >= 0]])
    for table, columns in whole.tables.items():
        for name, values in columns.items():
            rounding = {"load": 1 / 255}.get(name, 0)
            found = folded.tables[table][name].astype(np.float64)
            np.testing.assert_allclose(found, values.astype(np.float64), rtol=rounding, atol=1 if name == "load" else 0)


@st.composite
def cases(draw):
    tp, pp, cp = draw(st.sampled_from([1, 2, 4, 8])), draw(st.sampled_from([1, 2, 4])), draw(st.sampled_from([1, 2]))
    dp = draw(st.sampled_from([4, 8, 16]))
    layout = {"tp": tp, "pp": pp, "cp": cp, "dp": dp, "global_batch": 2 * pp * dp, "sequence_parallel": tp > 1}
    layout |= {"zero": draw(st.sampled_from([0, 1, 3])), "schedule": "1f1b"}
    layout |= {name: draw(st.booleans()) for name in ("overlap_gradient", "overlap_parameter")}
    fabric = draw(st.sampled_from(["uec", "roce", "infiniband", "spectrum-x", "scheduled", "ideal"]))
    return layout, fabric, draw(st.sampled_from([1.0, 2.0, 4.0]))


@pytest.mark.parametrize("by", ENGINES, ids=lambda by: by.name)
@settings(max_examples=12, deadline=None, suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much])
@given(case=cases())
def test_a_step_of_copies_is_that_of_all(by, case):
    layout, fabric, over = case
    ranks = layout["tp"] * layout["pp"] * layout["cp"] * layout["dp"]
    assume(ranks >= 64)
    machine = machine_of(ranks, fabric, over)
    graph = graph_of(machine, **layout)
    assert copies_of(graph) is not None
    assert_same(*both(graph, machine, by, probes=Probes(full=True, windows=20)))


@pytest.mark.parametrize("by", ENGINES, ids=lambda by: by.name)
@pytest.mark.parametrize(("fabric", "over"), [("uec", 1.0), ("uec", 4.0), ("spectrum-x", 2.0), ("scheduled", 1.0)])
def test_replicas_that_share_full_uplinks_are_folded(folds, fabric, over, by):
    machine = machine_of(1024, fabric, over)
    graph = graph_of(machine, tp=8, pp=4, dp=32, global_batch=256, sequence_parallel=True, zero=1)
    folded, whole = both(graph, machine, by)
    assert_same(folded, whole)
    assert folds == [True]
    for ours, theirs in zip(*(collective_rows(each, machine, POLICY) for each in (folded, whole)), strict=True):
        assert (ours.group, ours.ranks, ours.times) == (theirs.group, theirs.ranks, theirs.times)
        assert (ours.mean_s, ours.alone_s) == pytest.approx((theirs.mean_s, theirs.alone_s), rel=1e-14)


@pytest.mark.parametrize("by", ENGINES, ids=lambda by: by.name)
def test_replicas_that_hashes_tell_apart_are_not_folded(folds, by):
    machine = machine_of(1024, "roce", 4.0)
    graph = graph_of(machine, tp=8, pp=4, dp=32, global_batch=256, sequence_parallel=True, zero=1)
    assert_same(*both(graph, machine, by))
    assert folds == [False]


def test_replicas_of_which_some_share_a_leaf_with_another_stage_are_not_folded(folds):
    machine = machine_of(40 * 32)
    graph = graph_of(machine, tp=8, pp=4, dp=40, global_batch=320, sequence_parallel=True, zero=1)
    assert_same(*both(graph, machine))
    assert folds == [False]


EXPERTS = {"model": "mixtral-8x7b", "tp": 2, "dp": 32, "ep": 8, "expert_tp": 1, "global_batch": 64, "zero": 1}


def test_expert_parallelism_folds_in_blocks_of_its_groups(folds):
    machine = machine_of(64)
    graph = graph_of(machine, **EXPERTS)
    assert graph.symmetry.count == 8  # blocks of four replicas with two ranks: one group of eight experts each
    assert_same(*both(graph, machine))
    assert folds == [True]


def small():
    machine = machine_of(32)
    return machine, graph_of(machine, tp=2, pp=2, dp=8, global_batch=32, sequence_parallel=True, zero=1)


@pytest.mark.parametrize(
    "how",
    [
        {"jitter": Jitter(sigma=0.05)},
        {"jitter": Jitter(rank_sigma=0.05)},
        {"faults": [SlowAccelerator(3, 0.5)]},
    ],
)
def test_what_differs_by_rank_is_never_folded(folds, how):
    machine, graph = small()
    assert_same(*both(graph, machine, **how))
    assert folds == []


def test_jobs_among_others_or_on_other_accelerators_are_never_folded(folds):
    _, graph = small()
    wide = machine_of(64)
    scattered = np.random.default_rng(3).permutation(64)[:32].astype(np.int32)
    FLOW.simulate([Job(graph, placement=scattered)], wide)
    FLOW.simulate(
        [Job(graph, placement=np.arange(32, dtype=np.int32)), Job(graph, np.arange(32, 64, dtype=np.int32))], wide
    )
    assert folds == []


def test_a_graph_with_another_column_has_no_copies():
    _, graph = small()
    assert copies_of(graph) is graph.symmetry
    assert copies_of(replace(graph, loss=graph.loss)) is graph.symmetry
    assert copies_of(replace(graph, duration_ps=graph.duration_ps.copy())) is None


def test_columns_of_all_copies_are_made_when_they_are_read():
    machine, graph = small()
    record = FLOW.simulate([Job(graph)], machine)
    step_ps, shares = record.makespan_ps, decompose(record)
    assert "end_ps" not in vars(record)
    there = pickle.loads(pickle.dumps(record))
    assert there.end_ps.max() == record.end_ps.max() == record.makespan_ps == step_ps
    assert "end_ps" in vars(record)
    assert decompose(record).rows == decompose(record.whole).rows == shares.rows


def test_a_record_with_another_column_is_not_that_of_its_first_copy():
    machine, graph = small()
    record = FLOW.simulate([Job(graph)], machine)
    later = replace(record, end_ps=record.end_ps + 5)
    assert later.makespan_ps == record.makespan_ps + 5
    assert first_of(record) is not None
    assert first_of(later) is None
