"""The scheduled fabric: indifferent to the pattern, fair, without loss; and its constants matter as they should."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from railyard.cluster.fabric import fabrics
from railyard.engine.packet import LinkFault, PacketNetwork, Settings, Traffic, fat_tree, leaf_spine, run
from railyard.engine.packet.sharp import sharp, tree_of
from railyard.kit.errors import InputError
from railyard.work.scenario.packet.settings import assign, fabric

if TYPE_CHECKING:
    from railyard.graph import Record

G400 = 400 * 10**9
MTU, HEADER = 4178, 82
MSS = MTU - HEADER
HOSTS = 64
FABRIC = Settings(
    transport="rdma",
    switching="scheduled",
    load_balancing="ecmp",
    mtu_bytes=MTU,
    header_bytes=HEADER,
    rdma_control_bytes=86,
    trim=False,
)
# Links both ways, two credit loops, a packet's and a last cell's times: what any flow has beside its bytes.
OVERHEAD_US = 20.0


def go(network: PacketNetwork, traffic: Traffic, **changed: object) -> Record:
    found = run(network, traffic, replace(FABRIC, **changed))  # type: ignore[arg-type]
    assert found.ended.all()
    assert [found.meta["packets"][kind] for kind in ("dropped", "lost", "retransmitted")] == [0] * 3
    assert "scheduled" in found.meta
    assert found.meta["scheduled"]["cells_lost"] == 0
    return found


def wire_us(size_bytes: int) -> float:
    return (size_bytes + HEADER * -(-size_bytes // MSS)) * 8 / G400 * 1e6


def test_incast_is_fair_and_takes_what_the_port_needs() -> None:
    """128 to 1, 2.048 MB each: the last flow within 2 % of the port's time, half of them near it, nothing lost."""
    network = leaf_spine(136, leaf_hosts=8, spines=8, rate_bps=G400)
    found = go(network, Traffic.of(136, np.arange(8, 136), 0, 2_048_000))
    bound = 128 * wire_us(2_048_000)
    finish = np.sort(found.duration_ps) / 1e6
    assert bound <= finish[-1] <= 1.02 * bound + OVERHEAD_US
    assert finish[64] >= 0.995 * finish[-1]
    assert finish[0] >= 0.98 * finish[-1]


