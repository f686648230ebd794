import math
from types import SimpleNamespace

import numpy as np
import pytest

from railyard import engine
from railyard.graph import Job
from railyard.work.operate.contention.neighbours import Neighbours
from railyard.work.operate.contention.pattern import PatternJob, WorkClass, canonical, placed
from railyard.work.operate.contention.speeds import PHASE, STEPS, assigned, mean_step_s
from railyard.work.operate.prepare import prepare
from railyard.work.operate.section import ClassSection
from railyard.work.operate.steady import slowed_by, steady
from railyard.work.operate.tree import NodeTree
from railyard.work.scenario.load import from_values
from railyard.work.scenario.variants import expand
from railyard.work.study import compose

from .yard import accounts_add_up, jobs

CLASSES = (
    WorkClass("dense", 0.5, 30_000_000_000, 0.5),
    WorkClass("small", 0.15, 6_000_000_000, 0.3),
    WorkClass("light", 0.3, 3_000_000_000, 0.5),
)


def draft(fabric="infiniband", **section):
    topology = {"kind": "leaf-spine", "oversubscription": "12:1", "ports_per_leaf": 32}
    cluster = {"accelerators": 128, "server": "hgx-h100", "back_end": {"topology": topology, "fabric": fabric}}
    section = {"jobs": {"synthetic": {"count": 10}}, **section}
    return from_values({"name": "x", "cluster": cluster, "workload": {"operate": section}})


def machine(fabric):
    found = draft(fabric)
    return compose.cluster_of(found, compose.catalog_of(found))


def state_of(nodes):
    return SimpleNamespace(
        placed=dict(enumerate(nodes)),
        each=[8] * len(nodes),
        contention_ppm=[1_000_000] * len(nodes),
        slowed=[],
        now_us=0,
    )


def test_equal_patterns_are_one():
    first = canonical([PatternJob(0, 8, (4, 4, 2)), PatternJob(1, 8, (2, 9)), PatternJob(1, 8, (4, 7))])
    other = canonical([PatternJob(0, 8, (1, 1, 6)), PatternJob(1, 8, (1, 0)), PatternJob(1, 8, (6, 3))])
    assert first == other
    assert first[0].leafs == (0, 0, 1)
    assert first != canonical([PatternJob(0, 8, (1, 6, 1)), PatternJob(1, 8, (1, 0)), PatternJob(1, 8, (6, 3))])


def test_patterns_have_nodes_of_their_leafs():
    members = [np.array([0, 1], np.int32), np.array([2, 3, 4], np.int32)]
    where = placed((PatternJob(0, 2, (0, 1)), PatternJob(0, 2, (0,))), members, 8)
    assert [one.tolist() for one in where] == [[16, 17, 0, 1], [24, 25]]
    assert placed((PatternJob(0, 2, (0, 1, 2)),), members, 8) is None
    assert placed((PatternJob(0, 2, (1, 1, 1)),), members, 8) is None


def test_a_step_alone_is_computation_and_what_it_does_not_hide():
    # 16 accelerators on 2 nodes of one leaf; no time is shorter than bytes over NICs: 2 (n - 1) / n of the message by
    # node.
    cluster = machine("infiniband")
    short = WorkClass("w", 0.1, 1_000_000, 0.5).steps(16, STEPS)
    ranks = np.arange(16, dtype=np.int32)
    record = engine.get("flow").simulate([Job(short, ranks, start_ps=0, name="w")], cluster)
    assert mean_step_s(record, STEPS) == pytest.approx(0.1, rel=1e-3)
    long = WorkClass("w", 0.1, 40_000_000_000, 0.0).steps(16, STEPS)
    record = engine.get("flow").simulate([Job(long, ranks, start_ps=0, name="w")], cluster)
    assert mean_step_s(record, STEPS) > 0.1 + 40e9 / (8 * 50e9)


@pytest.mark.parametrize(("fabric", "most"), [("infiniband", 0.05), ("roce", 0.05)])
def test_speeds_are_near_those_of_all_jobs_together(fabric, most):
    cluster = machine(fabric)
    tree, random, flow = NodeTree.of(cluster), np.random.default_rng(0), engine.get("flow")
    errors, slowed = [], []
    for _ in range(5):
        order = random.permutation(tree.nodes).astype(np.int32)
        nodes = [np.sort(part) for part in np.split(order, [3, 7, 9, 13])]
        work = random.integers(0, 3, len(nodes)).tolist()
        state = state_of(nodes)
        found = Neighbours(cluster, tree, CLASSES, work).changed(state, range(len(nodes)), [])
        ranks = [(part[:, None] * 8 + np.arange(8)).ravel().astype(np.int32) for part in nodes]
        alone = [_alone(flow, cluster, CLASSES[one], where) for one, where in zip(work, ranks, strict=True)]
        packed = [
            _alone(flow, cluster, CLASSES[one], _first(tree, len(part))) for one, part in zip(work, nodes, strict=True)
        ]
        full = _together(flow, cluster, [CLASSES[one] for one in work], ranks, alone)
        for job, step in enumerate(full):
            errors.append(packed[job] / (found.get(job, 1_000_000) / 1e6) / max(step, packed[job]) - 1)
            slowed.append(step / alone[job])
    assert np.mean(slowed) > 1.02
    assert np.mean(np.abs(errors)) < most


