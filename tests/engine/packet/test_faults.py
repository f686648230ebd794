"""Faults in time: what they cost a flow, against what can be reckoned by hand."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import numpy as np
import pytest

from railyard.engine.packet import LinkFault, Settings, Traffic, crossbar, leaf_spine, run
from railyard.engine.packet.faults import both_ways, down, errors, flapping, of_node, slow
from railyard.face.cli.guard import run as command
from railyard.kit.errors import InputError, SimulationError
from railyard.work.scenario.packet import assign, fabric
from railyard.work.traffic.simulate import TrafficRun
from railyard.work.traffic.simulate import run as simulate_run

if TYPE_CHECKING:
    from pathlib import Path

    from railyard.work.traffic.played import PacketReport

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


@pytest.mark.parametrize("switching", ["lossy", "pfc"])
def test_nothing_goes_to_a_dead_link_that_routes_avoid_at_once(network, switching):
    """One flow over four links: at none does a packet wait, so that only new ones could be dropped."""
    up = np.flatnonzero((network.link_source == 8) & (network.link_target == 10))
    for at_ps in range(20 * US, 21 * US, US // 20):
        chosen = Settings(faults=tuple(down(up, at_ps)), reroute_ps=0, load_balancing="spray", switching=switching)
        assert run(network, pair(), chosen).meta["packets"]["dropped"] == 0


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


# Faults from a file: what they do, and how wrong lines are refused.

MATRIX = "Nodes 16\nConnections 1\n0->15 id 1 start 0 size 2000000\n"


@pytest.fixture
def play(tmp_path):
    def go(faults: str | None, **more):
        traffic = tmp_path / "one.cm"
        traffic.write_text(MATRIX)
        path = None
        if faults is not None:
            path = tmp_path / "faults.yaml"
            path.write_text("faults:\n" + faults)
        preset = fabric("uec")
        return simulate_run(TrafficRun(traffic, None, preset, preset.settings, faults=path, **more))

    return go


def test_a_cable_a_node_and_every_link(play):
    whole = play(None).fct_ps[0]
    cut = play("- {kind: link-down, cable: h0 - leaf0, at: 5 us, for: 55 us}\n")
    assert cut.fct_ps[0] > whole + 50_000_000
    slow = play("- {kind: degrade-link, cable: h15-leaf7, factor: 50 %}\n")
    assert 1.7 * whole < slow.fct_ps[0] < 2.1 * whole
    noisy = play("# a comment\n\n- {kind: bit-errors, ratio: 1e-6}\n")
    assert noisy.record.meta["packets"]["lost"] > 0
    assert play("- {kind: switch-down, switch: core0, at: 5 us}\n").fct_ps[0] >= whole


def test_a_host_that_is_away_is_waited_for_and_what_flaps_comes_several_times(play):
    whole = play(None).fct_ps[0]
    away = play("- {kind: host-down, host: 15, at: 5 us, for: 200 us}\n").fct_ps[0]
    assert away > whole + 190_000_000
    once = play("- {kind: nic-down, host: 15, at: 5 us, for: 100 us}\n").fct_ps[0]
    often = play("- {kind: nic-down, host: 15, at: 5 us, for: 100 us, every: 110 us, times: 3}\n").fct_ps[0]
    assert whole + 90_000_000 < once < often - 100_000_000


@pytest.mark.parametrize(
    ("line", "told"),
    [
        ("{kind: host-down, host: 99, at: 5 us}", "0 to 15"),
        ("{kind: switch-down, switch: rack1, at: 5 us}", "no such node"),
        ("{kind: switch-down, switch: leaf8, at: 5 us}", "did you mean `leaf"),
        ("{kind: switch-down, switch: h3, at: 5 us}", "not a switch"),
        ("{kind: link-down, cable: h0-h1, at: 5 us}", "no cable joins"),
        ("{kind: link-dwon, cable: h0-leaf0, at: 5 us}", "link-down"),
        ("{kind: link-down, cable: h0-leaf0, at: 5}", "unit"),
        ("{kind: degrade-link, cable: h0-leaf0, factor: 1.5}", "1"),
        ("{kind: degrade-link, factor: 50 %}", "says what is degraded"),
        ("{kind: link-down, cable: a-b-c, at: 5 us}", "two nodes"),
        ("{kind: link-down, cable: h0-leaf0, at: -5 us}", "negative"),
        ("{kind: link-down, cable: h0-leaf0, at: 5 us, times: 3, for: 1 us}", "needs `every`"),
        ("{kind: nic-down, host: 0, for: 9 us, every: 9 us, times: 2}", "before it ends"),
        ("{kind: late, rank: 3, by: 5 us}", "no ranks"),
    ],
)
def test_a_wrong_fault_is_named(play, line, told):
    with pytest.raises(InputError, match=r"faults\.yaml") as error:
        play(f"- {{kind: host-down, host: 1, at: 1 s, for: 1 us}}\n- {line}\n")
    assert told in str(error.value)
    assert error.value.problems[0].line == 3


TABLE = "at,where,event,value\n"


@pytest.fixture
def play_table(tmp_path):
    def go(rows: str):
        (tmp_path / "one.cm").write_text(MATRIX)
        (tmp_path / "faults.csv").write_text(TABLE + rows)
        preset = fabric("uec")
        return simulate_run(
            TrafficRun(tmp_path / "one.cm", None, preset, preset.settings, faults=tmp_path / "faults.csv")
        )

    return go


@pytest.mark.parametrize(
    ("rows", "records"),
    [
        ("5 us,h0-leaf0,down,\n60 us,h0-leaf0,up,\n", "- {kind: link-down, cable: h0-leaf0, at: 5 us, for: 55 us}\n"),
        ("0 us,h15-leaf7,rate,0.5\n", "- {kind: degrade-link, cable: h15-leaf7, factor: 50 %}\n"),
        ("# noise\n0 us,*,errors,1e-6\n", "- {kind: bit-errors, ratio: 1e-6}\n"),
        ("5 us,core0,down,\n", "- {kind: switch-down, switch: core0, at: 5 us}\n"),
    ],
)
def test_a_table_of_events_is_what_the_records_are(play, play_table, rows, records):
    assert play_table(rows).record.meta["digest"] == play(records).record.meta["digest"]


@pytest.mark.parametrize(
    ("row", "named"),
    [
        ("5 us,rack1,down,", "no such node"),
        ("5 us,h0-h1,down,", "no cable"),
        ("5 us,h0-leaf0,dwon,", "did you mean `down`"),
        ("5,h0-leaf0,down,", "unit"),
        ("5 us,h0-leaf0,down,1", "takes no value"),
        ("5 us,h0-leaf0,rate,1.5", "1"),
        ("5 us,h0-leaf0,rate,", "needs a value"),
        ("-5 us,h0-leaf0,down,", "negative"),
        ("5 us,a-b-c,down,", "two nodes"),
        ("5 us,h0-leaf0,down", "cells"),
    ],
)
def test_a_wrong_row_is_named_with_its_line(play_table, row, named):
    with pytest.raises(InputError, match=r"faults\.csv") as error:
        play_table(f"1 s,h1,down,\n{row}\n")
    assert named in str(error.value)
    assert error.value.problems[0].line == 3


@pytest.mark.parametrize("text", ["", "# nothing\n", "at,where,event\n1 us,h0,down\n"])
def test_a_table_without_its_heading_is_refused(tmp_path, play_table, text):
    (tmp_path / "one.cm").write_text(MATRIX)
    (tmp_path / "faults.csv").write_text(text)
    preset = fabric("uec")
    with pytest.raises(InputError, match="at, where, event, value"):
        simulate_run(TrafficRun(tmp_path / "one.cm", None, preset, preset.settings, faults=tmp_path / "faults.csv"))


def test_the_command(tmp_path, capsys):
    (tmp_path / "one.cm").write_text(MATRIX)
    (tmp_path / "faults.yaml").write_text("faults: [{kind: switch-down, switch: core0, at: 5 us}]")
    given = ["packet", "--traffic", str(tmp_path / "one.cm"), "--faults", str(tmp_path / "faults.yaml"), "--json"]
    assert command(given) == 0
    assert json.loads(capsys.readouterr().out)["finished"] == 1


# A dead spine, and one that dies: the rest of the network carries what it can, and no switch feeds a dead
# port.

ADAPTIVE = ("spectrum-x", "infiniband")
SPRAYING = (*ADAPTIVE, "uec", "scheduled")


def lines_of(path: Path, source: list[int], target: list[int], size_bytes: int) -> Path:
    rows = [f"{a},{b},{size_bytes},0" for a, b in zip(source, target, strict=True)]
    path.write_text("\n".join(["source,target,size_bytes,start_us", *rows]) + "\n")
    return path


def faults_of(path: Path, *rows: str) -> Path:
    path.write_text("\n".join(["faults:", *(f"- {{{row}}}" for row in rows)]) + "\n")
    return path


def of(name: str, traffic: Path, faults: Path | None, *sets: str, seed: int = 0) -> PacketReport:
    preset = fabric(name)
    return simulate_run(TrafficRun(traffic, None, preset, assign(preset.settings, sets), seed=seed, faults=faults))


def counts(report: PacketReport) -> dict[str, int]:
    return {**report.packets, **report.record.meta["packets"]}


def permutation(path: Path, hosts: int, size_bytes: int, seed: int) -> Path:
    order = np.random.default_rng(seed).permutation(hosts).tolist()
    return lines_of(path, order, [*order[1:], order[0]], size_bytes)


@pytest.mark.parametrize(
    ("shape", "where", "size_bytes", "seed"),
    [((2, 32), "spine1", 2_000_000, 0), ((2, 128), "spine6", 1_300_000, 3), ((3, 16), "core2", 3_100_000, 1)],
)
def test_with_a_dead_spine_fabrics_that_spray_beat_hashing(
    tmp_path: Path, shape: tuple[int, int], where: str, size_bytes: int, seed: int
) -> None:
    tiers, hosts = shape
    traffic = permutation(tmp_path / "permutation.csv", hosts, size_bytes, seed)
    faults = faults_of(tmp_path / "faults.yaml", f"kind: switch-down, switch: {where}")
    sets = (f"hosts={hosts}", f"tiers={tiers}")
    hashed = of("roce", traffic, faults, *sets, seed=seed).fct_us()
    for name in SPRAYING:
        found = of(name, traffic, faults, *sets, seed=seed).fct_us()
        assert found["max"] <= hashed["max"], name
        assert found["mean"] <= hashed["mean"], name


@pytest.mark.parametrize("name", ADAPTIVE)
def test_a_spine_that_dies_costs_one_timeout(tmp_path: Path, name: str) -> None:
    traffic = permutation(tmp_path / "permutation.csv", 32, 2_000_000, 0)
    faults = faults_of(tmp_path / "faults.yaml", "kind: switch-down, switch: spine1, at: 17 us")
    shape = ("hosts=32", "tiers=2")
    well = of(name, traffic, None, *shape).fct_us()["max"]
    found = of(name, traffic, faults, *shape)
    packets = counts(found)
    assert packets["timeouts"] > 0
    assert found.fct_us()["max"] < 4194.3 + 2 * well
    # What was on its way is lost, and nothing after it.
    assert packets["retransmitted"] < 0.05 * packets["new"]


def test_hashing_waits_for_routes_when_a_spine_dies_in_the_run(tmp_path: Path) -> None:
    """Routes know after 100 ms on `roce`, 1 ms where switches adapt, 100 us on `uec`, 1 us on `scheduled`."""
    traffic = permutation(tmp_path / "permutation.csv", 32, 2_000_000, 0)
    faults = faults_of(tmp_path / "faults.yaml", "kind: switch-down, switch: spine1, at: 17 us")
    took = {name: of(name, traffic, faults, "hosts=32", "tiers=2").fct_us()["max"] for name in ("roce", *SPRAYING)}
    assert 100_000 < took["roce"] < 104_500  # and on to the next try, 4.19 ms at most
    for name in ADAPTIVE:
        assert 4194 < took[name] < 4400
    assert took["uec"] < 250
    assert took["scheduled"] < 150


@pytest.mark.parametrize(
    ("timer", "reroute", "expected"), [("2.1ms", "50us", 2.1), ("2.1ms", "5ms", 6.3), ("67ms", "1ms", 67)]
)
def test_the_stall_is_the_first_try_after_routes_know(
    tmp_path: Path, timer: str, reroute: str, expected: float
) -> None:
    traffic = permutation(tmp_path / "permutation.csv", 32, 200_000, 0)
    faults = faults_of(tmp_path / "faults.yaml", "kind: switch-down, switch: spine1, at: 2 us")
    found = of("roce", traffic, faults, "hosts=32", "tiers=2", f"rdma_rto={timer}", f"reroute={reroute}")
    assert found.fct_us()["max"] / 1000 == pytest.approx(expected, rel=0.03)


@pytest.mark.parametrize("reroute", ["80us", "100us", "1ms"])
def test_a_request_that_was_lost_and_sent_again_as_a_packet_ends_its_flow(tmp_path: Path, reroute: str) -> None:
    """The receiver had everything and answered a request beyond it without taking it: the sender asked for ever."""
    traffic = permutation(tmp_path / "permutation.csv", 32, 2_000_000, 0)
    faults = faults_of(tmp_path / "faults.yaml", "kind: switch-down, switch: spine1, at: 17 us")
    found = of("uec", traffic, faults, "hosts=32", "tiers=2", f"reroute={reroute}")
    assert found.fct_us()["max"] < 250
    assert counts(found)["requests"] > 0


def test_an_empty_queue_before_a_dead_link_draws_nothing(tmp_path: Path) -> None:
    traffic = permutation(tmp_path / "permutation.csv", 32, 2_000_000, 0)
    faults = faults_of(tmp_path / "faults.yaml", "kind: switch-down, switch: spine1, at: 17 us")
    known = counts(of("spectrum-x", traffic, faults, "hosts=32", "tiers=2", "reroute=1us"))
    late = counts(of("spectrum-x", traffic, faults, "hosts=32", "tiers=2", "reroute=never"))
    assert late["dropped"] <= known["dropped"] + 32


def test_routes_know_what_was_dead_before_the_run(tmp_path: Path) -> None:
    traffic = permutation(tmp_path / "permutation.csv", 32, 1_000_000, 0)
    faults = faults_of(tmp_path / "faults.yaml", "kind: switch-down, switch: spine1")
    packets = counts(of("roce", traffic, faults, "hosts=32", "tiers=2"))
    assert packets["dropped"] == packets["lost"] == packets["retransmitted"] == 0


@pytest.mark.parametrize("name", ["uec", "roce", "spectrum-x"])
def test_a_run_that_no_packet_gets_through_ends_with_flow_and_cause(tmp_path: Path, name: str) -> None:
    traffic = lines_of(tmp_path / "flows.csv", [3, 5], [9, 9], 40_000)
    faults = faults_of(tmp_path / "faults.yaml", "kind: bit-errors, cable: h9 - leaf4, ratio: 1e-2, at: 1 us")
    cause = r"flow 0 \(host 3 to host 9\).* bit errors of 0.01 on the link .* lose every packet of \d+ bytes"
    with pytest.raises(SimulationError, match=cause):
        of(name, traffic, faults, "hosts=16", "switching=lossy")
