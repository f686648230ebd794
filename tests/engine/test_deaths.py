"""Dead links in the flow engine: until when traffic stands still, by which paths it goes on, what hangs."""

from __future__ import annotations

import math

import numpy as np
import pytest

from railyard import catalog, cluster, engine
from railyard.cluster import ClusterSpec, FabricSpec, NetworkSpec
from railyard.cluster.fault import (
    AcceleratorDown,
    BitErrors,
    DegradeLink,
    HostDown,
    Late,
    LinkDown,
    NicDown,
    SlowAccelerator,
    SwitchDown,
)
from railyard.cluster.topology import DualPlane, LeafSpine
from railyard.collective import CollectivePolicy
from railyard.engine import Jitter, Stall
from railyard.engine.fluid import drawn, swung
from railyard.graph import Job, Kind, Label, MergedJobs, Stream, TaskGraph
from railyard.kit.errors import Hung, InputError
from railyard.work.scenario import load
from railyard.work.study.study import prepare
from railyard.work.training.graphs import Graphs
from railyard.work.training.jitter import Interruption, JitterLaw

from .hand import Entity, Graph, Links
from .test_semantics import GIGABYTE_PER_S, play

MS = 10**9
LOADED = catalog.load()
PLANES = DualPlane(inner=LeafSpine(ports_per_leaf=8))
FLAT = LeafSpine(ports_per_leaf=8, spines=4)


def machine(fabric="roce", topology=PLANES, **overrides):
    network = NetworkSpec(topology, FabricSpec(fabric, overrides))
    return cluster.build(ClusterSpec(32, "hgx-h100", network), LOADED)


def transfers(pairs, size_bytes=10**9):
    """One transfer for each pair, all at once."""
    source, target = np.array(pairs).T
    labels = (Label("step", "send"),)
    streams = {"kind": Kind.TRANSFER, "stream": Stream.FREE}
    graph = TaskGraph.of(32, **streams, rank=source, peer=target, size_bytes=size_bytes, labels=labels)
    return [Job(graph)]


def deaths_play(machine, pairs, *faults, size_bytes=10**9):
    one = CollectivePolicy(connections=1)  # else a transfer has parts on both planes
    return engine.get("flow").simulate(transfers(pairs, size_bytes), machine, faults=faults, policy=one)


def test_traffic_stands_still_until_the_first_try_after_routes_know():
    """7 ms until routes know, tries every 3 ms: 9 ms after the death at 2 ms it goes on, at the same rate."""
    here = machine(reroute_ps=7 * MS, retransmit_ps=3 * MS, qps=1)
    well = deaths_play(here, [(0, 8)])
    used = int(np.flatnonzero(well.table("links")["bytes"])[0])
    plane = 0 if used < here.back_end.link_offset + here.back_end.wiring.links // 2 else 1
    dead = deaths_play(here, [(0, 8)], SwitchDown(f"plane {plane} leaf 0", at_ps=2 * MS))
    assert int(dead.end_ps[0] - well.end_ps[0]) == pytest.approx(9 * MS, abs=2)
    other = deaths_play(here, [(0, 8)], SwitchDown(f"plane {1 - plane} leaf 0", at_ps=2 * MS))
    assert other.end_ps[0] == well.end_ps[0]
    moved, whole = dead.table("links")["bytes"], well.table("links")["bytes"][used]
    assert 0 < moved[used] < whole
    assert np.sort(moved[moved > 0])[0] + np.sort(moved)[-1] == pytest.approx(whole)


def test_what_is_dead_before_the_run_is_known_to_routes():
    """As in the engine `packet`: a flow that is hashed anew from the start never stands still."""
    here = machine(reroute_ps=7 * MS, retransmit_ps=3 * MS, qps=1)
    well = deaths_play(here, [(0, 8)])
    for plane in (0, 1):
        dead = deaths_play(here, [(0, 8)], SwitchDown(f"plane {plane} leaf 0"))
        assert dead.end_ps[0] == well.end_ps[0]


