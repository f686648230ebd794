"""Wrong settings of switches: found with what is due, and priced by packets with the cause that each has."""

from __future__ import annotations

import json
import shutil
import subprocess
from dataclasses import replace
from pathlib import Path

import pytest

from railyard import catalog
from railyard.ask.audit.audit import audit, audit_plan
from railyard.ask.audit.price import CROWDED_SHARE, Rack, slower
from railyard.ask.audit.symptom import Setting
from railyard.ask.deploy.cabling import drawn
from railyard.ask.deploy.emit.intent import ASICS, EIGHT, PACKET, USUAL, asic_of, headroom, switches
from railyard.ask.deploy.system import wrong_words
from railyard.ask.deploy.systems import eos, junos, sonic
from railyard.cluster.asbuilt.reported.reports import gather
from railyard.cluster.fabric import fabrics
from railyard.cluster.fault import MisconfiguredSwitch
from railyard.cluster.network_table import DIALECTS
from railyard.engine.packet.engine import PacketEngine
from railyard.engine.packet.fabrics import constants_of
from railyard.kit.errors import InputError
from railyard.work.study.study import prepare

from .scenarios import draft, planned

RACK = Rack(tuple(sorted(constants_of(fabrics.get("roce")).items())), 16, 8, 400 * 10**9, 900_000)


@pytest.fixture(scope="module")
def site():
    one = draft(64, "leaf-spine", "roce", {"ports_per_leaf": 16, "oversubscription": 2}, tp=16)
    return one, planned(one)


def files(plan, dialect, render):
    return {one.name: render(one) for one in switches(plan, 0, DIALECTS[dialect])}


def audited(site, folder, texts, dialect="sonic", *, with_plan=True):
    for name, text in texts.items():
        (folder / f"{name}.cfg").write_text(text)
    one, plan = site
    found, reports = drawn(plan, 0, DIALECTS[dialect]), gather([folder], texts)
    return (audit_plan(found, one, reports) if with_plan else audit(found, reports)).findings


def changed(texts, name, change):
    tables = json.loads(texts[name])
    change(tables)
    return texts | {name: json.dumps(tables)}


