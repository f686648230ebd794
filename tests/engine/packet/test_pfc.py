"""Lossless switches under a transport: nothing lost, who held whom back, bounds, errors, the same for the same seed."""

import dataclasses

import numpy as np
import pytest

from railyard.cluster.routes import Routes
from railyard.engine.packet import (
    PacketNetwork,
    Settings,
    Traffic,
    crossbar,
    fat_tree,
    leaf_spine,
    run,
)
from railyard.kit.errors import InputError
from railyard.work.scenario.packet.settings import PacketSettings, assign

G400 = 400 * 10**9
MTU = 4150
US = 10**6
CONSTANT = Settings(switching="pfc", congestion_control="constant", load_balancing="ecmp", mtu_bytes=MTU)
STATIC = dataclasses.replace(CONSTANT, pfc_xoff_packets=15, pfc_xon_packets=12)


def incast(hosts, senders, size=1_000_000):
    return Traffic.of(hosts, np.arange(1, senders + 1), np.zeros(senders, int), size)


@pytest.mark.parametrize("settings", [STATIC, dataclasses.replace(CONSTANT, pfc_alpha=1 / 64)])
@pytest.mark.parametrize("balance", ["ecmp", "spray", "adaptive"])
def test_nothing_is_lost_and_no_bound_is_broken(settings, balance):
    network = fat_tree(16, rate_bps=G400)
    found = run(network, incast(16, 12), dataclasses.replace(settings, load_balancing=balance))
    assert found.ended.all()
    assert found.meta["packets"]["dropped"] == found.meta["packets"]["trimmed"] == found.meta["packets"]["lost"] == 0
    assert found.meta["packets"]["pauses"] > 0
    # All of it must come over one link.
    assert found.end_ps.max() >= 12 * 1_000_000 * 8 * 10**12 // G400
    assert int(found.table("links")["bytes"].max()) * 8 * 10**12 // G400 <= found.meta["now_ps"]


def test_without_need_for_pauses_it_is_as_fast_as_a_lossy_fabric():
    network = fat_tree(16, rate_bps=G400)
    traffic = Traffic.of(16, np.arange(16), np.roll(np.arange(16), 5), 500_000)
    lossless = run(network, traffic, CONSTANT)
    lossy = run(network, traffic, dataclasses.replace(CONSTANT, switching="lossy"))
    assert lossless.meta["packets"]["pauses"] == 0
    assert (lossless.end_ps == lossy.end_ps).all()


def test_the_seed_decides_everything():
    network = fat_tree(16, rate_bps=G400)
    settings = dataclasses.replace(STATIC, load_balancing="adaptive")
    digests = [run(network, incast(16, 12), dataclasses.replace(settings, seed=seed)).digest() for seed in (3, 3, 4)]
    assert digests[0] == digests[1] != digests[2]


def test_a_pause_tree_has_a_root_and_a_victim():
    # Hosts 4, 5, 6 -> 0 fill the queue down to host 0; 7 -> 1 goes by the same switches to another host.
    network = leaf_spine(8, leaf_hosts=4, spines=4, rate_bps=G400)
    traffic = Traffic.of(8, [4, 5, 6, 7], [0, 0, 0, 1], [2_000_000, 2_000_000, 2_000_000, 500_000])
    settings = dataclasses.replace(STATIC, load_balancing="adaptive")
    found = run(network, traffic, settings)
    alone = run(network, Traffic.of(8, [7], [1], 500_000), settings)
    assert found.duration_ps[3] > 1.2 * alone.duration_ps[0]
    pauses = found.table("links")
    last = int(np.flatnonzero(network.link_target == 0)[0])
    held = np.flatnonzero(pauses["paused_ps"])
    assert held.size >= 4
    assert pauses["paused_ps"][last] == 0
    assert (pauses["pause_origin"][held] == last).mean() > 0.5
    assert (pauses["longest_pause_ps"] <= pauses["paused_ps"]).all()
    assert (pauses["pauses"][held] > 0).all()
    assert found.column("victim_ps")[3] > 0
    assert found.column("victim_of")[3] == last
    assert (found.column("victim_ps")[:3] < found.column("paused_ps")[:3]).all()