def test_queue_pairs_of_a_message_wait_for_those_that_stand_still_and_share_what_is_left():
    """Three of four queue pairs are hashed onto plane 0, whose link they fill: 4/3 of the time where all share a plane.

    At 2 ms a leaf dies, at 11 ms they go on, all four on the plane that is left, with 4/3 of what was left in time.
    """
    here = machine(reroute_ps=7 * MS, retransmit_ps=3 * MS)
    well = deaths_play(here, [(0, 8)])
    nic = well.table("links")["bytes"][here.links.of_tier("nic")]
    assert np.sort(nic)[-4:] / nic.sum() * 2 == pytest.approx([0.25, 0.25, 0.75, 0.75])
    for plane in (0, 1):
        known = deaths_play(here, [(0, 8)], SwitchDown(f"plane {plane} leaf 0"))
        assert known.end_ps[0] == pytest.approx(well.end_ps[0] * 4 / 3, rel=1e-3)
        dead = deaths_play(here, [(0, 8)], SwitchDown(f"plane {plane} leaf 0", at_ps=2 * MS))
        assert dead.end_ps[0] == pytest.approx(11 * MS + (well.end_ps[0] - 2 * MS) * 4 / 3, rel=1e-3)


def test_bytes_are_conserved_over_a_reroute():
    here = machine(reroute_ps=MS, retransmit_ps=0)
    pairs = [(rank, (rank + 8) % 32) for rank in range(32)]
    well = deaths_play(here, pairs).table("links")["bytes"]
    dead = deaths_play(here, pairs, SwitchDown("plane 0 spine 0", at_ps=2 * MS)).table("links")["bytes"]
    nics = here.links.of_tier("nic")
    assert dead[nics].sum() == pytest.approx(well[nics].sum(), rel=1e-9)


def test_a_sprayed_fabric_stops_and_then_has_what_is_left_of_its_links():
    """One of four spines: 1 ms without anything, then 3 / 4 of the uplinks; 8 NICs of a leaf on 8 links up."""
    here = machine("uec", FLAT, reroute_ps=MS)
    pairs = [(rank, rank + 16) for rank in range(8)]
    well, dead = deaths_play(here, pairs), deaths_play(here, pairs, SwitchDown("spine 0", at_ps=2 * MS))
    assert here.back_end.bundles is not None
    rest_ps = int(well.end_ps.max()) - 2 * MS
    assert int(dead.end_ps.max()) == pytest.approx(3 * MS + rest_ps * 4 / 3, abs=10)


def test_what_is_back_before_routes_know_goes_on_by_itself():
    here = machine(reroute_ps=70 * MS, retransmit_ps=3 * MS)
    well = deaths_play(here, [(0, 8)])
    dead = deaths_play(here, [(0, 8)], NicDown(0, 0, at_ps=2 * MS, for_ps=4 * MS))
    assert int(dead.end_ps[0] - well.end_ps[0]) == pytest.approx(6 * MS, abs=2)


def test_what_flaps_stalls_each_time():
    here = machine(reroute_ps=70 * MS, retransmit_ps=0)
    well = deaths_play(here, [(0, 8)])
    dead = deaths_play(here, [(0, 8)], NicDown(0, 0, at_ps=2 * MS, for_ps=MS, every_ps=3 * MS, times=4))
    assert int(dead.end_ps[0] - well.end_ps[0]) == pytest.approx(4 * MS, abs=5)


def test_a_dead_nic_hangs_what_needs_it_and_says_since_when():
    with pytest.raises(Hung) as caught:
        deaths_play(machine(), [(0, 8), (1, 9)], NicDown(1, 0, at_ps=2 * MS))
    assert caught.value.since_ps == 2 * MS
    assert "rank 0" in caught.value.what
    assert deaths_play(machine(), [(1, 9)], NicDown(1, 0, at_ps=2 * MS)).end_ps[0] > 0


