"""Who goes first: Crux' two examples by hand, cuts into classes, chosen paths."""

import itertools
import math
from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from railyard import engine
from railyard.graph import Job
from railyard.work.operate.contention.intensity import (
    TOLERANCE,
    JobTurn,
    classes,
    correction,
    off_beat,
    priorities,
    realigning,
    served_s,
)
from railyard.work.operate.contention.neighbours import Neighbours
from railyard.work.operate.contention.pattern import PatternJob, WorkClass, canonical, placed
from railyard.work.operate.contention.speeds import PHASE, STEPS, Manner, Speeds, assigned, mean_step_s
from railyard.work.operate.prepare import prepare
from railyard.work.operate.section import ClassSection
from railyard.work.operate.steady import slowed_by, steady
from railyard.work.operate.tree import NodeTree
from railyard.work.scenario.load import expand, from_values
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
    for _ in range(3):
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


# Who goes first: Crux' two examples by hand, cuts into classes, chosen paths.

LONG, SHORT = JobTurn(2, 0, 2, 10, sent=2.0), JobTurn(1, 0, 1, 10, sent=1.0)


def test_the_shorter_step_goes_first():
    """Crux, figure 11: in 12 s the link serves 6 and 3 s with the long step first, 4 and 6 s with the short one."""
    assert LONG.intensity == SHORT.intensity == 10
    assert served_s(LONG, SHORT, 12) == (6, 3)
    assert served_s(SHORT, LONG, 12) == (6, 4)
    assert correction(SHORT, LONG) == pytest.approx(1.5, rel=0.02)
    assert correction(LONG, SHORT) == pytest.approx(1 / 1.5, rel=0.02)
    found = priorities([LONG, SHORT])
    assert found[0] == 10
    assert found[1] == pytest.approx(15, rel=0.02)


def test_who_cannot_hide_traffic_goes_first():
    """Crux, figure 12: 2 GPUs compute 4 s and hide their second, 12 compute 2 s and do not hide theirs of 3 s."""
    hidden, bare = JobTurn(2, 2, 1, 2), JobTurn(1, 1, 3, 12)
    assert hidden.intensity == bare.intensity == 8
    assert hidden.step_s == bare.step_s == 4
    assert correction(bare, hidden) > 1 > correction(hidden, bare)


def test_who_never_meet_need_no_correction():
    assert correction(JobTurn(0, 2, 0.5, 8), JobTurn(0, 2, 0.6, 8)) == 1.0


def test_links_serve_no_more_than_there_is_time():
    first, second = served_s(JobTurn(0.7, 0.2, 1.1, 4), JobTurn(0.3, 0.5, 0.9, 4), 40)
    assert first == pytest.approx(40 / 1.8 * 1.1, abs=1.1)  # as if it were alone
    assert first + second <= 40


def test_classes_keep_apart_who_meets():
    """Crux, figure 13: two pairs on two links; two classes do for all four jobs."""
    pairs = ({0, 1}, {2, 3})
    assert classes([4, 3, 2, 1], [4, 3, 2, 1], lambda one, other: {one, other} in pairs, 2) == [1, 0, 1, 0]
    assert classes([4, 3, 2, 1], [4, 3, 2, 1], lambda _one, _other: True, 4) == [3, 2, 1, 0]
    # Of four that all meet, two and two lose 4 + 2; one and three 3 + 3 + 2; three and one 4 + 4 + 3.
    assert classes([4, 3, 2, 1], [4, 3, 2, 1], lambda _one, _other: True, 2) == [1, 1, 0, 0]
    assert classes([7, 7], [1, 1], lambda _one, _other: True, 8) == [0, 0]