def patterns() -> dict[str, tuple[np.ndarray, np.ndarray, int]]:
    """Every host sends 2 MB and gets 2 MB, to one host or to many."""
    host = np.arange(HOSTS)
    order = np.random.default_rng(5).permutation(HOSTS)
    source, target = np.divmod(np.arange(HOSTS * HOSTS), HOSTS)
    other = source // 8 != target // 8
    return {
        "shift": (host, (host + 8) % HOSTS, 2_000_000),
        "far shift": (host, (host + 37) % HOSTS, 2_000_000),
        "permutation": (order, np.roll(order, 11), 2_000_000),
        "all to all": (source[other], target[other], 2_000_000 // (HOSTS - 8)),
    }


def test_patterns_do_not_matter() -> None:
    network = leaf_spine(HOSTS, leaf_hosts=8, spines=8, rate_bps=G400)
    finish = {}
    for name, (source, target, size) in patterns().items():
        found = go(network, Traffic.of(HOSTS, source, target, size))
        wire = wire_us(size) * len(source) / HOSTS
        assert found.end_ps.max() / 1e6 >= wire
        finish[name] = found.end_ps.max() / 1e6 - wire
    assert all(7 < extra < OVERHEAD_US for extra in finish.values()), finish
    spread = max(finish.values()) - min(finish.values())
    assert spread < 0.1 * wire_us(2_000_000), finish


def test_the_seed_does_not_matter() -> None:
    """No hash chooses paths: a permutation takes the same time under every seed; under hashed paths it does not."""
    network = leaf_spine(HOSTS, leaf_hosts=8, spines=8, rate_bps=G400)
    source, target, size = patterns()["permutation"]
    last = [go(network, Traffic.of(HOSTS, source, target, size), seed=seed).end_ps.max() for seed in range(5)]
    assert max(last) < 1.005 * min(last)


def test_three_tiers_by_the_same_routes() -> None:
    order = np.random.default_rng(2).permutation(128)
    found = go(fat_tree(128, rate_bps=G400), Traffic.of(128, order, np.roll(order, 1), 2_000_000))
    assert found.end_ps.max() / 1e6 < wire_us(2_000_000) + OVERHEAD_US + 12  # four more links each way and in a loop
    assert "scheduled" in found.meta
    assert found.meta["scheduled"]["element_bytes"] < 64 * 272


def test_a_flow_beside_an_incast_is_untouched() -> None:
    """Thirty hosts send to host 0; one flow from the same leafs to another host on host 0's leaf."""
    network = leaf_spine(HOSTS, leaf_hosts=8, spines=8, rate_bps=G400)
    alone = go(network, Traffic.of(HOSTS, [8], [1], 2_000_000)).duration_ps[0]
    source = np.concatenate(([8], np.arange(9, 39)))
    target = np.concatenate(([1], np.zeros(30, int)))
    size = np.concatenate(([2_000_000], np.full(30, 4_000_000)))
    assert go(network, Traffic.of(HOSTS, source, target, size)).duration_ps[0] < 1.03 * alone


def test_classes_share_a_port() -> None:
    """Two classes with backlog get half each, however many flows either has."""
    network = leaf_spine(32, leaf_hosts=8, spines=8, rate_bps=G400)
    traffic = Traffic.of(32, [8, 9, 10, 16], 0, 3_000_000)
    traffic = replace(traffic, klass=np.array([0, 0, 0, 3], np.uint8))
    fct = go(network, traffic, control_class=None).duration_ps / 1e6
    assert fct[3] == pytest.approx(2 * wire_us(3_000_000) + 13, rel=0.03)
    assert fct[:3].max() == pytest.approx(4 * wire_us(3_000_000) + 13, rel=0.03)


def test_half_a_fabric_takes_twice_as_long() -> None:
    network = leaf_spine(HOSTS, leaf_hosts=8, spines=8, rate_bps=G400)
    source, target, size = patterns()["shift"]
    traffic = Traffic.of(HOSTS, source, target, size)
    full, half = (
        go(network, traffic, scheduled_fabric_speedup=speedup).end_ps.max() / 1e6 for speedup in (160 / 144, 80 / 144)
    )
    share = 80 / 144 * 256 / 272  # of the ports' rate, behind cell headers
    assert full < wire_us(size) + OVERHEAD_US
    assert wire_us(size) / share <= half < 1.06 * wire_us(size) / share + OVERHEAD_US


def test_a_dead_link_costs_its_share() -> None:
    """One of eight spines' links to a leaf dies: after the reachability delay its cells take the other seven."""
    network = leaf_spine(HOSTS, leaf_hosts=8, spines=8, rate_bps=G400)
    link = int(np.flatnonzero((network.link_source == HOSTS + 8) & (network.link_target == HOSTS))[0])
    source, target, size = patterns()["shift"]
    found = run(
        network,
        Traffic.of(HOSTS, source, target, size),
        replace(
            FABRIC, faults=(LinkFault(at_ps=20_000_000, link=link, kind="rate", value=0.0),), rdma_rto_ps=200_000_000
        ),
    )
    assert found.ended.all()
    assert "scheduled" in found.meta
    assert 0 < found.meta["scheduled"]["cells_lost"] < 1000
    through = found.table("links")["bytes"][(network.link_target == HOSTS) & (network.link_source >= HOSTS)]
    assert np.sort(through)[0] < 0.6 * np.sort(through)[1]


FLOWS = st.lists(
    st.tuples(st.integers(0, 15), st.integers(0, 15), st.integers(1, 200_000), st.integers(0, 30_000_000)).filter(
        lambda flow: flow[0] != flow[1]
    ),
    min_size=1,
    max_size=24,
)


@settings(max_examples=40, deadline=None)
@given(
    flows=FLOWS,
    spines=st.integers(1, 5),
    cell=st.sampled_from([64, 256, 1000]),
    credit=st.sampled_from([1024, 4096, 20_000]),
    speedup=st.sampled_from([0.6, 1.0, 160 / 144]),
    voq=st.sampled_from([20_000, None]),
    seed=st.integers(0, 3),
)
def test_nothing_is_lost_or_reordered(flows, *, spines, cell, credit, speedup, voq, seed) -> None:
    source, target, size, start = (np.array(column) for column in zip(*flows, strict=True))
    network = leaf_spine(16, leaf_hosts=4, spines=spines, rate_bps=G400)
    found = go(
        network,
        Traffic.of(16, source, target, size, start_ps=start),
        scheduled_cell_bytes=cell,
        scheduled_credit_bytes=credit,
        scheduled_fabric_speedup=speedup,
        scheduled_voq_bytes=voq,
        seed=seed,
    )
    assert found.meta["packets"]["nacks"] == found.meta["packets"]["duplicates"] == 0
    assert found.meta["packets"]["new"] == (-(-size // MSS)).sum()
    bound = np.array([wire_us(int(one)) for one in size]) * 1e6 + 4e6
    assert (found.duration_ps >= bound).all()
    into = np.bincount(target, size, 16)
    down = found.table("links")["bytes"][network.link_target < 16]
    assert (down >= into).all()


def test_the_same_input_gives_the_same_bytes() -> None:
    network = leaf_spine(HOSTS, leaf_hosts=8, spines=8, rate_bps=G400)
    source, target, size = patterns()["all to all"]
    first, second = (go(network, Traffic.of(HOSTS, source, target, size)) for _ in range(2))
    assert first.digest() == second.digest()


def test_preset_and_keys() -> None:
    preset = fabric("scheduled")
    assert preset.settings.switching == "scheduled"
    assert preset.settings.transport == "rdma"
    said = assign(
        preset.settings,
        [
            "scheduled_cell_bytes=128",
            "scheduled_request=200 ns",
            "scheduled_voq_bytes=10 MB",
            "scheduled_credit_rate=1.1",
        ],
    )
    assert said.scheduled_cell_bytes == 128
    assert said.scheduled_request_ps == 200_000
    assert said.scheduled_voq_bytes == 10_000_000
    assert said.scheduled_credit_rate == pytest.approx(1.1)
    with pytest.raises(InputError, match="16 to 8192"):
        assign(preset.settings, ["scheduled_cell_bytes=7"])
    with pytest.raises(InputError, match="credit_rate"):
        go(leaf_spine(4, leaf_hosts=2, spines=1, rate_bps=G400), Traffic.of(4, 0, 3, 1), scheduled_credit_rate=-1.0)


# All-reduce in the switches, against closed forms.

STATIC = fabrics.get("infiniband-static").packets.constants
ADAPTIVE = fabrics.get("infiniband").packets.constants

LINK, AGGREGATION = 450_000, 150_000
PAYLOAD, SHARP_HEADER, PS_PER_BYTE = 4096, 26, 20


def on_wire(size):
    return size + SHARP_HEADER * -(-size // PAYLOAD)


def closed_form(size, chunk, depth):
    """Everything once over a host's link, the last chunk over every other edge up and down, the switches' own time."""
    last = on_wire(min(size, chunk))
    return on_wire(size) * PS_PER_BYTE + (2 * depth - 1) * last * PS_PER_BYTE + depth * (2 * LINK + AGGREGATION)


NETWORKS = {
    1: leaf_spine(8, leaf_hosts=8, spines=1, rate_bps=G400, latency_ps=LINK),
    2: leaf_spine(64, leaf_hosts=8, spines=8, rate_bps=G400, latency_ps=LINK),
    3: fat_tree(128, rate_bps=G400, latency_ps=LINK),
}


@pytest.mark.parametrize("depth", [1, 2, 3])
@pytest.mark.parametrize(
    ("size", "chunk", "tolerance"),
    [(8, 16_384, 0.01), (65_536, 4096, 0.015), (65_536, 65_536, 0.01), (2**20, 4096, 0.02), (2**20, 16_384, 0.03)],
)
def test_an_all_reduce_takes_its_bytes_once_and_the_depth_of_the_tree(depth, size, chunk, tolerance):
    network = NETWORKS[depth]
    made = sharp(network, np.arange(network.hosts), size, chunk_bytes=chunk)
    result = run(made.network, made.traffic, Settings(**STATIC))
    expected = closed_form(size, chunk, depth)
    assert result.ended.all()
    assert expected <= made.time_ps(result) <= expected * (1 + tolerance)


def test_its_bandwidth_is_that_of_an_interface_where_a_ring_has_half():
    network, size = NETWORKS[2], 8 * 2**20
    made = sharp(network, np.arange(0, 64, 8), size)
    result = run(made.network, made.traffic, Settings(**ADAPTIVE))
    algorithm_bps = size * 8e12 / made.time_ps(result)
    assert algorithm_bps == pytest.approx(G400 * PAYLOAD / (PAYLOAD + SHARP_HEADER), rel=0.02)
    ring_bps = G400 * 8 / (2 * 7)
    assert algorithm_bps > 1.7 * ring_bps


def test_every_link_of_the_tree_carries_everything_once_each_way():
    network, size = NETWORKS[2], 2**20
    made = sharp(network, np.arange(64), size)
    result = run(made.network, made.traffic, Settings(**STATIC))
    source, target = made.network.link_source, made.network.link_target
    up = result.table("links")["bytes"][source < 64]
    down = result.table("links")["bytes"][target < 64]
    for found in (up, down):
        assert (found >= on_wire(size)).all()
        assert (found < 1.02 * on_wire(size)).all()  # acknowledgements and credits beside it
    leaves = np.arange(64, 72) + len(made.tree.switches)
    above = result.table("links")["bytes"][np.isin(source, leaves) & (target >= leaves[0] + 8)]
    assert (np.sort(above)[-8:] >= on_wire(size)).all()
    assert (np.sort(above)[:-8] == 0).all()


def test_the_tree_leaves_out_switches_that_have_one_child():
    network = NETWORKS[3]
    # Two hosts of one edge switch, one of another pod: the aggregation switch of the first pod has one child.
    tree = tree_of(network, np.array([0, 1, 100]))
    assert len(tree.switches) == 2
    assert sorted(tree.depth) == [1, 2, 2]
    assert tree.children.tolist() == [2, 2]
    assert len(tree_of(network, np.array([0, 1])).switches) == 1
    assert tree_of(network, np.arange(128), root=1).switches[-1] != tree_of(network, np.arange(128)).switches[-1]


def test_slow_switches_cost_their_time_once_a_tier():
    network = NETWORKS[2]
    alone = sharp(network, np.arange(64), 2**20)
    once = alone.time_ps(run(alone.network, alone.traffic, Settings(**STATIC)))
    slow = sharp(network, np.arange(64), 2**20, aggregation_ps=2_000_000)
    later = slow.time_ps(run(slow.network, slow.traffic, Settings(**STATIC)))
    assert later == pytest.approx(once + 2 * (2_000_000 - AGGREGATION), rel=0.03)


@pytest.mark.parametrize(
    "wrong",
    [{"hosts": [1]}, {"hosts": [1, 1]}, {"hosts": [0, 99]}, {"size_bytes": 0}, {"chunk_bytes": 0}, {"window": 0}],
)
def test_what_it_refuses(wrong):
    given = {"hosts": [0, 1], "size_bytes": 1000, **wrong}
    with pytest.raises(InputError):
        sharp(NETWORKS[2], **given)
