"""Failures of links from the catalogue's rates: how many, whom they hit, and what a flap does; all by hand.

Sixteen servers of eight B300, each NIC with one 800 Gb/s link of 60 m: 128 links, 256 ends.
"""

from __future__ import annotations

import math
from dataclasses import replace
from statistics import NormalDist

import pytest

from railyard import catalog
from railyard.cluster import ClusterSpec, FabricSpec, NetworkSpec, build
from railyard.cluster.fault.recovery import Recovery
from railyard.cluster.topology import from_mapping
from railyard.kit.errors import InputError
from railyard.measure import numbers
from railyard.work.operate.failures.fault import Effect, NodeFault
from railyard.work.operate.failures.given import DrawnFaults, mttf_s
from railyard.work.operate.failures.links import flap_outcome, link_modes
from railyard.work.operate.prepare import prepare
from railyard.work.operate.present import sheets
from railyard.work.operate.rules import RecoveryRules
from railyard.work.operate.section import LinksSection
from railyard.work.operate.tree import NodeTree
from railyard.work.scenario.load import expand, from_values
from railyard.work.study import study

from .yard import Given, S, jobs, played, seconds

KNOWN = catalog.load()
FIELD = Recovery(ib_timeout=18)
"""Tries of 1.07 s and seven retries: near the 7 s that NCCL was measured to have."""
FAR = {"nic": 60.0, "leaf-spine": 100.0}
DAYS_1000 = 24e-6
"""Failures in a thousand days at 1 FIT."""


def cluster(optics="dsp", kind="leaf-spine", accelerators=128, server="hgx-b300", lengths=None, **topology):
    shape = from_mapping({"kind": kind, **topology})
    network = NetworkSpec(
        topology=shape, fabric=FabricSpec("roce"), optics=optics, lengths_m=FAR if lengths is None else lengths
    )
    return build(ClusterSpec(accelerators, server, back_end=network), KNOWN)


def modes(made, retries=FIELD, **mitigations):
    found = link_modes(made, NodeTree.of(made), retries, LinksSection(**mitigations))
    return {mode.name: mode for mode in found}


def counted(made, mode, days):
    """Failures of a mode that are expected."""
    tree = NodeTree.of(made)
    units = len(mode.groups) or (len(tree.members[tree.level(mode.domain)]) if mode.domain else tree.nodes)
    return mode.per_1000_node_days / 1000 * units * days


def test_expected_failures_of_retimed_modules():
    """256 ends of 440 FIT that break and 893 that are dirty; bit errors announce half of both."""
    made = cluster()
    found = modes(made)
    for name, fit in (("breaks", 440), ("is dirty", 893)):
        for said, effect in (("", Effect.OUT), (" after bit errors", Effect.DRIFT)):
            mode = found[f"nic optic-800g-dr8 {name}{said}"]
            assert mode.effect == effect
            assert counted(made, mode, 1000) == pytest.approx(256 * fit / 2 * DAYS_1000)
    breaks = found["nic optic-800g-dr8 breaks"]
    assert (breaks.repair_s, breaks.repair_p90_s, breaks.work_s) == (7200, 28_800, 1800)
    assert breaks.repair_usd.typical == pytest.approx(1250 + 0.5 * 90)
    assert found["nic optic-800g-dr8 is dirty"].repair_usd.typical == pytest.approx(0.5 * 90)
    assert found["nic optic-800g-dr8 breaks after bit errors"].slow == 0.99
    assert found["nic optic-800g-dr8 breaks after bit errors"].detect_s == 86_400


def test_a_draw_has_them_as_often():
    made = cluster()
    every = [mode for mode in modes(made).values() if mode.name == "nic optic-800g-dr8 flaps"]
    drawn = DrawnFaults(
        [replace(one, per_1000_node_days=one.per_1000_node_days * 1000) for one in every], NodeTree.of(made)
    )
    found = sum(len(drawn.chunk(week)) for week in range(50))
    assert found == pytest.approx(1000 * counted(made, every[0], 350), rel=0.02)
    assert {one.effect for one in drawn.chunk(0)} == {Effect.STALL}


@pytest.mark.parametrize(("kind", "servers", "groups"), [("leaf-spine", 1, 16), ("rail-optimized", 8, 16)])
def test_a_laser_module_takes_eight_ports_down(kind, servers, groups):
    """Eight NICs of one server in its rack's switch; on rails one of each of eight servers."""
    made = cluster("cpo", kind)
    laser = modes(made)["nic laser-els-8 breaks"]
    assert [len(group) for group in laser.groups] == [servers] * groups
    assert laser.per_1000_node_days == pytest.approx(800 / 2 * DAYS_1000)
    assert counted(made, laser, 1000) == pytest.approx(128 / 8 * 400 * DAYS_1000)
    first = DrawnFaults([replace(laser, per_1000_node_days=1000.0)], NodeTree.of(made)).chunk(0)
    assert {len(one.nodes) for one in first} == {servers}