def test_flows_that_share_nothing_with_the_dead_keep_their_times_to_the_last_digit():
    here = machine(topology=FLAT)
    pairs = [(rank, rank + 16) for rank in range(16)]
    well = deaths_play(here, pairs)
    cable = "server 0 NIC 5 - leaf 0"
    dead = deaths_play(here, pairs, LinkDown(cable, at_ps=2 * MS, for_ps=MS))
    same = dead.end_ps == well.end_ps
    assert same.sum() >= 8
    assert not same[5]


@pytest.mark.parametrize(
    ("fault", "key", "hint"),
    [
        (SwitchDown("leaf 9"), "faults.0.switch", None),
        (SwitchDown("plane 0 laef 1"), "faults.0.switch", "plane 0 leaf 1"),
        (SwitchDown("server 0 NIC 1"), "faults.0.switch", None),
        (LinkDown("plane 0 leaf 0 - plane 1 spine 0"), "faults.0.cable", None),
        (LinkDown("plane 0 leaf 0"), "faults.0.cable", None),
        (NicDown(4, 0), "faults.0.host", None),
        (NicDown(0, 8), "faults.0.nic", None),
        (NicDown(0, 0, port=2), "faults.0.port", None),
        (HostDown(17), "faults.0.host", None),
        (DegradeLink(0.5, cable="plane 0 leaf 0 - leaf 1"), "faults.0.cable", None),
    ],
)
def test_a_place_that_is_not_there_is_named_with_the_nearest(fault, key, hint):
    with pytest.raises(InputError) as caught:
        deaths_play(machine(), [(0, 8)], fault)
    problem = caught.value.problems[0]
    assert problem.key == key
    if hint is not None:
        assert hint in problem.hint


# Late ranks, slow accelerators, links that lose capacity.

US = 1_000_000


def computing(*durations):
    graph = Graph(2)
    for duration in durations:
        graph.compute(0, duration)
    return graph


def test_a_late_rank_lengthens_what_runs_then():
    timeline = play(computing(10 * US, 10 * US), faults=[Late(0, by_ps=3 * US, at_ps=4 * US)])
    assert timeline.end_ps.tolist() == [13 * US, 23 * US]


def test_a_rank_that_idles_is_late_with_its_next_computation():
    graph = Graph(2)
    send = graph.transfer(1, 0, 0)
    graph.compute(0, 10 * US, send)
    timeline = play(graph, [Entity({0: 1.0}, 5_000)], faults=[Late(0, by_ps=3 * US, at_ps=1 * US)])
    assert timeline.start_ps[1] == 5 * US
    assert timeline.end_ps[1] == 18 * US


def test_a_rank_that_computes_nothing_any_more_is_not_late_and_the_result_says_so():
    graph = Graph(2)
    graph.compute(0, US)
    graph.compute(1, 5 * US)
    timeline = play(graph, faults=[Late(0, by_ps=US, at_ps=2 * US), Late(1, by_ps=US, at_ps=9 * US)])
    assert timeline.makespan_ps == 5 * US
    assert len(timeline.meta["warnings"]) == 2
    assert "rank 0" in timeline.meta["warnings"][0]


def test_other_ranks_are_not_late():
    graph = Graph(2)
    graph.compute(0, US)
    graph.compute(1, US)
    assert play(graph, faults=[Late(1, by_ps=US)]).end_ps.tolist() == [US, 2 * US]


def test_a_slow_accelerator_slows_what_is_in_flight_and_recovers():
    """10 us of work: 4 us done, then 6 us at half speed of which 3 us get done by then, then 3 us at full speed."""
    fault = SlowAccelerator(0, factor=0.5, at_ps=4 * US, for_ps=6 * US)
    assert play(computing(10 * US), faults=[fault]).end_ps.tolist() == [13 * US]


def test_slow_for_good():
    assert play(computing(10 * US, 10 * US), faults=[SlowAccelerator(0, 0.8)]).end_ps.tolist() == [
        12_500_000,
        25 * US,
    ]


