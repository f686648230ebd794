"""Scale-up fabrics: frames, latencies, replay by hand; `scale_up` of a scenario; contracts over all of them."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from dataclasses import fields, replace

import numpy as np
import pytest
from tests.agreement import yard

from railyard import catalog, engine
from railyard.cluster import ClusterSpec, bill_of, build
from railyard.cluster.notes import notes_of
from railyard.cluster.scale_up import ScaleUpFabric, ScaleUpSpec, scale_ups
from railyard.collective import CollectivePolicy, machine_of
from railyard.collective.choice import choose_many
from railyard.collective.machine import Shape
from railyard.engine.packet import Settings, Traffic, crossbar, run
from railyard.engine.packet.engine import PacketEngine
from railyard.engine.packet.faults import errors
from railyard.graph import CollectiveKind, Job
from railyard.kit.errors import InputError

CATALOG = catalog.load()
every = pytest.mark.parametrize("fabric", [one for _, one in scale_ups.items()], ids=lambda one: one.name)
UALINK, SUE, UB = (scale_ups.get(name) for name in ("ualink", "sue", "ub"))
ADDED = {"name", "summary", "kind", "sources", "left_out", "packets", "price_usd_per_tbps", "power_w_per_tbps"}


def machine(accelerators=64, server="hgx-b200", **given):
    return build(ClusterSpec(accelerators, server, scale_up=ScaleUpSpec(**given) if given else None), CATALOG)


def times_us(cluster, kind, sizes, algorithm=None):
    shape = Shape.grid(1, cluster.ranks, scale_up=cluster.scale_up.kind)
    policy = CollectivePolicy(algorithm={} if algorithm is None else {kind.name.lower().replace("_", "-"): algorithm})
    return choose_many(kind, np.asarray(sizes, float), shape, machine_of(cluster), policy).time_us


@every
def test_every_figure_has_a_source_and_gaps_are_named(fabric: ScaleUpFabric):
    for field in fields(ScaleUpFabric):
        if field.name not in ADDED and getattr(fabric, field.name) != field.default:
            assert field.name in fabric.sources, field.name
    assert all(origin.source and origin.confidence for origin in fabric.sources.values())
    assert fabric.left_out


@every
def test_parts_of_the_latency_sum_to_the_published_one(fabric: ScaleUpFabric):
    if "one_way_ps" in fabric.sources:
        assert f"{fabric.one_way_ps(2) / 1000:g} ns" == fabric.sources["one_way_ps"].value_text
    assert fabric.one_way_ps(2) <= fabric.one_way_ps(fabric.largest_domain)
    slower = replace(fabric, link_ps=fabric.link_ps + 7)
    assert slower.one_way_ps(2) == fabric.one_way_ps(2) + 7


@pytest.mark.parametrize(
    ("metres", "delay", "picoseconds"),
    [(3, 4.6e-9, 477_600), (10, 4.96e-9, 549_200), (30, 4.96e-9, 747_600)],
)
def test_sue_latencies_are_those_of_its_manual(metres, delay, picoseconds):
    assert replace(SUE, cable_m=metres, cable_s_per_m=delay).one_way_ps() == picoseconds


def test_a_second_tier_adds_two_switches_and_two_cables():
    assert UB.one_way_ps(8) == 200_000 + 150_000 + 2 * 2_480
    assert UB.one_way_ps(16) - UB.one_way_ps(8) == 2 * (150_000 + 74_400)
    assert UB.reached_bps(8) == 14 * 224e9
    assert UB.reached_bps(16) == pytest.approx(0.97 * 14 * 224e9)


def test_ualink_frames_to_the_digit():
    assert UALINK.efficiency(256, responses=False, credits=False) == pytest.approx(32 / 33 * 628 / 640, abs=1e-12)
    assert UALINK.efficiency(64, responses=False, credits=False) == pytest.approx(8 / 9 * 628 / 640, abs=1e-12)
    assert UALINK.efficiency() == pytest.approx(0.93, abs=0.02)
    assert UALINK.efficiency() == pytest.approx(256 / (256 + 12 / 0.875) * 628 / 640, abs=1e-12)
    assert UALINK.replay_buffer(1_000_000, 200e9) == 40
    assert UALINK.replay_buffer(1_024_000, 200e9) == 40
    assert UALINK.replay_buffer(1_024_001, 200e9) == 41


def test_packets_hold_whole_accesses():
    assert SUE.efficiency() == pytest.approx(16 * 256 / (16 * 264 + 44), abs=1e-12)
    assert SUE.efficiency(300) == pytest.approx(13 * 300 / (13 * 308 + 44), abs=1e-12)
    assert SUE.efficiency(5000) == pytest.approx(5000 / (5008 + 44), abs=1e-12)


def test_go_back_n_by_hand():
    wrong, frames = 1 - (1 - 1e-6) ** 5120, 1e-6 * 200e9 / 5120
    expected = (1 - wrong) / (1 + (frames - 1) * wrong)
    assert UALINK.replay_goodput(1e-6, 1_000_000, 200e9) == pytest.approx(expected, rel=1e-9)
    assert UALINK.replay_goodput(0.0, 1_000_000, 200e9) == 1.0
    short = replace(UALINK, replay_frames=10)
    assert short.replay_goodput(0.0, 1_000_000, 200e9) == pytest.approx(10 / frames)
    assert short.replay_goodput(1e-6, 1_000_000, 200e9) == pytest.approx(10 / frames * (1 - wrong) / (1 + 9 * wrong))


@every
def test_more_bandwidth_is_never_slower_and_frames_never_exceed_the_wire(fabric: ScaleUpFabric):
    sizes = np.geomspace(256, 2**33, 24)
    for kind in (CollectiveKind.ALL_REDUCE, CollectiveKind.ALL_GATHER, CollectiveKind.ALL_TO_ALL):
        slow, fast = (
            times_us(machine(fabric=fabric.name, domain=64, overrides={"links": links}), kind, sizes)
            for links in (8, 16)
        )
        assert (fast <= slow * (1 + 1e-9)).all()
        share = {CollectiveKind.ALL_REDUCE: 1.0}.get(kind, 63 / 64)  # sums in switches halve an all-reduce
        bound_us = 8e6 * sizes * share / (16 * fabric.link_bps)
        assert (fast >= bound_us).all()
    assert 0 < fabric.efficiency() <= 1
    assert fabric.efficiency(64) <= fabric.efficiency(256)
    assert fabric.library_bps(64) <= fabric.reached_bps(64) <= fabric.rate_bps


@every
def test_it_is_applied_in_one_place(fabric: ScaleUpFabric):
    cluster = machine(fabric=fabric.name, domain=64)
    assert cluster.scale_up.kind == fabric.kind == cluster.accelerator.scale_up_kind
    assert cluster.scale_up_domain == cluster.server.scale_up_domain == 64
    assert cluster.scale_up.rate_bps == fabric.reached_bps(64)
    assert cluster.scale_up.latency_ps == fabric.one_way_ps(64)
    assert machine_of(cluster).plan_bps == fabric.library_bps(64)
    assert cluster.scale_up.nvls == (fabric.reduces and fabric.kind == "switched")
    bought = bill_of(cluster).of("scale-up")
    tbps = fabric.switch_tbps(64)
    assert sum(row.price_usd.typical for row in bought) == pytest.approx(tbps * fabric.price_usd_per_tbps.typical)


def test_the_accelerators_own_fabric_changes_no_rate_and_no_bill():
    own, named = machine(server="gb200-nvl72", accelerators=72), machine(72, "gb200-nvl72", fabric="nvlink-5")
    assert named.scale_up.rate_bps == own.scale_up.rate_bps
    assert machine_of(named).plan_bps == pytest.approx(machine_of(own).plan_bps, rel=1e-12)
    assert (named.scale_up.ceiling, named.scale_up.longer_ps) == (own.scale_up.ceiling, 0)
    assert bill_of(named).total_usd == bill_of(own).total_usd
    fewer = machine(8, "hgx-h800", domain=8)
    assert fewer.scale_up.rate_bps == 8 * 200e9


@pytest.mark.parametrize(
    ("given", "idle"),
    [
        ({"fabric": "ualink", "overrides": {"bit_errors": 1e-9, "replay_frames": 9, "access_bytes": 64}}, []),
        ({"fabric": "ualink", "overrides": {"framed_share": 0.9, "upper_loss": 0.1}}, ["framed_share", "upper_loss"]),
        ({"fabric": "nvlink-5", "overrides": {"bit_errors": 1e-6, "framed_share": 0.9}}, ["bit_errors"]),
        ({"fabric": "ub", "overrides": {"upper_loss": 0.1}}, []),
        ({"fabric": "ub", "domain": 8, "overrides": {"upper_loss": 0.1, "first_tier": 8}}, ["upper_loss"]),
        ({"fabric": "ici", "overrides": {"reduces": True, "switch_ps": 1}}, ["switch", "reduces"]),
    ],
)
def test_keys_that_change_nothing_are_named(given, idle):
    """Bit errors of NVLink, whose frames are not public, were taken without a word and changed no time."""
    said = [note for note in notes_of(machine(**{"domain": 64, **given})) if "changes nothing" in note]
    assert [note.split("`")[1] for note in said] == idle


def test_what_the_bill_lacks_and_has_too_much_is_said():
    def said(**given):
        return [note for note in notes_of(machine(**given)) if "priced" in note or "the bill has" in note]

    assert said(fabric="ualink", domain=64) == []
    assert said(fabric="nvlink-5", domain=8) == []
    assert said(fabric="ici", domain=64) == [
        "not priced: links of ici between accelerators; a torus has no switches to price"
    ]
    assert said(fabric="ualink", domain=256) == [
        "the bill has switches for a whole scale-up domain of 256 accelerators, and the cluster has 64"
    ]


def test_longer_cables_reach_every_step_of_a_library():
    sizes = [1024.0]
    near, far = (machine(8, fabric="nvlink-5", overrides={"cable_m": metres}) for metres in (1.0, 101.0))
    extra_us = times_us(far, CollectiveKind.ALL_GATHER, sizes, "ring") - times_us(
        near, CollectiveKind.ALL_GATHER, sizes, "ring"
    )
    assert extra_us[0] == pytest.approx(7 * 2 * 100 * 4.6e-3, rel=1e-6)


def test_a_rack_gives_fabric_links_and_domain():
    helios = machine(72, "helios-tray", rack="helios")
    assert (helios.hardware.joined.fabric.name, helios.scale_up_domain) == ("ualink", 72)
    assert helios.scale_up.rate_bps == 18 * 800e9
    borrowed = machine(72, "gb200-nvl72", rack="helios")
    assert borrowed.scale_up.rate_bps == 18 * 800e9
    assert machine(64, rack="helios", domain=32).scale_up_domain == 32


@pytest.mark.parametrize("name", CATALOG.names("racks"))
def test_racks_hold_what_their_servers_hold(name):
    rack = CATALOG.rack(name)
    server = CATALOG.server(rack.server)
    assert rack.servers * server.accelerators == rack.accelerators
    fabric, accelerator = scale_ups.get(rack.fabric), CATALOG.accelerator(server.accelerator)
    assert rack.accelerators <= fabric.largest_domain
    if accelerator.scale_up_fabric == rack.fabric:
        whole = replace(fabric, links=rack.links)
        assert accelerator.scale_up_bps == pytest.approx(whole.reached_bps(rack.accelerators), rel=1e-3)
        assert accelerator.scale_up_collective_bps == pytest.approx(whole.library_bps(rack.accelerators), rel=1e-3)
    hosts = server.host_power_w.scaled(rack.servers) + accelerator.power_w.scaled(rack.accelerators)
    assert hosts.low * 0.8 <= rack.power_w.typical <= hosts.high * 1.3


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"fabric": "ub", "domain": 512}, "joins 2 to 384"),
        ({"fabric": "ualink", "domain": 12}, "a domain divides the 8 accelerators"),
        ({"fabric": "ualnik"}, "there is no scale-up fabric"),
        ({"rack": "hellios"}, "no rack|has no"),
    ],
)
def test_what_does_not_fit_is_refused(given, words):
    with pytest.raises(InputError, match=words):
        machine(**given)


def test_without_a_record_a_fabric_must_be_named():
    with pytest.raises(InputError, match="no fabric is known"):
        machine(8, "mi300x-8", domain=8)


@every
def test_packets_are_settings_of_the_engine(fabric: ScaleUpFabric):
    if fabric.packets is None:
        return
    settings = Settings(**fabric.packets.constants)
    assert settings.mtu_bytes - settings.header_bytes == pytest.approx(
        fabric.efficiency() * settings.mtu_bytes, rel=2e-3
    )


@pytest.mark.parametrize("name", [name for name, record in scale_ups.items() if record.packets is not None])
@pytest.mark.parametrize(("wrong", "gbps"), [(0.0005, 200), (0.005, 200), (0.025, 200), (0.005, 800)])
def test_random_errors_cost_what_go_back_n_costs(name, wrong, gbps):
    """One link of 500 ns: a wrong frame costs all that were sent until its sender heard of it."""
    fabric = scale_ups.get(name)
    network = crossbar(2, rate_bps=gbps * 10**9, latency_ps=500_000)
    into = np.flatnonzero(network.link_target == 1)
    constants = fabric.packets.constants
    frame = constants["mtu_bytes"]
    payload, ratio = frame - constants["header_bytes"], wrong / (8 * frame)
    traffic = Traffic.of(2, [0], [1], 24_000_000 // payload * payload)
    took = [
        int(run(network, traffic, Settings(**constants, faults=faults, seed=5)).duration_ps[0])
        for faults in ((), tuple(errors(into, 0, ratio)))
    ]
    whole = replace(fabric, frame_bytes=frame - fabric.overhead_bytes, replay_frames=0)
    expected = whole.replay_goodput(ratio, 2 * 500_000 + round(frame * 8e3 / gbps), gbps * 1e9)
    hits = 24e6 / payload * wrong
    drawn = (1 - expected) / np.sqrt(hits)  # what the number of errors drawn varies by
    assert took[0] / took[1] == pytest.approx(expected, rel=0.05, abs=2 * drawn)


@pytest.mark.parametrize("latency_us", [1, 2, 4])
@pytest.mark.parametrize("ratio", [0, 1e-6])
def test_credits_keep_a_link_within_its_replay_window(latency_us, ratio):
    """255 flits of UALink a round trip, also where a wrong one costs the whole window."""
    constants, data = UALINK.packets.constants, 40_000 * 596
    network = crossbar(2, rate_bps=800 * 10**9, latency_ps=latency_us * 10**6)
    faults = tuple(errors(np.flatnonzero(network.link_target == 1), 0, ratio)) if ratio else ()
    took = run(network, Traffic.of(2, [0], [1], data), Settings(**constants, faults=faults, seed=5)).duration_ps[0]
    trip = 2 * latency_us * 10**6 + 6400
    found, within = 40_000 * 6400 / took, UALINK.replay_goodput(0, trip)
    if not ratio:
        assert found == pytest.approx(within, rel=0.03)
    # A window that comes as a burst loses what follows the wrong flit: between half of it and all.
    assert 0.95 * UALINK.replay_goodput(ratio, trip) <= found <= within * UALINK.replay_goodput(ratio, 128 * 6400)


@every
@pytest.mark.parametrize("kind", [CollectiveKind.ALL_REDUCE, CollectiveKind.ALL_GATHER, CollectiveKind.ALL_TO_ALL])
def test_engines_agree_inside_one_domain(fabric: ScaleUpFabric, kind):
    cluster = machine(8, fabric=fabric.name, domain=8)
    size = 1 << 29
    work = Job(yard.graph(8, [yard.collective(kind, size)], [np.arange(8)]))
    names = ["analytic", "flow"] + (["packet"] if fabric.packets else [])
    engines = {name: engine.get(name) for name in names[:2]} | {"packet": PacketEngine(scale_up="packets")}
    took = [engines[name].simulate([work], cluster).makespan_ps for name in names]
    assert max(took) <= 1.05 * min(took), dict(zip(names, took, strict=True))


def test_the_next_fabric_is_one_file(tmp_path):
    (tmp_path / "rope.py").write_text(
        "from dataclasses import replace\n"
        "from railyard.cluster.scale_up import scale_ups\n"
        "UALINK = scale_ups.get('ualink')\n"
        "scale_ups.enter(replace(UALINK, name='rope', summary='Half of it.', links=9))\n"
    )
    (tmp_path / "scenario.yaml").write_text(
        "name: rope\n"
        "cluster: {accelerators: 16, server: hgx-b200, scale_up: {fabric: rope, domain: 16, cable: 3 m}}\n"
        "workload: {training: {model: llama-3.2-1b, global_batch: 16, sequence: 2048, parallelism: {tp: 2}}}\n"
    )
    done = subprocess.run(
        [sys.executable, "-m", "railyard", "run", "scenario.yaml", "--json", "-q"],
        cwd=tmp_path,
        env={**os.environ, "RAILYARD_PLUGINS": str(tmp_path / "rope.py")},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["variants"][0]


def test_one_shot_is_the_floor_of_its_parts_and_only_taken_when_asked_for():
    cluster = machine(64, "gb200-nvl72", fabric="nvlink-5", domain=72)
    floor = times_us(cluster, CollectiveKind.ALL_REDUCE, [128.0], "one-shot")[0]
    assert floor == pytest.approx(2 * 0.306 + 0.792 + 0.058 + 0.2075 * 5 + 128 * 63 / 783e3, abs=1e-3)
    usual = times_us(cluster, CollectiveKind.ALL_REDUCE, [128.0])[0]
    assert usual > 4 * floor


@pytest.mark.parametrize(
    ("fabric", "overrides", "key"),
    [
        ("ualink", {"control_share": 1.0}, "control_share"),
        ("ualink", {"frame_bytes": 0}, "frame"),
        ("nvlink-5", {"framing": "flit"}, "frame"),
        ("nvlink-5", {"framed_share": 0.0}, "framed_share"),
    ],
)
def test_frames_without_room_for_data_are_refused(fabric, overrides, key):
    """Such frames ended in a division by zero."""
    server = CATALOG.server("hgx-b200")
    with pytest.raises(InputError, match=rf"scale_up\.{key}: .* no room for data"):
        ScaleUpSpec(fabric=fabric, overrides=overrides).joined(CATALOG.accelerator("b200-sxm"), server, CATALOG)


def test_a_window_and_errors_slow_a_link_in_every_engine():
    """Of 800 Gb/s, 218.4 ns hold 34.125 flits of 640 B; at 1e-6 an errored flit, p = 0.5107 %, costs a round trip."""
    rate = UALINK.rate_bps
    assert UALINK.reached_bps() == rate
    assert replace(UALINK, replay_frames=1).reached_bps() == pytest.approx(rate / 34.125)
    assert replace(UALINK, bit_errors=1e-6).reached_bps() == pytest.approx(
        rate * 0.994893 / (1 + 33.125 * 0.005107), rel=1e-4
    )
