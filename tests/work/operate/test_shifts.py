"""Time shifts on the circle, and classes of traffic, in what contention costs."""

import json

import numpy as np
import pytest

from railyard import engine
from railyard.face.cli import guard
from railyard.graph import Job
from railyard.work.operate.contention.intensity import TrafficBeat, excess, shifts
from railyard.work.operate.contention.neighbours import Neighbours
from railyard.work.operate.contention.pattern import PatternJob, WorkClass, out_bytes, uplinks_bps
from railyard.work.operate.contention.speeds import Manner, Speeds
from railyard.work.operate.failures.fault import Effect, NodeFault
from railyard.work.operate.files import load, save
from railyard.work.operate.free import FreeNodes, PlacementRequest
from railyard.work.operate.loop import ClusterRun
from railyard.work.operate.rules import RecoveryRules, Rules, Turnaround
from railyard.work.operate.tree import NodeTree

from .test_contention import machine, state_of
from .yard import Given, S, accounts_add_up, jobs, played, seconds, tree


def overlaps(beats, turns, link=0, samples=20_000):
    """Mean demand beyond 1 on a link, by sampling a long time."""
    time = np.linspace(0, 400.0, samples, endpoint=False)
    total = np.zeros(samples)
    for beat, turn in zip(beats, turns, strict=True):
        phase = (time - turn - beat.begins_s) % beat.period_s
        total += beat.share.get(link, 0.0) * (phase < beat.lasts_s)
    return np.maximum(total - 1, 0).mean()


def test_two_equal_jobs_send_in_turn():
    """Each sends for 0.4 of a step of 1: the second begins close behind the first; so does a third that sends 0.15."""
    beat = TrafficBeat(1.0, 0.5, 0.4, {0: 1.0})
    first, second = shifts([beat, beat])
    assert abs(second - first) == pytest.approx(0.4, abs=2.1 / 72)
    three = [beat, beat, TrafficBeat(1.0, 0.1, 0.15, {0: 1.0})]
    assert excess(three, shifted=True) == 0.0
    assert overlaps(three, shifts(three)) == 0.0
    assert excess([beat, beat], shifted=True) == 0.0
    # At random two arcs of 0.4 meet for 0.4 x 0.4 of the step on average.
    assert excess([beat, beat], shifted=False) == pytest.approx(0.16, abs=0.04)


def test_steps_of_different_length_meet_on_a_common_circle():
    """Steps of 1 and 2: one sends twice 0.3 while the other sends 0.5 in a gap of 0.7."""
    beats = [TrafficBeat(1.0, 0.2, 0.3, {0: 1.0}), TrafficBeat(2.0, 0.9, 0.5, {0: 1.0})]
    assert excess(beats, shifted=True) == 0.0
    assert overlaps(beats, shifts(beats)) == 0.0
    assert overlaps(beats, [0.0, 0.0]) > 0.05


def test_what_cannot_fit_meets_as_little_as_can_be():
    """0.7 and 0.6 of a step: 0.3 is left over whatever the turn."""
    beats = [TrafficBeat(1.0, 0.0, 0.7, {0: 1.0}), TrafficBeat(1.0, 0.0, 0.6, {0: 1.0})]
    assert excess(beats, shifted=True) == pytest.approx(0.3, abs=0.01)


def test_only_links_that_are_shared_count():
    beats = [
        TrafficBeat(1.0, 0.0, 0.7, {0: 1.0}),
        TrafficBeat(1.0, 0.0, 0.7, {1: 1.0}),
        TrafficBeat(1.0, 0.0, 0.7, {0: 0.5, 1: 0.5}),
    ]
    assert excess(beats[:2], shifted=True) == 0.0
    # On each of both links two arcs of 0.7 meet for at least 0.4, at 0.5 beyond what it carries.
    assert excess(beats, shifted=True) == pytest.approx(2 * 0.2, abs=0.01)


def test_bytes_out_of_groups():
    """Order 0 0 1 1 0: out of group 0 twice, out of group 1 once... and the ring closes inside group 0."""
    sent = out_bytes(np.array([0, 0, 1, 1, 0]), 40, 8e9)
    assert sent == {0: pytest.approx(2 * 39 / 40 * 8e9), 1: pytest.approx(2 * 39 / 40 * 8e9)}
    assert out_bytes(np.array([3, 3]), 16, 8e9) == {}


def test_uplinks_and_what_a_ring_sends_over_them():
    """12:1 under leafs of 4 nodes, 32 ports of 400 Gb/s: 3 up, at 97 %; what links carried is the formula's."""
    cluster = machine("infiniband")
    tree = NodeTree.of(cluster)
    capacity = uplinks_bps(cluster, tree.members[0])
    assert capacity == pytest.approx([3 * 0.97 * 400e9] * 4)
    work = WorkClass("w", 0.1, 10_000_000_000, 0.0)
    nodes = np.array([0, 1, 4, 5])
    ranks = (nodes[:, None] * 8 + np.arange(8)).ravel().astype(np.int32)
    record = engine.get("flow").simulate([Job(work.steps(32, 5), ranks)], cluster)
    up = cluster.links.tiers.index("leaf-spine")
    carried = np.asarray(record.tables["links"]["bytes"])[cluster.links.tier == up].sum()
    sent = out_bytes(tree.group[0][nodes], 32, 10e9)
    # Up to a spine, and down again; headers and flags of the protocol come on top.
    assert 1 < carried / 5 / (2 * sum(sent.values())) < 1.06