def test_overlapping_slowness_multiplies():
    faults = [SlowAccelerator(0, 0.5), SlowAccelerator(0, 0.5, at_ps=10 * US)]
    assert play(computing(10 * US), faults=faults).end_ps.tolist() == [30 * US]  # 5 us of work, then 5 at a quarter


def test_late_and_slow_together():
    faults = [SlowAccelerator(0, 0.5), Late(0, by_ps=3 * US, at_ps=2 * US)]
    assert play(computing(10 * US), faults=faults).end_ps.tolist() == [23 * US]


@pytest.mark.parametrize("name", ["flow", "analytic"])
def test_a_degraded_link_slows_what_flows_and_recovers(name):
    """4,000 bytes: 1 us at full rate, 4 us at a quarter of it, the rest at full rate."""
    graph = Graph(1)
    graph.transfer(0, 0, 0)
    fault = DegradeLink(0.25, link=0, at_ps=1 * US, for_ps=4 * US)
    timeline = play(graph, [Entity({0: 1.0}, 4_000)], faults=[fault], name=name)
    assert timeline.end_ps.tolist() == [7 * US]


@pytest.mark.parametrize("name", ["flow", "analytic"])
def test_a_link_that_is_all_but_down_holds_its_flows_until_it_is_up(name):
    graph = Graph(1)
    graph.transfer(0, 0, 0)
    graph.transfer(0, 0, 0)
    fault = DegradeLink(1e-9, tier="nic", at_ps=500_000, for_ps=2_000_000)
    timeline = play(graph, [Entity({0: 1.0}, 1_000)], faults=[fault], name=name)
    assert timeline.end_ps.tolist() == [3 * US, 4 * US]


def test_degraded_links_share_what_is_left():
    """Two flows on one link of 1 GB/s, one of them also on a link that drops to 0.25 GB/s: the other gets 0.75."""
    graph = Graph(2)
    graph.transfer(0, 1, 0)
    graph.transfer(1, 0, 1)
    rows = [Entity({0: 1.0, 1: 1.0}, 1_000), Entity({0: 1.0}, 3_000)]
    timeline = play(graph, rows, [GIGABYTE_PER_S] * 2, faults=[DegradeLink(0.25, link=1)])
    assert timeline.end_ps.tolist() == [4 * US, 4 * US]


@pytest.mark.parametrize(
    ("fault", "key"),
    [
        (lambda: Late(5, by_ps=1), "faults.0.rank"),
        (lambda: SlowAccelerator(-1, 0.5), "faults.0.rank"),
        (lambda: DegradeLink(0.5, link=9), "faults.0.link"),
        (lambda: DegradeLink(0.5, tier="nik"), "faults.0.tier"),
        (lambda: DegradeLink(0.5), "link"),
        (lambda: DegradeLink(-0.5, link=0), "factor"),
        (lambda: DegradeLink(0.0, link=0), "factor"),
        (lambda: DegradeLink(1.0, link=0), "factor"),
        (lambda: DegradeLink(1.5, link=0), "factor"),
        (lambda: SlowAccelerator(0, 0.0), "factor"),
        (lambda: SlowAccelerator(0, 1.0), "factor"),
        (lambda: SlowAccelerator(0, 1.5), "factor"),
        (lambda: SlowAccelerator(0, 0.5, at_ps=5, for_ps=0), "for"),
        (lambda: SlowAccelerator(0, 0.5, at_ps=-5), "at"),
        (lambda: LinkDown("leaf 0 - spine 1"), "faults.0.cable"),
        (lambda: AcceleratorDown(0), "faults.0"),
        (lambda: BitErrors(1e-9), "faults.0"),
        (lambda: Late(0, by_ps=-1), "by"),
    ],
)
def test_impossible_faults_are_refused(fault, key):
    with pytest.raises(InputError) as caught:
        play(computing(US), faults=[fault()])
    assert caught.value.problems[0].key == key


