"""Several jobs on one cluster: what they share slows them by max-min, what they do not share changes no digit."""

from __future__ import annotations

import dataclasses
from functools import cache

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from railyard import catalog, cluster, engine
from railyard.cluster import ClusterSpec, FabricSpec, NetworkSpec
from railyard.cluster.fault import DegradeLink, Late
from railyard.cluster.fault.kinds import LinkDown
from railyard.collective import CollectivePolicy
from railyard.engine import Jitter, Stall
from railyard.engine.contract import SEED_BITS, joint
from railyard.graph import CollectiveKind, Communicators, Job, Kind, Label, TaskGraph
from railyard.graph.repeat import merge
from railyard.kit.errors import InputError

FLOW = engine.get("flow")
MIB = 1 << 20


@cache
def machine(fabric="roce", spines=1):
    """Four servers of eight accelerators; two servers under a leaf, which has one link of 400 Gb/s up to each spine."""
    topology = cluster.topologies.get("leaf-spine")(oversubscription=16.0 / spines, ports_per_leaf=16, spines=spines)
    network = NetworkSpec(topology, FabricSpec(fabric))
    return cluster.build(ClusterSpec(32, "hgx-h100", network), catalog.load())


def graph(rows, ranks, groups=((0,),), after=None, **more):
    """Rows (kind, rank, peer, duration, size, collective, stream), each after the one before where `after` is set."""
    names = ("kind", "rank", "peer", "duration_ps", "size_bytes", "collective", "stream")
    columns = np.array(rows, np.int64).reshape(len(rows), 7).T
    return TaskGraph.of(
        ranks,
        **dict(zip(names, columns, strict=True)),
        waits=[[row - 1] if after and row else [] for row in range(len(rows))],
        labels=[Label("gradient", "test", "dp")],
        communicators=Communicators.of(groups, "dp"),
        **more,
    )


def send(source, target, size):
    return (Kind.TRANSFER, source, target, 0, size, 0, 3)


def work(rank, duration):
    return (Kind.COMPUTE, rank, -1, duration, 0, 0, 0)


def step(ranks, size, computed):
    """Every rank computes, all reduce, every rank computes."""
    before, after = ([work(rank, computed) for rank in range(ranks)] for _ in range(2))
    reduce = (Kind.COLLECTIVE, 0, -1, 0, size, CollectiveKind.ALL_REDUCE, 0)
    return graph([*before, reduce, *after], ranks, (tuple(range(ranks)),))


def placed(*accelerators):
    return np.array(accelerators, np.int32)


def jobs_of(*sizes, place=((0, 16), (9, 27), (2, 18))):
    return [Job(graph([send(0, 1, size)], 2), placed(*where)) for size, where in zip(sizes, place, strict=False)]


def test_two_jobs_through_one_uplink_take_what_max_min_says():
    """The second sends five times as much over the one link up: both at half rate, then it has the link to itself."""
    jobs = jobs_of(100 * MIB, 500 * MIB)
    alone = [FLOW.simulate([job], machine()) for job in jobs]
    flowed = [int(record.end_ps[0] - record.column("latency_ps")[0]) for record in alone]
    found = FLOW.simulate(jobs, machine())
    took = [int(found.of(k).end_ps[0] - found.of(k).column("latency_ps")[0]) for k in (0, 1)]
    assert flowed[1] == pytest.approx(5 * flowed[0], abs=5)
    assert took[0] == pytest.approx(2 * flowed[0], abs=2)
    assert took[1] == pytest.approx(flowed[0] + flowed[1], abs=2)


