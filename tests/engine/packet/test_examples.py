"""Two spines against four: what `examples/packet/spines.py` shows, and the parallel cables that it needs."""

from __future__ import annotations

import importlib.util
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from railyard.engine.packet import Settings, Traffic, crossbar, leaf_spine, run
from railyard.engine.packet.faults import both_ways
from railyard.kit.errors import InputError
from railyard.work.scenario.packet import fabric

EXAMPLE = Path(__file__).parents[3] / "examples" / "packet" / "spines.py"
G400 = 400 * 10**9
SPRAY = Settings(load_balancing="spray")
SEEDS = (11, 12, 13)  # none that the page shows


@pytest.fixture(scope="module")
def spines():
    spec = importlib.util.spec_from_file_location("spines_example", EXAMPLE)
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module  # where dataclasses look up their annotations
    spec.loader.exec_module(module)
    yield module
    del sys.modules[spec.name]


@pytest.mark.parametrize("seed", SEEDS)
def test_a_spine_and_an_uplink_dead_stop_every_host_under_two_spines_and_hardly_one_under_four(spines, seed):
    two, four = (spines.found(spines.Design(count), spines.SPINE_UPLINK, seed) for count in (2, 4))
    assert two.host_links == 32
    assert two.switch_links >= 8
    assert four.host_links <= 8
    assert two.victim_ms > 10 * four.victim_ms
    assert two.paused_ms > 5 * four.paused_ms


def test_two_dead_uplinks_of_a_leaf_are_alike_under_two_spines_and_four(spines):
    """Each design is left with half of the leaf's uplinks: only that leaf's hosts are stopped."""
    for count in (2, 4):
        found = spines.found(spines.Design(count), spines.TWO_UPLINKS, SEEDS[0])
        assert (found.host_links, found.switch_links) == (4, 0)
        assert found.victim_ms < 0.3


def test_what_counts_is_the_capacity_that_is_left(spines):
    """Of four spines two dead, and an uplink: as many hosts stopped as with one of two."""
    found = spines.found(spines.Design(4), spines.HALF_UPLINK, SEEDS[0])
    assert found.host_links == 32
    assert found.victim_ms > 20


@pytest.mark.parametrize(("count", "dead"), [(2, 2 * (8 * 2 + 1)), (4, 2 * (8 + 1))])
def test_both_designs_have_the_same_links_and_the_failure_takes_what_it_names(spines, count, dead):
    network = spines.Design(count).network()
    assert network.links == 2 * (32 + 8 * 4)
    gone = spines.Design(count).dead(network, spines.SPINE_UPLINK)
    assert len(set(gone)) == len(gone) == dead
    ends = {(int(network.link_source[link]), int(network.link_target[link])) for link in gone}
    assert {(b, a) for a, b in ends} == ends


def test_parallel_cables_of_a_leaf_and_a_spine_all_carry():
    network = leaf_spine(15, leaf_hosts=5, spines=2, rate_bps=G400, cables=3)
    assert network.links == 2 * (15 + 3 * 2 * 3)
    assert len(both_ways(network, 15 + 2, 15 + 3 + 1)) == 6
    found = run(network, Traffic.of(15, [0], [14], 1_200_000), SPRAY)
    carried = found.table("links")["bytes"]
    up = np.flatnonzero((network.link_source == 15) & (network.link_target >= 18))
    down = np.flatnonzero((network.link_source >= 18) & (network.link_target == 17))
    assert len(up) == len(down) == 6
    assert (carried[up] > 0).all()
    assert (carried[down] > 0).all()
    assert carried[down].sum() == carried[up].sum() >= 1_200_000


def test_two_cables_carry_what_one_cannot():
    """6 MB take 120 us over one cable at 400 Gb/s, and 60 us over two."""
    traffic = Traffic.of(4, [0, 1], [2, 3], 3_000_000)
    one, two = (
        run(leaf_spine(4, leaf_hosts=2, spines=1, rate_bps=G400, cables=cables), traffic, SPRAY).end_ps.max()
        for cables in (1, 2)
    )
    assert one > 120e6
    assert 60e6 < two < 90e6


@pytest.mark.parametrize(
    ("line", "word"),
    [
        (["--spines", "3"], "divisor of the 4 uplinks"),
        (["--spines", "1"], "2 or more"),
        (["--size", "250"], "250"),
        (["--leaves", "4"], "16 hosts must be outside leaf 0"),
        (["--seeds", "0"], "1 or more"),
    ],
)
def test_what_cannot_be_built_is_refused(spines, monkeypatch, capsys, line, word):
    monkeypatch.setattr(sys, "argv", ["spines.py", *line])
    with pytest.raises(SystemExit) as stopped:
        spines.main()
    assert stopped.value.code == 2
    assert word in capsys.readouterr().err


# Senders that heed no congestion, and the neighbour of the example on six fabrics: points worked out by hand.

RATE = 400 * 10**9