def ring(count):
    """Switches in a ring, a host at each, everything sent round the same way."""
    source, target = [], []
    for at in range(count):
        source += [at, count + at]
        target += [count + at, at]
    for at in range(count):
        source += [count + at, count + (at + 1) % count]
        target += [count + (at + 1) % count, count + at]
    choices, lo, ptr = [], [], [0]
    for host in range(count):
        choices.append(2 * host)
        lo.append(0)
        ptr.append(len(lo))
    for at in range(count):
        for host in range(count):
            choices.append(2 * at + 1 if host == at else 2 * count + 2 * at)
            lo.append(host)
        ptr.append(len(lo))
    records = len(lo)
    routes = Routes(
        record_ptr=np.array(ptr, np.int64),
        lo=np.array(lo, np.int32),
        hi=np.array([count] * count + [value + 1 for value in lo[count:]], np.int32),
        first=np.arange(records, dtype=np.int64),
        width=np.ones(records, np.int32),
        stride=np.full(records, count, np.int32),
        choices=np.array(choices, np.int32),
    )
    return PacketNetwork(
        hosts=count,
        nodes=2 * count,
        link_source=np.array(source, np.int32),
        link_target=np.array(target, np.int32),
        rate_bps=np.full(len(source), G400, np.int64),
        latency_ps=np.full(len(source), US, np.int64),
        routes=routes,
    )


def test_marks_come_where_they_are_asked_for():
    network = crossbar(8, rate_bps=G400)
    step = dataclasses.replace(CONSTANT, marking_low_bytes=20 * MTU, marking_high_bytes=20 * MTU)
    never = dataclasses.replace(CONSTANT, marking_low_bytes=10**9, marking_high_bytes=10**9)
    half = dataclasses.replace(step, marking_high_bytes=10**9, marking_most=0.5)
    counts = [run(network, incast(8, 4), settings).meta["packets"]["marked"] for settings in (step, half, never)]
    assert counts[0] > 10 * counts[1] >= counts[2] == 0


def test_a_lossy_class_beside_a_lossless_one_drops_alone():
    network = crossbar(8, rate_bps=G400)
    traffic = Traffic.of(8, [1, 2, 3, 4, 5, 6], [0] * 6, 1_000_000)
    traffic = dataclasses.replace(traffic, klass=np.array([0, 0, 0, 3, 3, 3], np.uint8))
    settings = dataclasses.replace(CONSTANT, pfc_lossless=(3, 7), pfc_buffer_bytes=3_000_000, trim=False)
    found = run(network, traffic, settings)
    assert found.ended.all()
    assert found.meta["packets"]["dropped"] > 0
    # Strict priority: class 3 is through first, and never lost anything.
    assert found.end_ps[3:].max() < found.end_ps[:3].min()


@pytest.mark.parametrize(
    ("key", "value", "word"),
    [
        ("pfc_weights", (1, 2), "8 integers"),
        ("pfc_lossless", (9,), "0 to 7"),
        ("control_class", 8, "0 to 7"),
        ("pfc_alpha", 0.0, "pfc_alpha"),
        ("pfc_xon_packets", 16, "pfc_xon"),
        ("pfc_buffer_bytes", 1000, "headroom"),
        ("marking_most", 1.5, "marking_most"),
    ],
)
def test_settings_out_of_range_are_refused(key, value, word):
    base = CONSTANT if key == "pfc_buffer_bytes" else STATIC
    with pytest.raises(InputError, match=word):
        run(crossbar(4, rate_bps=G400), incast(4, 2), dataclasses.replace(base, **{key: value}))


def test_every_setting_can_be_written():
    pairs = {
        "control_class=same": ("control_class", None),
        "marking_low=100 kB": ("marking_low_bytes", 100_000),
        "marking_most=20 %": ("marking_most", 0.2),
        "pfc_alpha=1/8": ("pfc_alpha", 0.125),
        "pfc_lossless=0,3,7": ("pfc_lossless", (0, 3, 7)),
        "pfc_weights=1,0,0,4,0,0,0,0": ("pfc_weights", (1, 0, 0, 4, 0, 0, 0, 0)),
        "pfc_xoff_packets=15": ("pfc_xoff_packets", 15),
        "pfc_buffer=16 MB": ("pfc_buffer_bytes", 16_000_000),
        "pfc_response=500 ns": ("pfc_response_ps", 500_000),
        "switching=pfc": ("switching", "pfc"),
    }
    for text, (name, value) in pairs.items():
        assert getattr(assign(PacketSettings(), [text]), name) == value


@pytest.mark.parametrize(("most", "loses"), [(0, False), (100_000, True), (10_000_000, False)])
def test_an_ingress_with_less_headroom_than_its_link_needs_loses_packets(most, loses):
    """Links of 50 us at 100 Gb/s: 1.25 MB fly when a pause leaves; hosts of the other leaf send to one."""
    far = leaf_spine(8, leaf_hosts=4, spines=1, rate_bps=10**11, latency_ps=50_000_000)
    traffic = Traffic.of(8, [0, 1, 2, 3, 5], [4] * 5, 20_000_000)
    options = {
        "transport": "rdma",
        "rdma_control": "line-rate",
        "switching": "pfc",
        "trim": False,
        "rdma_rto_ps": 10**10,
        "pfc_headroom_most_bytes": most,
    }
    found = run(far, traffic, Settings(**options))
    assert (found.meta["packets"]["dropped"] > 0) == loses
