"""Senders that heed no congestion, and the neighbour of the example on six fabrics: points worked out by hand."""

from __future__ import annotations

import importlib.util
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from railyard.engine.packet import Traffic, crossbar, run
from railyard.kit.errors import InputError
from railyard.work.scenario.packet import fabric

RATE = 400 * 10**9


@pytest.fixture(scope="module")
def neighbour():
    path = Path(__file__).parents[2] / "examples" / "packet" / "neighbour.py"
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