def _first(tree, count):
    """Accelerators of so many nodes of the largest leafs."""
    leafs = sorted(tree.members[0], key=len, reverse=True)
    nodes = np.concatenate(leafs)[:count]
    return (nodes[:, None] * 8 + np.arange(8)).ravel().astype(np.int32)


def _alone(flow, cluster, work, ranks):
    job = Job(work.steps(len(ranks), STEPS), ranks, start_ps=0, name="x")
    return mean_step_s(flow.simulate([job], cluster), STEPS)


def _together(flow, cluster, classes, ranks, alone):
    counts = [math.ceil(20 * max(alone) / one) for one in alone]
    together = [
        Job(work.steps(len(where), count), where, start_ps=round(number * PHASE % 1 * step_s * 1e12), name=str(number))
        for number, (work, where, count, step_s) in enumerate(zip(classes, ranks, counts, alone, strict=True))
    ]
    record = flow.simulate(together, cluster)
    last = min(record.of(number).end_ps.max() for number in range(len(together)))
    steps = []
    for number, count in enumerate(counts):
        ends = record.of(number).end_ps.reshape(count, -1).max(axis=1)
        ends = ends[ends <= last]
        steps.append((ends[-1] - ends[2]) / (len(ends) - 3) * 1e-12)
    return steps


def test_neighbours_come_and_go_and_the_noisy_one_is_named():
    cluster = machine("infiniband")
    tree = NodeTree.of(cluster)
    leaf = tree.members[0]
    one, two = np.array([leaf[0][0], leaf[1][0]]), np.array([leaf[0][1], leaf[1][1]])
    near = np.array(leaf[2][:2])
    state = state_of([one, two, near])
    heavy = WorkClass("heavy", 0.2, 60_000_000_000, 0.5)
    known = Neighbours(cluster, tree, [heavy], [0, 0, 0])
    apart = known.changed(state, [0, 2], [])
    assert set(apart) == {0}  # it spans two leafs where one would have done; who is on one leaf meets nobody
    found = known.changed(state, [1], [])
    assert set(found) == {0, 1}
    assert found[0] < 0.99 * apart[0]
    assert [(job, culprit) for _, job, _, culprit in state.slowed] == [(0, -1), (0, 1), (1, 0)]
    runs = known.speeds.runs
    state.contention_ppm[0], state.contention_ppm[1] = found[0], found[1]
    del state.placed[1]
    assert known.changed(state, [], [1]) == apart
    state.placed[1], state.contention_ppm[1] = two, 1_000_000
    assert known.changed(state, [1], [])[1] == found[1]
    assert known.speeds.runs == runs


def test_classes_by_name_and_by_share():
    sections = [
        ClassSection(name="big", compute="1 s", message="1 GB", least_accelerators=16),
        ClassSection(name="any", compute="1 s", message="1 GB", share=3.0),
    ]
    table = jobs(*[(0, 10, 1 + number % 2) for number in range(4000)])
    found = np.array(assigned(table, sections, 3))
    small = table.accelerators < 16
    assert set(found[small]) == {1}
    assert np.mean(found[~small] == 0) == pytest.approx(0.25, abs=0.03)
    none = assigned(table, sections[:1], 3)
    assert set(np.array(none)[small]) == {-1}
    named = jobs((0, 1, 1), (0, 1, 1), work=np.array([0, 1], np.int32), classes=("opaque", "big"))
    assert assigned(named, sections, 3) == [1, 0]


def test_a_run_with_contention_loses_time_to_it():
    classes = [{"name": "dense", "compute": "500 ms", "message": "30 GB", "overlap": 0.5}]
    drawn = {"count": 60, "load": 0.9, "sizes": {"32": 1.0}, "median": "1 h", "p90": "2 h"}
    found = draft(jobs={"synthetic": drawn}, placement="worst", contention={"classes": classes})
    run = prepare(expand(found)[0]).operation()
    assert run.run()
    accounts_add_up(run)
    assert sum(spent[2] for spent in run.state.spent) > 0
    assert run.state.slowed
    worst = slowed_by(run, steady(run, given=False).whole)
    assert worst[0]["accelerator_hours"] >= worst[-1]["accelerator_hours"] > 0
    assert worst[0]["job"] != worst[0]["by"]