def test_a_soldered_engine_takes_the_switch_with_it():
    """16 engines behind 128 ports; each failure drains what is below the switch for the four hours of a swap."""
    made = cluster("cpo", "rail-optimized")
    swap = modes(made)["nic optic-800g-cpo has its switch replaced"]
    assert [len(group) for group in swap.groups] == [16] * 8
    assert counted(made, swap, 1000) == pytest.approx(16 * 760 * DAYS_1000)
    assert (swap.effect, swap.slow, swap.repair_s) == (Effect.SLOW, 1.0, 4 * 3600)


@pytest.mark.parametrize(
    ("timeout", "down_s", "stall_s"),
    [
        (18, 6.0, 6 * 1.073741824),
        (18, 8.0, None),
        (18, 7.5, 7 * 1.073741824),
        (20, 8.0, 2 * 4.294967296),
        (20, 31.0, None),
    ],
)
def test_the_ladder_of_timeouts(timeout, down_s, stall_s):
    """4.096 us x 2^18 = 1.07 s a try: after 6 s down the sixth retry gets through; after the seventh NICs give up."""
    found = Recovery(ib_timeout=timeout).stall_s(down_s)
    assert found == (None if stall_s is None else pytest.approx(stall_s))


def test_hosts_that_retry_no_longer_than_the_watchdog():
    assert Recovery(ib_timeout=27).stall_s(599.0) == pytest.approx(600.0)
    assert Recovery(ib_timeout=27).stall_s(601.0) is None


def test_flaps_that_kill():
    """Median 3 s and 90 % below 10 s: longer than 7 tries of 1.07 s are 16.4 %, than 7 of 4.29 s 0.7 %."""
    sigma = math.log(10 / 3) / 1.2815515655446004
    for retries in (FIELD, Recovery()):
        share = 1 - NormalDist().cdf(math.log(retries.abort_s / 3) / sigma)
        assert flap_outcome(3.0, 10.0, retries)[0] == pytest.approx(share, abs=0.0005)
    assert flap_outcome(3.0, 10.0, FIELD)[0] == pytest.approx(0.164, abs=0.001)
    # All of one length: the stall is that of the ladder.
    assert flap_outcome(3.0, 3.0, FIELD) == (0.0, pytest.approx(3 * 1.073741824))
    made = cluster()
    found = modes(made)
    stalls, kills = found["nic optic-800g-dr8 flaps"], found["nic optic-800g-dr8 flaps for long"]
    assert counted(made, stalls, 1000) + counted(made, kills, 1000) == pytest.approx(256 * 3755 * DAYS_1000)
    assert (kills.effect, kills.detect_s) == (Effect.CRASH, pytest.approx(7.516192768))
    assert 3.0 < stalls.stall_s < FIELD.abort_s


def test_with_two_planes_nothing_is_cut_off():
    made = cluster(kind="dual-plane", planes=2)
    assert {mode.effect for mode in modes(made).values()} == {Effect.STALL}
    assert mttf_s(list(modes(made).values()), 16) == math.inf


def test_mitigations():
    made = cluster()
    plain, drained = modes(made), modes(made, drain=True, llr=True)
    name = "nic optic-800g-dr8 is dirty after bit errors"
    assert (drained[name].effect, drained[name].detect_s, drained[name].slow) == (Effect.SLOW, 3600, 1.0)
    assert modes(made, llr=True)[name].slow == 1.0
    spared = modes(made, spare_lanes=True)
    breaks = "nic optic-800g-dr8 breaks"
    assert spared[breaks].per_1000_node_days == pytest.approx(0.42 * plain[breaks].per_1000_node_days)
    worn = [mode for mode in spared.values() if "spare lane" in mode.name and mode.name.startswith("nic")]
    assert [mode.stall_s for mode in worn] == [0.0]
    hard = sum(counted(made, spared[breaks + said], 1000) for said in ("", " after bit errors"))
    assert hard + counted(made, worn[0], 1000) == pytest.approx(256 * 440 * DAYS_1000)


def test_a_drained_link_loses_nothing_and_a_dying_one_its_last_work():
    keep = RecoveryRules(interval_us=20 * S, restart_us=10 * S)
    for effect, kept in ((Effect.SLOW, 52), (Effect.DRIFT, 40)):
        fault = NodeFault(47 * S, (0,), effect, 0, 5 * S, 1000 * S)
        run = played(jobs((0, 100, 3)), faults=Given(fault), recovery=keep)
        assert seconds(run.state.end_us) == [52 + 10 + 100 - kept]


def test_a_dying_link_takes_a_job_that_restarted_on_it():
    """Corrupt from 10 to 90; a crash at 50 restarts the job from 40 at 65; at 90 it has 65 and falls back to 60."""
    drift = NodeFault(10 * S, (0,), Effect.DRIFT, 0, 80 * S, 1000 * S)
    crash = NodeFault(50 * S, (1,), Effect.CRASH, 0, 5 * S, 0)
    keep = RecoveryRules(interval_us=20 * S, restart_us=10 * S)
    run = played(jobs((0, 100, 3)), faults=Given(drift, crash), recovery=keep)
    assert seconds(run.state.end_us) == [90 + 10 + 40]