def an_eighth(tables):
    for row in tables["BUFFER_PROFILE"].values():
        row["xoff"] = str(int(row["xoff"]) // 8)


def test_small_headroom_is_named_with_due_and_found_bytes(site, tmp_path):
    texts = files(site[1], "sonic", sonic.render)
    (finding,) = audited(site, tmp_path, changed(texts, "be-leaf0", an_eighth))
    intent = next(iter(switches(site[1], 0, DIALECTS["sonic"])))
    due = headroom(400e9, intent.access[0].length_m, asic=intent.asic).xoff
    assert (finding.kind, finding.a) == ("wrong-qos", "be-leaf0")
    assert f"xoff {due // 8:,} bytes, due {due:,}" in finding.detail
    assert 0.0 <= finding.band[0] < 0.1 * finding.loss < finding.loss < finding.band[1]
    assert "packets: " in finding.priced_by


def test_larger_headroom_is_no_fault_and_small_xon_is(site, tmp_path):
    texts = files(site[1], "sonic", sonic.render)

    def larger(tables):
        for row in tables["BUFFER_PROFILE"].values():
            row["xoff"] = str(int(row["xoff"]) + 1024)

    def small_xon(tables):
        for row in tables["BUFFER_PROFILE"].values():
            row["xon"] = "100"

    assert not audited(site, tmp_path, changed(texts, "be-leaf0", larger))
    (finding,) = audited(site, tmp_path, changed(texts, "be-leaf0", small_xon))
    assert "xon 100 bytes, due 38,912" in finding.detail
    assert finding.unpriced


def test_without_a_plan_headroom_has_to_hold_what_the_file_itself_names(site, tmp_path):
    texts = files(site[1], "sonic", sonic.render)
    findings = audited(site, tmp_path, changed(texts, "be-leaf0", an_eighth), with_plan=False)
    assert {(one.kind, one.a) for one in findings} == {("wrong-qos", "be-leaf0")}
    assert "may come after a pause" in findings[0].detail
    assert not audited(site, tmp_path, texts, with_plan=False)


def test_eos_and_junos_have_headroom_too(site, tmp_path):
    for dialect, render, right, wrong in (
        ("eos", eos.render, "ingress headroom bytes", "ingress headroom bytes 1"),
        ("junos", junos.render, "pfc mru 9216", "pfc"),
    ):
        folder = tmp_path / dialect
        folder.mkdir()
        texts = files(site[1], dialect, render)
        assert right in texts["be-leaf0"]
        lines = texts["be-leaf0"].splitlines()
        broken = [f"    {wrong}" if right in one and dialect == "eos" else one.replace(right, wrong) for one in lines]
        (finding,) = audited(site, folder, texts | {"be-leaf0": "\n".join(broken)}, dialect)
        assert finding.detail.startswith("headroom: xoff "), finding.detail
        assert "due" in finding.detail


def test_headroom_that_eos_does_not_say_is_no_size(site, tmp_path):
    texts = files(site[1], "eos", eos.render)
    silent = texts["be-leaf0"].replace(" apply", "")
    (finding,) = audited(site, tmp_path, texts | {"be-leaf0": silent}, "eos")
    assert "xoff nothing, due" in finding.detail
    assert "default is not public" in finding.unpriced


def test_what_a_setting_takes_away_is_priced_by_its_cause(site, tmp_path):
    """A session that is not there takes its cable, small frames drop full packets; BFD has no price, and says so."""
    texts = files(site[1], "sonic", sonic.render)

    def wrong(tables):
        port = next(iter(tables["BGP_NEIGHBOR"]))
        tables["BGP_NEIGHBOR"].pop(port)
        for row in tables["BGP_NEIGHBOR"].values():
            row["bfd"] = "false"
        tables["PORT"]["Ethernet0"]["mtu"] = "1500"

    findings = {one.detail.split(":")[0]: one for one in audited(site, tmp_path, changed(texts, "be-leaf0", wrong))}
    assert set(findings) == {"BGP sessions", "frames", "BFD"}
    assert findings["frames"].loss > 0
    assert findings["BFD"].unpriced


def test_wrong_facts_name_ports_by_ranges_in_their_order():
    """Ranges are of all ports that the switch has, in the order of their numbers, whatever the order of a set."""
    every = [f"Ethernet{4 * number}" for number in range(16)]
    missing = set(every) - {"Ethernet8", "Ethernet40"}
    words = wrong_words("pfc", set(every), set(every) - missing)
    assert words == ("ports with PFC: missing Ethernet0, Ethernet4, Ethernet12 to Ethernet36, Ethernet44 to Ethernet60")
    want, found = dict.fromkeys(every, 9216), dict.fromkeys(every, 9216) | {every[10]: 1500, every[2]: 1500}
    assert wrong_words("mtu", want, found) == "frames: 1500, planned 9216 (Ethernet8, Ethernet40)"
    assert wrong_words("access", {("Ethernet0", "a")}, {("Ethernet0", "b")}) == (
        "addresses of servers' ports: wrong Ethernet0"
    )
    assert wrong_words("alpha", {1.0}, {0.5}).endswith(": 0.5, planned 1.0")
    assert wrong_words("bfd", True, None) == "BFD: nothing, planned True"


def test_every_setting_has_its_own_effect_in_packets():
    """Without pauses timers run out; headroom loses less. Even shifts fill no queue at 1:1.

    At 2:1 one draw in four loses packets, and then waits for timers.
    """
    pause = slower(RACK, (Setting("x", (), "pause", 0.0, leaf=True),), crowded=True)
    room = slower(RACK, (Setting("x", (), "headroom", 0.2, leaf=True),), crowded=True)
    narrow, even = (
        slower(rack, (Setting("x", (), "pause", 0.0, leaf=True),), crowded=False)
        for rack in (RACK, replace(RACK, above=RACK.below))
    )
    none = slower(RACK, (Setting("x", (), "pause", 0.0, leaf=True, below=0.0, above=0.0),), crowded=True)
    assert pause.low <= pause.mean <= pause.high
    assert pause.mean > room.mean > 1.0
    assert even.mean == pytest.approx(1.0, abs=1e-3)
    assert narrow.low == pytest.approx(1.0, abs=1e-3)
    assert narrow.high > 2.0
    assert none.mean == 1.0


def test_the_price_is_the_step_with_cables_as_much_slower(site, tmp_path):
    from railyard.cluster.fault import DegradeLink
    from railyard.cluster.fault.cluster_places import ClusterPlaces
    from railyard.graph import Job

    texts = files(site[1], "sonic", sonic.render)

    def no_pauses(tables):
        for row in tables["PORT_QOS_MAP"].values():
            row.pop("pfc_enable")

    (finding,) = audited(site, tmp_path, changed(texts, "be-leaf1", no_pauses))
    assert "ports with PFC: missing Ethernet" in finding.detail
    job = prepare(site[0])[0]
    graph = job.graphs.of(job.training, job.cluster)
    crowded, even = (float(finding.priced_by.split(word)[1].split()[0]) for word in ("take ", "even shifts "))
    factor = (1 - CROWDED_SHARE) * even + CROWDED_SHARE * crowded
    links = ClusterPlaces.of(job.cluster).switch("leaf 1").tolist()
    slow = [DegradeLink(factor=1 / factor, link=link) for link in links]
    step = job.engine.simulate([Job(graph)], job.cluster, faults=slow).makespan_ps * 1e-12
    base = job.engine.simulate([Job(graph)], job.cluster).makespan_ps * 1e-12
    assert finding.loss == pytest.approx(1 - base / step, rel=0.05)


def test_a_misconfigured_switch_is_a_fault_of_scenarios(site):
    from tests.agreement import yard

    from railyard.graph import CollectiveKind, Job

    job = prepare(draft(64, "leaf-spine", "roce", {"ports_per_leaf": 16, "oversubscription": 4}))[0]
    graph = yard.graph(64, [yard.collective(CollectiveKind.ALL_TO_ALL, 8 << 20)], [range(64)])
    packets = PacketEngine(samples=0)
    right = packets.simulate([Job(graph)], job.cluster).makespan_ps
    wrong = packets.simulate([Job(graph)], job.cluster, faults=[MisconfiguredSwitch(switch="leaf 0", pauses=False)])
    assert wrong.makespan_ps > 1.5 * right
    with pytest.raises(InputError, match="use the engine `packet`"):
        job.engine.simulate([Job(graph)], job.cluster, faults=[MisconfiguredSwitch(switch="leaf 0", marks=False)])
    with pytest.raises(InputError, match="the fault changes nothing"):
        MisconfiguredSwitch(switch="leaf 0")


def test_a_station_at_1600_gigabit_answers_in_the_time_of_one_at_400():
    """By hand: 9,216 + 2 x 30 m / 198,000 km/s at 1.6 Tb/s + 819.2 + 1,158.4 ns at 1.6 Tb/s + 120 ns of tile, three
    times as much in cells of 192, and a packet of 4,178."""
    under_way = 9216 + 60 / 198e6 * 1600e9 / 8 + 819.2 + 231_680 + 24_000
    xoff = headroom(1600e9, 30).xoff
    assert xoff - 1024 < 3 * under_way + 4178 <= xoff


# Headroom against SONiC's own reckoning: its Lua, with a database that answers what a switch's would.

DATA = Path(__file__).parent / "data"
LUA = next((name for name in ("lua5.1", "lua5.2", "lua5.3", "lua5.4", "lua", "luajit") if shutil.which(name)), "")
LENGTHS = (1, 7, 40, 300)


def theirs(name, rate_bps, length_m, lanes):
    asic = ASICS[name]
    given = (f"MELLANOX-{name.upper()}", asic.cell_bytes, round(rate_bps / 1e6), length_m, 9216, lanes, PACKET, 100)
    command = [LUA, str(DATA / "redis.lua"), *map(str, given), str(DATA / "buffer_headroom_mellanox.lua")]
    out = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    found = dict(line.split(":") for line in out.split())
    return tuple(int(found[key]) for key in ("xon", "xoff", "size"))


@pytest.mark.skipif(not LUA, reason="no Lua here (Debian: lua5.1)")
@pytest.mark.parametrize("name", sorted(ASICS))
def test_ours_is_what_sonic_reckons(name):
    for rate in (25e9, 100e9, 200e9, 400e9, 800e9):
        for length in LENGTHS:
            for lanes in (4, EIGHT):
                room = headroom(rate, length, asic=ASICS[name], lanes=lanes)
                assert (room.xon, room.xoff, room.size) == theirs(name, rate, length, lanes), (rate, length, lanes)


def test_figures_are_those_of_the_chip_where_public():
    known = catalog.load()
    for box, chip in (("spectrum-3-sn4700", "Spectrum-3"), ("spectrum-6-sn6600", "Spectrum-6")):
        assert asic_of(known.switch(box)) == (ASICS[chip.lower()], chip)
    assert asic_of(known.switch("tomahawk-5")) == (USUAL, "Spectrum-4")
    assert max(headroom(800e9, 37, asic=one).xoff for one in ASICS.values()) == headroom(800e9, 37).xoff


def test_a_port_of_400_gigabit_over_30_metres():
    """By hand: 9,216 + 2 x 30 m / 198,000 km/s at 400 Gb/s + 819.2 + 905 x 64 + 120 ns at 400 Gb/s = 89,105.3 bytes in
    cells of 192 that hold 64 each: three times as much, and a packet of 4,178, is 265.2 KiB."""
    under_way = 9216 + 60 / 198e6 * 400e9 / 8 + 819.2 + 57_920 + 6000
    assert headroom(400e9, 30).xoff == 266 * 1024
    assert 265 * 1024 < 3 * under_way + PACKET <= 266 * 1024