@pytest.fixture(scope="module")
def neighbour():
    path = Path(__file__).parents[3] / "examples" / "packet" / "neighbour.py"
    spec = importlib.util.spec_from_file_location("neighbour", path)
    module = importlib.util.module_from_spec(spec)
    sys.modules["neighbour"] = module
    spec.loader.exec_module(module)
    yield module
    del sys.modules["neighbour"]


def took_us(name, deaf, size=4_000_000, **more):
    """Five hosts send to one; the last heeds nothing where `deaf`."""
    flows = Traffic.of(6, np.arange(1, 6), 0, size)
    flows = replace(flows, deaf=np.array([0, 0, 0, 0, deaf], np.uint8))
    settings = replace(fabric(name).settings, **more)
    record = run(crossbar(6, rate_bps=RATE), flows, settings)
    return record.duration_ps / 1e6


@pytest.mark.parametrize(("name", "size", "most"), [("roce", 4, 0.75), ("spectrum-x", 40, 0.8), ("uec", 4, 0.5)])
def test_who_heeds_nothing_takes_from_those_who_do(name, size, most):
    """Spectrum-X's control cuts late, and pauses share evenly until it does: there it takes longer flows."""
    fair, greedy = took_us(name, 0, size * 10**6), took_us(name, 1, size * 10**6)
    assert greedy[4] < most * fair[4]
    assert greedy[4] < most * greedy[:4].min()
    assert greedy.max() >= 5 * size * 8e6 / RATE * 1e6  # bytes over the rate of one port


def test_where_nobody_controls_it_changes_nothing():
    assert took_us("infiniband", 0).tolist() == took_us("infiniband", 1).tolist()


@pytest.mark.parametrize("name", ["roce", "uec", "infiniband", "scheduled"])
def test_a_nic_that_reaches_a_share_sends_for_as_much_longer(name):
    """64 MB at half of 400 Gb/s: 2,560 us of payload; headers and the paths there and back are little beside it."""
    flows = Traffic.of(2, 0, 1, 64 * 10**6)
    whole, half = (
        run(crossbar(2, rate_bps=RATE), replace(flows, nic_share=share), fabric(name).settings)
        for share in (None, np.array([0.5]))
    )
    assert half.duration_ps[0] == pytest.approx(2 * whole.duration_ps[0], rel=0.01)
    assert 2560 < half.duration_ps[0] / 1e6 < 2560 * 1.1
    with pytest.raises(InputError, match=r"not in \(0, 1\]"):
        run(crossbar(2, rate_bps=RATE), replace(flows, nic_share=np.array([1.5])), fabric(name).settings)


@pytest.mark.parametrize("name", ["uec", "roce", "scheduled"])
@pytest.mark.parametrize(("others", "longer"), [(1, 1.0), (2, 1.2)])
def test_a_nic_that_waits_sends_other_flows_meanwhile(name, others, longer):
    """Four flows at 0.8 of the rate leave one packet's time in five; a fifth fills it, a sixth takes as much more."""

    def took_us(others):
        flows = Traffic.of(7, np.zeros(4 + others), 1 + np.arange(4 + others), 2 * 10**6)
        share = np.where(np.arange(4 + others) < 4, 0.8, 1.0)
        record = run(crossbar(7, rate_bps=RATE), replace(flows, nic_share=share), fabric(name).settings)
        return record.duration_ps[:4].max() / 1e6

    assert took_us(others) == pytest.approx(longer * took_us(0), rel=0.02)


def test_the_incast_takes_what_its_port_takes(neighbour):
    """12 times 4 MB over 400 Gb/s are 960 us, and headers: 4,178 of 4,096 bytes a packet, more with UEC."""
    case = neighbour.Case("ideal", "incast")
    flows, mine = neighbour.traffic(case)
    record = run(neighbour.network(case), flows, replace(fabric("ideal").settings, seed=0))
    assert 960 < record.end_ps[mine:].max() / 1e6 < 960 * 1.05
    alone = neighbour.found(neighbour.Case("ideal"))
    # eight rounds of 1 MB: 20 us each, their headers, and a round trip's half of two links and a switch
    assert 160 < alone.step_us < 190
    assert neighbour.found(case).step_us == alone.step_us


def test_a_sick_nic_stops_a_fabric_that_pauses_and_not_one_that_grants(neighbour):
    """It takes a hundredth of its rate for 2 ms: whoever stands behind it waits as long."""
    step = {name: neighbour.found(neighbour.Case(name, "storm")).step_us for name in ("infiniband", "uec", "scheduled")}
    assert step["infiniband"] > 2000
    assert 500 > step["uec"] > step["scheduled"]
    alone = neighbour.found(neighbour.Case("scheduled"))
    assert step["scheduled"] < 1.02 * alone.step_us
    watched = neighbour.found(neighbour.Case("roce", "storm", neighbour.WATCHDOG))
    assert 500 < watched.step_us < 1300