@given(st.lists(st.integers(1, 6), min_size=1, max_size=6), st.integers(0, 2**15 - 1), st.integers(1, 4))
def test_classes_follow_priorities(values, links, most):
    """No job is above one that it meets and that has a higher priority, and there are no more than so many classes."""
    pairs = [pair for bit, pair in enumerate(itertools.combinations(range(6), 2)) if links >> bit & 1]

    def meets(one, other):
        return (min(one, other), max(one, other)) in pairs

    found = classes(values, values, meets, most)
    assert min(found) == 0
    assert max(found) < most
    for one, other in itertools.permutations(range(len(values)), 2):
        if meets(one, other) and values[one] > values[other]:
            assert found[one] >= found[other]


def test_a_job_that_drifts_is_near_its_place():
    """A walk that begins anew at the bound: half of its time within 0.293 of it, none beyond; symmetric."""
    assert off_beat(0.5) == 0.0
    assert off_beat(0.75) == pytest.approx(TOLERANCE * (1 - np.sqrt(0.5)))
    assert off_beat(0.1) == -off_beat(0.9)
    assert off_beat(0.0) == -TOLERANCE
    random, place, spent = np.random.default_rng(0), 0.0, []
    for step in random.normal(0, 0.005, 200_000):
        place = 0.0 if abs(place) >= TOLERANCE else place + step
        spent.append(place)
    assert np.quantile(spent, 0.75) == pytest.approx(off_beat(0.75), rel=0.1)
    back = sum(1 for one in spent if abs(one) >= TOLERANCE) / len(spent)
    assert back * TOLERANCE == pytest.approx(realigning(0.005), rel=0.25)


BARE = WorkClass("bare", 0.2, 60_000_000_000, 0.0)


def spread(manner, fabric="roce"):
    """Speeds of two jobs of four nodes, each half under one leaf and half under another."""
    cluster = machine(fabric)
    tree = NodeTree.of(cluster)
    leaf = tree.members[0]
    nodes = [np.concatenate([leaf[0][at : at + 2], leaf[1][at : at + 2]]) for at in (0, 2)]
    return Neighbours(cluster, tree, [BARE], [0, 0], manner=manner).changed(state_of(nodes), [0, 1], [])


def test_chosen_paths_do_not_collide():
    """On hashed paths uplinks are used unevenly, with four queue pairs less than with one; chosen ones are as good as a
    fabric that spreads."""
    fabric, even = "roce-untuned", spread(Manner(), "infiniband")
    hashed, chosen = spread(Manner(), fabric), spread(Manner(paths=True), fabric)
    assert hashed[0] < 0.9 * chosen[0]
    assert 1.05 * hashed[0] < spread(Manner(), "roce")[0] < 0.97 * chosen[0]
    assert chosen[0] == pytest.approx(even[0], rel=0.05)
    assert spread(Manner(paths=True), "infiniband") == even


def test_a_job_alone_is_measured_against_paths_that_do_not_collide():
    cluster = machine("roce")
    tree = NodeTree.of(cluster)
    wide = PatternJob(0, 8, tuple(np.repeat([0, 1], 4).tolist()))
    hashed, chosen = (Speeds(cluster, tree.members[0], [BARE], Manner(paths=one)) for one in (False, True))
    assert hashed.ideal_s(wide) == chosen.ideal_s(wide) == chosen.alone(wide).step_s < hashed.alone(wide).step_s
    assert chosen.of((wide,)) == 1_000_000 > hashed.of((wide,))


def test_shifted_jobs_that_drift_lose_a_little():
    calm = WorkClass("calm", 0.5, 60_000_000_000, 0.0)
    cluster = machine("infiniband")
    tree = NodeTree.of(cluster)
    leaf = tree.members[0]
    nodes = [np.array([leaf[0][at], leaf[1][at]]) for at in (0, 1)]
    still, drifting = (
        Neighbours(cluster, tree, [calm], [0, 0], manner=Manner(shifted=True, drift=one)).changed(
            state_of(nodes), [0, 1], []
        )
        for one in (0.0, 0.02)
    )
    assert 0.95 * still[0] < drifting[0] < 0.993 * still[0]  # going back alone costs 0.02^2 / 0.05