HEAVY = WorkClass("heavy", 0.2, 60_000_000_000, 0.0)
LIGHT = WorkClass("light", 0.2, 30_000_000_000, 0.0)


def two(manner, classes=(HEAVY, HEAVY), fabric="infiniband"):
    cluster = machine(fabric)
    tree = NodeTree.of(cluster)
    leaf = tree.members[0]
    state = state_of([np.array([leaf[0][0], leaf[1][0]]), np.array([leaf[0][1], leaf[1][1]])])
    return Neighbours(cluster, tree, classes, [0, 1], manner=manner).changed(state, [0, 1], [])


def test_the_more_intense_job_goes_first():
    """The one with half the traffic has twice the intensity: it loses next to nothing, the other more than before."""
    alike, ranked = two(Manner(), (HEAVY, LIGHT)), two(Manner(priorities=True), (HEAVY, LIGHT))
    apart = two(Manner(), (HEAVY, WorkClass("none", 0.2, 1000, 0.0)))
    assert alike[1] < 0.9 * ranked[1]
    assert ranked[0] < alike[0] < apart[0]


def test_equal_jobs_are_of_one_class():
    assert two(Manner(priorities=True)) == two(Manner())


def test_shifts_let_jobs_that_fit_forget_one_another():
    """Each sends for less than half of its step: shifted, both are as fast as alone; any phases cost them some."""
    cluster = machine("infiniband")
    tree = NodeTree.of(cluster)
    calm = WorkClass("calm", 0.5, 60_000_000_000, 0.0)
    leaf = tree.members[0]
    one = state_of([np.array([leaf[0][0], leaf[1][0]])])
    alone = Neighbours(cluster, tree, [calm], [0]).changed(one, [0], [])[0]
    shifted, alike = two(Manner(shifted=True), (calm, calm)), two(Manner(), (calm, calm))
    assert shifted[0] == pytest.approx(alone, rel=2e-3)
    assert shifted[1] == pytest.approx(alone, rel=2e-3)
    assert alike[0] < 0.97 * alone


def test_intensity_by_hand():
    """16 accelerators that compute 0.2 s each, over the time that the reduction takes alone."""
    cluster = machine("infiniband")
    tree = NodeTree.of(cluster)
    speeds = Speeds(cluster, tree.members[0], (HEAVY, LIGHT), Manner())
    heavy, light = PatternJob(0, 8, (0, 1)), PatternJob(1, 8, (0, 1))
    lasts = speeds.alone(heavy).lasts_s
    assert speeds.alone(heavy).step_s == pytest.approx(0.2 + lasts, rel=1e-4)
    assert speeds.alone(heavy).begins_s == pytest.approx(0.2, rel=1e-4)
    assert speeds.turn(heavy).intensity == pytest.approx(16 * 0.2 / lasts)
    assert speeds.turn(light).intensity == pytest.approx(2 * speeds.turn(heavy).intensity, rel=0.01)


def test_what_jobs_send_is_seen_and_goes_with_them():
    cluster = machine("infiniband")
    tree = NodeTree.of(cluster)
    leaf = tree.members[0]
    state = state_of([np.array([leaf[0][0], leaf[1][0]]), np.array([leaf[0][1], leaf[2][1]])])
    state.free = FreeNodes(tree)
    known = Neighbours(cluster, tree, [HEAVY], [0, 0])
    known.watch(state)
    known.moved(state, 0)
    known.moved(state, 1)
    each = round(2 * 15 / 16 * 60e9 * 8 / 0.2)
    assert state.free.traffic_bps[0].tolist() == [2 * each, each, each, 0]
    known.changed(state, [0, 1], [])
    assert state.free.judge(PlacementRequest(2, 8, job=1), np.array([leaf[0][2], leaf[1][2]])) > 0.1
    assert state.free.judge(PlacementRequest(2, 8, job=1), np.array([leaf[2][2], leaf[3][2]])) == 0.0
    assert state.free.judge(PlacementRequest(2, 8, job=1), np.array([leaf[0][2], leaf[0][3]])) == 0.0
    del state.placed[0]
    known.moved(state, 0)
    assert state.free.traffic_bps[0].tolist() == [each, 0, each, 0]


# Between two users of a node: erased where somebody else had it, attested at every start, and accounted.

ROWS = ((0, 100, 2), (1, 50, 2), (2, 30, 2))


def owned(*owners):
    names = tuple(dict.fromkeys(owners))
    return {"tenant": np.array([names.index(one) for one in owners], np.int32), "tenants": names}


def spent(run, what):
    """Accelerator-seconds of each job."""
    return [row[what] / S for row in run.state.spent]