def load_values(failures, draws=2):
    return {
        "name": "links",
        "cluster": {
            "accelerators": 128,
            "server": "hgx-b300",
            "back_end": {"topology": "leaf-spine", "cable_length": {"nic": "60 m", "leaf-spine": "100 m"}},
        },
        "workload": {
            "operate": {
                "jobs": {"synthetic": {"count": 20, "sizes": {"32": 1}, "median": "5 d", "p90": "9 d"}},
                "until": "30 d",
                "failures": failures,
                "draws": draws,
            }
        },
    }


def scenario(links, **failures):
    return prepare(expand(from_values(load_values({"links": links, **failures})))[0])


def test_they_take_the_place_of_the_profiles_own():
    names = {mode.name for mode in scenario("parts").modes}
    assert "network cable" not in names
    assert "uplink" not in names
    assert {"gpu", "nic", "leaf switch", "nic optic-800g-dr8 breaks"} <= names
    name = "nic optic-800g-dr8 is dirty after bit errors"
    assert next(one for one in scenario({"drain": True}).modes if one.name == name).effect == Effect.SLOW
    doubled = scenario({"drain": True}, profile="none", scale=2.0).modes
    once = scenario({"drain": True}, profile="none").modes
    assert [one.per_1000_node_days for one in doubled] == pytest.approx([2 * one.per_1000_node_days for one in once])


def test_parts_without_a_rate_are_refused():
    made = cluster(optics=None, server="hgx-h100", lengths={"nic": 90_000.0})
    with pytest.raises(InputError, match="no failure rate of"):
        modes(made)


# Against what fleets publish; docs/validation/optics.md has the table.


def test_the_rate_of_alibabas_links():
    """0.057 % a month of 3,000 links; the low end of 200G modules is that rate, half for each end."""
    per_link = 0.00057 / 730 * 1e9
    assert pytest.approx(1.71) == 3000 * 0.00057
    part = KNOWN.cable("optic-200g-sr4")
    assert part.failures is not None
    assert 2 * (part.failures.typical + part.dirt.typical) == pytest.approx(per_link, rel=0.002)


@pytest.mark.parametrize(
    ("lengths", "retries", "stops"),
    [
        ({"nic": 30.0}, Recovery(), 31.7),
        ({"nic": 30.0}, FIELD, 56.8),
        ({"nic": 3.0}, Recovery(), 0.536),
        ({}, Recovery(), 31.7),
    ],
)
def test_network_stops_at_llama_3s_scale(lengths, retries, stops):
    """16,384 H100 for 54 days: 35 stops by switches and cables, Poisson band 24 to 47; copper to the NICs misses it."""
    made = cluster(None, "three-tier", 16_384, "hgx-h100", lengths)
    every = modes(made, retries).values()
    assert 54 * 86_400 / mttf_s(list(every), 2048) == pytest.approx(stops, rel=0.005)


def test_repairs_of_a_run_are_those_of_its_failures():
    """Every failure has half an hour of work at $90; what breaks also a module of $1,250. Draws are counted alike."""
    values = load_values({"links": "parts", "profile": "none", "scale": 300.0})
    found = study.run(from_values(values), searched=False).result
    operate = found.variants[0].operate
    every = {row.name: row.faults for row in operate.failures.by_mode}
    mended = sum(count for name, count in every.items() if "flap" not in name)
    broken = sum(count for name, count in every.items() if "breaks" in name and "dr8" in name)
    copper = sum(count for name, count in every.items() if "breaks" in name and "dr8" not in name)
    assert mended > broken > 0
    assert not copper
    assert operate.failures.repair_work_h == pytest.approx(0.5 * mended)
    assert operate.failures.repair_usd.typical == pytest.approx(45 * mended + 1250 * broken)
    first, second = operate.draws.by_draw
    assert first.failures == operate.failures
    assert second.failures != first.failures
    assert first.lost_accelerator_hours > 0
    assert operate.ettr == pytest.approx(
        first.useful_accelerator_hours / (first.useful_accelerator_hours + first.lost_accelerator_hours)
    )
    alone = study.run(
        from_values(load_values({"links": "parts", "profile": "none", "scale": 300.0}, draws=1)), searched=False
    ).result
    (sheet,) = [one for one in sheets(alone) if "repair cost" in one.headings]
    assert sheet.rows[0][3] == numbers.short(first.lost_accelerator_hours)
    (sheet,) = [one for one in sheets(found) if "repair cost" in one.headings]
    mean_h = (first.failures.repair_work_h + second.failures.repair_work_h) / 2
    assert sheet.rows[0][4] == numbers.short(mean_h)