def test_windows_bound_what_a_storm_costs(neighbour):
    """Senders of Spectrum-X stop after two round trips: a storm twice as long costs the victim no more."""
    two, four = (neighbour.found(neighbour.Case("spectrum-x", "storm", storm_us=us)).step_us for us in (2000, 4000))
    assert two == four < 2000
    own = neighbour.found(neighbour.Case("spectrum-x", "storm", neighbour.CLASS))
    assert own.step_us < 500


def test_switches_of_one_s_own_are_not_met_by_anybody(neighbour):
    rows = [neighbour.traffic(neighbour.Case("uec", how, neighbour.RAILS)) for how in ("", *neighbour.ATTACKS)]
    assert {len(flows) for flows, _ in rows} == {128}
    assert all(flows.source.max() < 16 for flows, _ in rows)


def test_the_page_and_the_table_name_every_case(neighbour):
    rows = [neighbour.found(case) for case in neighbour.cases(["scheduled"])]
    assert len(rows) == 2 + 2 * len(neighbour.ATTACKS)
    lines = list(neighbour.table(rows))
    assert len(lines) == 1 + len(rows)
    page = neighbour.page(rows)
    assert page.count("<svg") == len(neighbour.ATTACKS)
    assert page.count("<rect") == len(neighbour.ATTACKS) * 3


def test_a_millisecond_of_storm_costs_the_step_a_millisecond_until_a_watchdog_acts(neighbour):
    def step_us(against, storm_us, watchdog_us=500):
        return neighbour.found(neighbour.Case("roce", "storm", against, storm_us, watchdog_us)).step_us

    short, long = step_us(neighbour.WITHOUT, 1000), step_us(neighbour.WITHOUT, 3000)
    assert long - short == pytest.approx(2000, rel=0.03)
    early, late = step_us(neighbour.WATCHDOG, 3000, 400), step_us(neighbour.WATCHDOG, 3000, 1200)
    assert late - early == pytest.approx(800, rel=0.2)
    assert step_us(neighbour.WATCHDOG, 1000, 1000) == short  # the storm is over before
    assert step_us(neighbour.CLASS, 3000) < 0.3 * short


# Settings that follow a run on mixes of phases: what `examples/packet/phases.py` plays.

PHASES_EXAMPLE = Path(__file__).parents[3] / "examples" / "packet" / "phases.py"


def module():
    spec = importlib.util.spec_from_file_location("phases", PHASES_EXAMPLE)
    assert spec is not None
    assert spec.loader is not None
    found = importlib.util.module_from_spec(spec)
    sys.modules["phases"] = found
    spec.loader.exec_module(found)
    return found


def test_a_mix_has_its_phases_in_order_and_the_neighbour_beside_them():
    phases = module()
    mix = phases.Mix(calm=2, calm_bytes=600, crowded=3, crowded_bytes=200, writers=5, written_bytes=900, times=2)
    flows, job = phases.traffic(mix, 3)
    assert len(job) == 2 * 5 * 32
    assert len(flows.source) == len(job) + 2 * 5
    assert flows.size_bytes[job].sum() == 2 * 32 * (2 * 600 + 3 * 200)
    others = np.setdiff1d(np.arange(len(flows.source)), job)
    assert flows.size_bytes[others].tolist() == [900] * 10
    assert (flows.source != flows.target).all()


def test_alone_the_job_ends_sooner_than_as_delivered():
    phases = module()
    ends = phases.ends_us(phases.MIXES["alone"], 22, ways=(phases.WRITTEN, phases.ONLINE))
    assert ends["online"].job_us < 0.95 * ends["as delivered"].job_us
    assert ends["online"].all_us == ends["online"].job_us


def test_twins_are_other_runs_of_the_same_draw():
    phases = module()
    small = phases.Mix(2, 3_000_000, crowded=1, crowded_bytes=3_000_000, writers=12, written_bytes=6_000_000)
    ways = (phases.WRITTEN, phases.AGAIN)
    one, other = (phases.ends_us(small, 3, twin, ways) for twin in (0, 1))
    assert one == phases.ends_us(small, 3, 0, ways)
    assert len({one[phases.WRITTEN], one[phases.AGAIN], other[phases.WRITTEN], other[phases.AGAIN]}) > 1
    assert all(ends.job_us <= ends.all_us for ends in (*one.values(), *other.values()))


def test_draws_are_compared_by_the_means_of_their_twins():
    phases = module()
    ends = phases.Ends
    found = [
        [{"as delivered": ends(10, 30), "online": ends(9, 33)}, {"as delivered": ends(20, 30), "online": ends(24, 33)}],
        [{"as delivered": ends(10, 20), "online": ends(9, 20)}, {"as delivered": ends(10, 20), "online": ends(9, 20)}],
    ]
    assert phases.draws(found, "online", 0) == pytest.approx([0.1, -0.1])
    assert phases.draws(found, "online", 1) == pytest.approx([0.1, 0.0])
    assert phases.worst_run(found, "online") == pytest.approx(0.2)
