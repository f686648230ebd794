"""Faults in time: what they cost a flow, against what can be reckoned by hand."""

import numpy as np
import pytest

from railyard.engine.packet import LinkFault, Settings, Traffic, crossbar, leaf_spine, run
from railyard.engine.packet.faults import both_ways, down, errors, flapping, of_node, slow
from railyard.kit.errors import InputError

G400 = 400 * 10**9
US = 1_000_000


def pair(size=2_000_000):
    return Traffic.of(8, [0], [7], size)


@pytest.fixture
def network():
    return leaf_spine(8, leaf_hosts=4, spines=4, rate_bps=G400)


def test_a_slow_link_takes_longer_by_what_it_lost():
    network = crossbar(2, rate_bps=G400)
    traffic = Traffic.of(2, [0], [1], 2_000_000)
    whole = run(network, traffic, Settings(seed=1)).duration_ps[0]
    half = run(network, traffic, Settings(seed=1, faults=tuple(slow(of_node(network, 0), 0, 0.5)))).duration_ps[0]
    # All packets leave by the slow link one after another; only the way of the last is the same.
    wire_ps = (whole - 4 * US) // 2
    assert half - whole == pytest.approx(2 * wire_ps, rel=0.02)


def test_a_link_down_for_a_while_stops_a_flow_that_has_no_other():
    network = crossbar(2, rate_bps=G400)
    faults = tuple(down(both_ways(network, 0, 2), 10 * US, 60 * US))
    found = run(network, Traffic.of(2, [0], [1], 2_000_000), Settings(faults=faults))
    assert found.meta["packets"]["lost"] + found.meta["packets"]["dropped"] > 0
    assert found.meta["packets"]["timeouts"] > 0
    assert found.duration_ps[0] > (45 + 50) * US
    assert found.column("receiver_finish_ps")[0] > 0


def test_routes_avoid_a_dead_switch_once_they_know(network):
    dead = tuple(down(of_node(network, 8 + 2), 5 * US))
    known = run(network, pair(), Settings(faults=dead, reroute_ps=5 * US, load_balancing="spray"))
    never = run(network, pair(), Settings(faults=dead, reroute_ps=None, load_balancing="spray"))
    assert known.ended.all()
    assert known.meta["packets"]["dropped"] < never.meta["packets"]["dropped"]
    assert known.duration_ps[0] < never.duration_ps[0]


def test_senders_that_learn_avoid_it_without_routes(network):
    dead = tuple(down(of_node(network, 8 + 2), 5 * US))
    learning = run(network, pair(), Settings(faults=dead, reroute_ps=None, load_balancing="reps"))
    blind = run(network, pair(), Settings(faults=dead, reroute_ps=None, load_balancing="spray"))
    assert learning.meta["packets"]["retransmitted"] < blind.meta["packets"]["retransmitted"]


def test_a_link_that_returns_is_used_again(network):
    spine = 8 + 2
    back = tuple(down(of_node(network, spine), 5 * US, 20 * US))
    found = run(network, pair(20_000_000), Settings(faults=back, reroute_ps=US))
    into = np.flatnonzero((network.link_source == 8) & (network.link_target == spine))
    carried = found.table("links")["bytes"]
    share = carried[into].sum() / carried[(network.link_source == 8) & (network.link_target > 9)].sum()
    assert 0.15 < share < 0.25  # a fourth of it, but for a while


def test_flapping_costs_more_than_one_flap(network):
    links = both_ways(network, 8, 10)
    once = run(network, pair(), Settings(faults=tuple(down(links, 5 * US, 8 * US))))
    often = run(network, pair(), Settings(faults=tuple(flapping(links, 5 * US, down_ps=3 * US, up_ps=3 * US, times=5))))
    assert often.meta["packets"]["lost"] > once.meta["packets"]["lost"] > 0


@pytest.mark.parametrize("retry", [False, True])
def test_bit_errors_lose_packets_or_delay_them(network, retry):
    ratio = 1e-7
    wrong = tuple(errors(range(network.links), 0, ratio))
    traffic = Traffic.of(8, np.arange(8), np.roll(np.arange(8), 3), 4_000_000)
    found = run(network, traffic, Settings(faults=wrong, link_retry=retry))
    assert found.ended.all()
    expected = 8 * ratio * found.table("links")["bytes"].sum()
    hits = found.meta["packets"]["link_retries"] if retry else found.meta["packets"]["lost"]
    assert hits == pytest.approx(expected, abs=4 * expected**0.5)
    assert (found.meta["packets"]["lost"] == 0) == retry


@pytest.mark.parametrize(("ratio", "lost"), [(1e-6, 0.0324), (1e-5, 0.2804), (5e-5, 0.8070)])
def test_a_packet_is_right_when_all_of_its_bits_are(ratio, lost):
    """1 - (1 - e)^n of 8 x 4,114 bits; errors times bits would be 0.0329, 0.329 and all of them."""
    network = crossbar(2, rate_bps=G400)
    into = np.flatnonzero(network.link_target == 1)
    settings = Settings(mtu_bytes=4114, header_bytes=18, faults=tuple(errors(into, 0, ratio)), link_retry=True, seed=3)
    found = run(network, Traffic.of(2, [0], [1], 20_000 * 4096), settings)
    assert found.meta["packets"]["new"] == 20_000
    assert found.meta["packets"]["link_retries"] / 20_000 == pytest.approx(
        lost, abs=4 * (lost * (1 - lost) / 2e4) ** 0.5
    )


def test_link_retry_keeps_the_order(network):
    wrong = tuple(errors(range(network.links), 0, 1e-6))
    settings = Settings(faults=wrong, link_retry=True, load_balancing="ecmp", congestion_control="constant")
    found = run(network, pair(), settings)
    assert found.meta["packets"]["retransmitted"] == 0
    assert found.meta["packets"]["link_retries"] > 0


def test_without_any_way_left_a_run_ends_when_told(network):
    dead = tuple(down(of_node(network, 9), 5 * US))
    found = run(network, pair(), Settings(faults=dead, reroute_ps=US, end_ps=2000 * US))
    assert not found.ended.any()
    assert found.meta["packets"]["lost"] > 0


@pytest.mark.parametrize("fault", [{"link": 999}, {"at_ps": -1}, {"value": 1.5}, {"kind": "tired"}])
def test_wrong_faults_are_refused(network, fault):
    with pytest.raises(InputError):
        run(
            network,
            pair(),
            Settings(faults=(LinkFault(**{"at_ps": 0, "link": 0, "kind": "rate", "value": 0.0, **fault}),)),
        )


def test_a_fault_of_what_is_not_there_is_refused(network):
    with pytest.raises(InputError, match="joins"):
        both_ways(network, 0, 1)
    with pytest.raises(InputError, match="node"):
        of_node(network, 99)