def test_a_bundle_loses_what_its_member_loses():
    """Two members of 1 GB/s each behind one bundle; one keeps a quarter."""

    class Bundled(Links):
        def __post_init__(self):
            super().__post_init__()
            self.bundle_of = self.bundle_of[:2]
            self.bundle_of[:] = 2

        @property
        def physical(self):
            return 2

        def with_bundles(self, rate_bps):
            rate_bps[2] = rate_bps[0] + rate_bps[1]
            return rate_bps

    from .hand import lowered

    graph = Graph(1)
    graph.transfer(0, 0, 0)
    links = Bundled([GIGABYTE_PER_S, GIGABYTE_PER_S, 2 * GIGABYTE_PER_S])
    columns = lowered(graph, [Entity({2: 1.0}, 2_500)])
    fault = DegradeLink(0.25, link=1)
    assert engine.get("flow").run(*columns, links).end_ps.tolist() == [1_250_000]
    assert engine.get("flow").run(*columns, links, faults=[fault]).end_ps.tolist() == [2 * US]


# Interruptions and common noise that engines draw: by the seed, and as the law says.


@pytest.fixture(scope="module")
def bench():
    job = prepare(
        load.from_values(
            {
                "name": "stalls",
                "cluster": {
                    "accelerators": 32,
                    "server": "hgx-h100",
                    "back_end": {"topology": "rail-optimized", "fabric": "ideal"},
                },
                "workload": {
                    "training": {
                        "model": "llama-3.2-1b",
                        "global_batch": 128,
                        "sequence": 2048,
                        "parallelism": {"tp": 1, "zero": 1, "micro_batch": 1},
                    }
                },
            }
        )
    )[0]
    return job, Graphs().of(job.training, job.cluster)


def steps_s(bench, jitter, seeds):
    job, graph = bench
    return np.array(
        [job.engine.simulate([Job(graph)], job.cluster, seed=seed, jitter=jitter).makespan_ps * 1e-12 for seed in seeds]
    )


def test_the_same_seed_gives_the_same_step(bench) -> None:
    jitter = Jitter(step_sigma=0.01, stalls=(Stall(0.5, 0.01),))
    one, same, other = steps_s(bench, jitter, [3, 3, 4])
    assert one == same != other


def test_common_noise_moves_all_ranks_together(bench) -> None:
    """It widens the steps and leaves nobody waiting: the mean stays."""
    plain = steps_s(bench, Jitter(), [0])[0]
    found = steps_s(bench, Jitter(step_sigma=0.02), range(80))
    assert found.mean() == pytest.approx(plain, rel=0.01)
    assert 0.01 < found.std() / plain < 0.025


def test_interruptions_are_as_many_as_the_rate_says(bench) -> None:
    _, graph = bench
    busy_s = graph.duration_ps[graph.kind == 0].sum() * 1e-12 / graph.ranks
    counts = [len(drawn(MergedJobs.of(graph), Jitter(stalls=(Stall(2.0, 0.01),)), seed)) for seed in range(300)]
    assert np.mean(counts) == pytest.approx(2.0 * graph.ranks * busy_s, rel=0.05)
    assert drawn(MergedJobs.of(graph), Jitter(), 0) == ()
    assert swung(MergedJobs.of(graph), Jitter(), 0) is graph


def test_a_data_parallel_step_waits_for_the_longest_interruption(bench) -> None:
    """Rare ones: the engine's steps have the quantiles of the law, which says that each reaches the step."""
    _, graph = bench
    rate, mean_s = 1.0, 0.05
    plain = steps_s(bench, Jitter(), [0])[0]
    busy_s = float(np.bincount(graph.rank[graph.kind == 0], graph.duration_ps[graph.kind == 0]).max()) * 1e-12
    found = steps_s(bench, Jitter(stalls=(Stall(rate, mean_s),)), range(120)) - plain
    law = JitterLaw("", 0.0, (Interruption(rate, mean_s),), "")
    for share in (0.5, 0.9):
        wanted = law.delay_s(share, graph.ranks, busy_s, 1)
        assert float(np.quantile(found, share)) == pytest.approx(wanted, rel=0.3, abs=2e-3)
    assert math.isclose(found.min(), 0.0, abs_tol=plain)