def test_another_tenant_waits_for_the_erasure():
    """Both nodes go from blue to green at 100: 7 s, then green's 50 s, then green again at once."""
    table = jobs(*ROWS, **owned("blue", "green", "green"))
    run = played(table, nodes=2, backfill="none", turnaround=Turnaround(erase_us=7 * S))
    assert seconds(run.state.end_us) == [100, 157, 187]
    assert (run.state.erased, spent(run, 7)) == (2, [0, 7 * 16, 0])
    assert spent(run, 0) == [1600, 800, 480]
    accounts_add_up(run)


def test_between_jobs_every_other_job_waits():
    table = jobs(*ROWS, **owned("blue", "green", "green"))
    run = played(table, nodes=2, backfill="none", turnaround=Turnaround(erase_us=7 * S, between="jobs"))
    assert seconds(run.state.end_us) == [100, 157, 194]
    assert run.state.erased == 4


def test_a_verifier_judges_so_many_a_second_at_every_start():
    """16 accelerators at 5 a second, 2 s an answer: 2 + 15 / 5 = 5 s; setup of 3 s comes after it, apart."""
    asked = Turnaround(attest_us=2 * S, verifier_per_s=5.0)
    run = played(jobs((0, 100, 2)), turnaround=asked, setup_us=3 * S)
    assert seconds(run.state.end_us) == [108]
    assert (spent(run, 7), spent(run, 1)) == ([5 * 16], [3 * 16])
    assert asked.attested_us(1) == 2 * S
    assert Turnaround(attest_us=2 * S).attested_us(4096) == 2 * S
    accounts_add_up(run)


def test_a_spare_is_attested_before_it_takes_over():
    """A node dies at 20 s and is seen at 50; only the spare's 8 accelerators are asked about: 4 s, 11 s to resume."""
    fault = NodeFault(20 * S, (0,), Effect.OUT, 0, 30 * S, 10**9 * S)
    rules = RecoveryRules(interval_us=S, resume_us=11 * S, spares=1)
    asked = Turnaround(attest_us=4 * S)
    run = played(jobs((0, 96, 2)), nodes=3, faults=Given(fault), recovery=rules, turnaround=asked)
    assert seconds(run.state.end_us) == [4 + 96 + 30 + 4 + 11]
    assert spent(run, 7) == [(4 + 4) * 16]
    accounts_add_up(run)


def test_who_had_a_node_last_survives_a_kill(tmp_path):
    table, rules = jobs(*ROWS, **owned("blue", "green", "blue")), Rules(turnaround=Turnaround(erase_us=7 * S))
    first = ClusterRun(table, tree(2), rules)
    first.run(moments=4)
    save(first, tmp_path / "state")
    again = ClusterRun(table, tree(2), rules)
    assert load(again, tmp_path / "state")
    first.run()
    again.run()
    assert seconds(again.state.end_us) == seconds(first.state.end_us) == [100, 157, 194]
    assert again.state.spent == first.state.spent
    assert again.state.erased == first.state.erased == 4


DOCUMENT = """
cluster: {accelerators: 16, server: hgx-h100, back_end: {fabric: ideal}}
workload:
  operate:
    jobs: {synthetic: {count: 30, load: 0.8, sizes: {"8": 1.0}, tenants: 3}}
    turnaround: {SECTION}
"""


@pytest.mark.parametrize(
    ("section", "erase_s"),
    [
        ("{}", 5.0),  # the key of the drives; 2 TiB at 614.4 GB/s take 3.58 s
        ("{drives: none}", 2 * 1024**4 / 614.4e9),
        ("{drives: overwrite, reboot: 8 min}", 30.7e12 / 25e9 + 480),
        ("{drives: none, memory: false}", 0.0),
    ],
)
def test_times_are_the_catalogues(tmp_path, section, erase_s):
    from railyard.work.operate.prepare import prepare
    from railyard.work.scenario.load import expand, from_text

    prepared = prepare(expand(from_text(DOCUMENT.replace("{SECTION}", section), tmp_path / "a.yaml"))[0])
    assert prepared.rules.turnaround.erase_us == round(erase_s * S)
    assert [f"is erased in {erase_s:.3g} s" in line for line in prepared.defaults] == [True] * (erase_s > 0)


def operated(tmp_path, section, *options):
    path = tmp_path / "a.yaml"
    path.write_text(DOCUMENT.replace("{SECTION}", section))
    return guard.run(["operate", str(path), "--out", str(tmp_path / "run"), "--quiet", *options])


def test_an_unknown_drive_is_named(tmp_path, capsys):
    assert operated(tmp_path, "{storage: local-nwme}") == 2
    words = capsys.readouterr().err
    assert "turnaround.storage" in words
    assert "local-nvme" in words


def test_the_result_has_its_share(tmp_path, capsys):
    assert operated(tmp_path, "{drives: overwrite}", "--json") == 0
    time = json.loads(capsys.readouterr().out)["variants"][0]["operate"]["time"]
    shares = {row["name"]: row["share"] for row in time}
    assert shares["turnaround"] > 0.01
    assert sum(shares.values()) == pytest.approx(1.0)