def test_three_jobs_one_of_which_starts_late():
    """Two share the link until the third comes at a tenth of what one alone takes; from then on each has a third."""
    jobs = jobs_of(300 * MIB, 300 * MIB, 300 * MIB)
    alone = FLOW.simulate(jobs[:1], machine())
    latency = int(alone.column("latency_ps")[0])
    one = int(alone.end_ps[0]) - latency
    late = dataclasses.replace(jobs[2], start_ps=one // 10)
    found = FLOW.simulate([*jobs[:2], late], machine())
    rest = one - one // 20
    assert found.end_ps[0] - latency == pytest.approx(one // 10 + 3 * rest, abs=4)
    assert found.start_ps[2] == one // 10
    assert found.end_ps[2] - latency == pytest.approx(one // 10 + 3 * rest + (one - rest), abs=4)


def test_the_higher_class_goes_first():
    """One link up, three jobs of 300 MiB: class 1 has 32 of 34 parts, then the two others half each, then one alone."""
    jobs = jobs_of(300 * MIB, 300 * MIB, 100 * MIB)
    alone = FLOW.simulate(jobs[:1], machine())
    latency = int(alone.column("latency_ps")[0])
    one = int(alone.end_ps[0]) - latency
    found = FLOW.simulate([jobs[0], dataclasses.replace(jobs[1], priority=1), jobs[2]], machine())
    took = found.end_ps - latency
    first, left = one * 34 / 32, one / 3 - one / 32
    assert took[1] == pytest.approx(first, abs=5)
    assert took[2] == pytest.approx(first + 2 * left, abs=5)
    assert took[0] == pytest.approx(one * 7 / 3, abs=5)
    same = FLOW.simulate([dataclasses.replace(job, priority=3) for job in jobs], machine())
    assert same.end_ps.tolist() == FLOW.simulate(jobs, machine()).end_ps.tolist()


def test_rows_of_dead_links_keep_their_class():
    """The link that both share dies and both go by another: the higher class is no slower than alone by a tenth."""
    jobs = jobs_of(300 * MIB, 300 * MIB)
    two = machine(spines=2)
    faults = [LinkDown("leaf 0 - spine 0")]
    alone = FLOW.simulate(jobs[:1], two, faults=faults).end_ps[0]
    found = FLOW.simulate([dataclasses.replace(jobs[0], priority=1), jobs[1]], two, faults=faults)
    assert alone < found.end_ps[0] < 1.1 * alone


@pytest.mark.parametrize("priority", [-1, 8])
def test_there_are_eight_classes(priority):
    jobs = [dataclasses.replace(job, priority=priority) for job in jobs_of(MIB)]
    with pytest.raises(InputError, match="0 to 7"):
        FLOW.simulate(jobs, machine())


def test_jobs_that_share_nothing_change_no_digit_of_each_other():
    """Each has a leaf of its own."""
    one, two = step(16, 40 * MIB, 10**9), step(16, 70 * MIB, 3 * 10**8)
    jobs = [Job(one, np.arange(16, dtype=np.int32)), Job(two, np.arange(16, 32, dtype=np.int32), seed=1)]
    jitter = Jitter(sigma=0.1, rank_sigma=0.05, step_sigma=0.02, stalls=(Stall(900.0, 1e-5),))
    together = FLOW.simulate(jobs, machine(), seed=7, jitter=jitter)
    for number, job in enumerate(jobs):
        alone = FLOW.simulate([job], machine(), seed=7, jitter=jitter)
        mine = together.of(number)
        assert np.array_equal(alone.start_ps, mine.start_ps)
        assert np.array_equal(alone.end_ps, mine.end_ps)
        assert np.array_equal(alone.column("blocker"), mine.column("blocker"))
        assert np.array_equal(alone.column("alone_ps"), mine.column("alone_ps"))


@settings(max_examples=25, deadline=None)
@given(st.permutations(range(3)), st.lists(st.integers(1, 80), min_size=3, max_size=3), st.integers(0, 10**9))
def test_the_order_of_jobs_changes_nothing(order, sizes, start):
    starts = (0, start, 0)
    jobs = [
        Job(step(8, size * MIB, 10**8), np.arange(8, dtype=np.int32) + 8 * number, starts[number], seed=number + 1)
        for number, size in enumerate(sizes)
    ]
    straight = FLOW.simulate(jobs, machine(), jitter=Jitter(sigma=0.1))
    mixed = FLOW.simulate([jobs[number] for number in order], machine(), jitter=Jitter(sigma=0.1))
    for at, number in enumerate(order):
        assert np.array_equal(straight.of(number).end_ps, mixed.of(at).end_ps)


def sent(name, fabric="roce"):
    """Bytes on all links of the back-end of two jobs that meet: together, and of each alone, summed."""
    here, own = machine(fabric), engine.get(name)
    jobs = [
        Job(step(8, 3 * MIB, 10**7), placed(0, 1, 2, 3, 16, 17, 18, 19)),
        Job(step(8, 2 * MIB, 10**7), placed(*range(8, 12), *range(24, 28))),
    ]
    links = here.links.tier > 0
    alone = (own.simulate([job], here).table("links")["bytes"][links].sum() for job in jobs)
    return own.simulate(jobs, here).table("links")["bytes"][links].sum(), sum(alone)


@pytest.mark.parametrize(
    ("name", "fabric", "within"), [("flow", "roce", 1e-9), ("analytic", "roce", 1e-9), ("packet", "infiniband", 1e-4)]
)
def test_bytes_of_jobs_add_up_on_every_link(name, fabric, within):
    together, alone = sent(name, fabric)
    assert alone > 0
    assert together == pytest.approx(alone, rel=within)


def test_jobs_that_meet_send_notifications_of_congestion_and_nothing_else_more():
    """Each is 84 bytes on four links: two of NICs, two of leafs."""
    together, alone = sent("packet")
    assert 0 < together - alone < 0.02 * alone
    assert (together - alone) % (4 * 84) == 0


@pytest.mark.parametrize(("fabric", "mib", "within"), [("uec", 64, 0.05), ("roce", 1024, 0.02)])
def test_jobs_slow_each_other_in_packets_about_as_in_flows(fabric, mib, within):
    """DCQCN has time to find its rates, which flows have at once: two senders of only 128 MiB each take 17 % more."""
    jobs = jobs_of(mib * MIB, mib * MIB)
    ratio = {}
    for name in ("flow", "packet"):
        own = engine.get(name)
        alone = own.simulate(jobs[:1], machine(fabric)).makespan_ps
        ratio[name] = own.simulate(jobs, machine(fabric)).makespan_ps / alone
    assert ratio["flow"] == pytest.approx(2.0, rel=0.01)
    assert ratio["packet"] == pytest.approx(ratio["flow"], rel=within)


def test_one_job_in_the_order_of_the_accelerators_is_its_own_graph():
    what = step(16, MIB, 1000)
    merged, arranged = joint([Job(what)], machine())
    assert merged.graph is what
    assert arranged is machine()


def test_a_domain_is_numbered_where_its_first_rank_stands():
    merged, arranged = joint([Job(step(2, MIB, 0), placed(17, 3))], machine())
    assert merged.ranks[0].tolist() == [1, 11]
    assert arranged.back_end.port_of_rank[[0, 8, 16, 24], 0].tolist() == [16, 0, 8, 24]


def test_a_job_alone_is_the_same_wherever_its_servers_stand():
    """Two servers of one leaf, and two of the other in turned order."""
    what = step(16, 40 * MIB, 10**6)
    here = FLOW.simulate([Job(what)], machine())
    there = FLOW.simulate([Job(what, np.arange(16, 32, dtype=np.int32).reshape(2, 8)[::-1].ravel())], machine())
    assert np.array_equal(here.end_ps, there.end_ps)


def test_merging_moves_everything_that_points_somewhere():
    loss = np.array([[0.25, 0.5]])
    one = graph([work(0, 5), send(0, 1, 7)], 2, after=True, loss_index=np.array([0, 1], np.int32), loss=loss)
    two = graph(
        [work(1, 9), (Kind.COLLECTIVE, 1, -1, 0, 3, 0, 2)],
        2,
        ((0,), (1, 0)),
        after=True,
        loss_index=np.array([0, 0], np.int32),
        loss=np.array([[0.125]]),
        release_ps=np.array([0, 40]),
    )
    merged = merge([Job(one), Job(two, start_ps=100)], [placed(4, 2), placed(1, 0)])
    all_of = merged.graph
    assert all_of.ranks == 5
    assert all_of.rank.tolist() == [4, 4, 0, 2]
    assert all_of.peer.tolist() == [-1, 2, -1, -1]
    assert all_of.dep_ptr.tolist() == [0, 0, 1, 1, 2]
    assert all_of.dep_idx.tolist() == [0, 2]
    assert all_of.label.tolist() == [0, 0, 1, 1]
    assert [all_of.communicators.members(c).tolist() for c in range(3)] == [[4], [1], [0, 1]]
    assert all_of.release_ps.tolist() == [0, 0, 100, 140]
    assert all_of.loss_index.tolist() == [0, 1, 1, 2]
    assert all_of.loss.tolist() == [[0.25, 0.5, 0.0], [0.0, 0.0, 0.125]]
    assert merged.job.tolist() == [0, 0, 1, 1]
    all_of.validate()


def test_faults_count_ranks_from_the_first_job_on():
    jobs = [Job(graph([work(0, 1000), work(1, 1000)], 2), placed(20, 21)), Job(graph([work(0, 1000)], 1), placed(3))]
    found = FLOW.simulate(jobs, machine(), faults=[Late(2, 77)])
    assert found.end_ps.tolist() == [1000, 1000, 1077]
    with pytest.raises(InputError, match="no such rank"):
        FLOW.simulate(jobs, machine(), faults=[Late(3, 77)])


def test_jitter_is_drawn_by_the_seed_of_the_job():
    what = graph([work(0, 10**6), work(1, 10**6)], 2)
    ends = [FLOW.simulate([Job(what, seed=seed)], machine(), jitter=Jitter(sigma=0.2)).end_ps for seed in (0, 1, 1)]
    assert ends[0].tolist() != ends[1].tolist()
    assert ends[1].tolist() == ends[2].tolist()
    assert SEED_BITS > 31


def test_a_record_of_one_job_has_no_other():
    found = FLOW.simulate([Job(step(2, MIB, 5))], machine())
    assert found.of(0) is found
    with pytest.raises(InputError, match="no such job"):
        found.of(1)


@pytest.mark.parametrize("impaired", [0, 1])
def test_slow_nics_of_one_job_change_nothing_for_another(impaired):
    """The first server's NICs once stood for those of every job in what a tree takes to fill: 2.8 % for others."""
    shared = machine("ideal")
    servers = [(0, 2), (1, 3)]
    where = [placed(*(8 * server + np.arange(8)[:, None] for server in own)).ravel() for own in servers]
    reduce = (Kind.COLLECTIVE, 0, -1, 0, 1024 * MIB, CollectiveKind.ALL_REDUCE, 0)
    jobs = [Job(graph([reduce], 16, (tuple(range(16)),)), np.sort(ranks)) for ranks in where]
    ports = shared.back_end.node_offset + shared.back_end.port_of_rank[where[impaired]].ravel()
    nics = np.isin(shared.links.source, ports) | np.isin(shared.links.target, ports)
    nics &= np.isin(shared.links.tier, [at for at, name in enumerate(shared.links.tiers) if name == "nic"])
    faults = [DegradeLink(0.2, link=int(link)) for link in np.flatnonzero(nics)]
    policy = CollectivePolicy(algorithm={"all-reduce": "tree"}, protocol={"all-reduce": "simple"})
    whole, slow = (FLOW.simulate(jobs, shared, policy=policy, faults=each) for each in ((), faults))
    assert slow.end_ps[1 - impaired] == whole.end_ps[1 - impaired]
    assert slow.end_ps[impaired] > 1.2 * whole.end_ps[impaired]
