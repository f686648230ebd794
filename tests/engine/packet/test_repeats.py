"""What repeats itself is not simulated again, and nothing can tell: traffic with and without."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from railyard.engine.packet import AT_RECEIVER, Settings, Traffic, crossbar, fat_tree, leaf_spine, run

G400 = 400 * 10**9
ROUND_PS = 50_000_000

KINDS = {
    "uec": {},
    "uec, no trimming": {"trim": False},
    "uec, one path": {"load_balancing": "ecmp"},
    "uec, credit": {"congestion_control": "rccc"},
    "ideal": {"congestion_control": "constant", "window_packets": 512, "queue_packets": 4000},
    "roce": {"transport": "rdma", "switching": "pfc", "rdma_control": "dcqcn"},
    "infiniband": {"transport": "rdma", "switching": "credit"},
    "scheduled": {"transport": "rdma", "switching": "scheduled"},
}

NETWORKS = {
    "crossbar": lambda: crossbar(12, rate_bps=G400),
    "leaf-spine": lambda: leaf_spine(12, leaf_hosts=4, spines=2, rate_bps=G400),
    "fat tree": lambda: fat_tree(16, rate_bps=G400),
}


def same(network, traffic, chosen, sample_ps=3_000_000):
    """What the run with repeats counts of them; both runs must agree in everything else."""
    chosen = replace(chosen, sample_ps=sample_ps, sample_links=tuple(range(network.links)))
    found = run(network, traffic, chosen)
    whole = run(network, traffic, chosen, repeats=False)
    for column in ("start_ps", "end_ps"):
        np.testing.assert_array_equal(getattr(found, column), getattr(whole, column))
    np.testing.assert_array_equal(found.column("receiver_finish_ps"), whole.column("receiver_finish_ps"))
    assert found.meta["packets"] == whole.meta["packets"]
    assert found.digest() == whole.digest()
    for table in whole.tables:
        for name, values in whole.table(table).items():
            np.testing.assert_array_equal(found.table(table)[name], values, err_msg=name)
    assert found.meta["repeats"]["worst_ps"] == 0
    assert whole.meta["repeats"]["episodes"] == 0
    return found.meta["repeats"] | {"share": found.meta["repeats"]["hops"] / found.meta["packets"]["hops"]}


@st.composite
def traffics(draw, hosts):
    """Patterns, again and again, at other places too; some meet others at odd moments."""

    def many(one, least, most):
        return draw(st.lists(one, min_size=least, max_size=most))

    ends = st.tuples(st.integers(0, hosts - 1), st.integers(1, hosts - 1))
    patterns = many(st.lists(ends, min_size=1, max_size=4), 1, 3)
    sizes = many(st.sampled_from([1, 4086, 20_000, 150_000, 700_000]), 3, 3)
    later = st.sampled_from([0, 1, 777_777, 5_000_000, 60_000_000])
    rounds = many(st.tuples(st.integers(0, len(patterns) - 1), st.integers(0, hosts - 1), later), 4, 30)
    start = np.cumsum([later for *_, later in rounds])
    rows = [
        ((first + shift) % hosts, (first + shift + away) % hosts, sizes[pattern], start[at])
        for at, (pattern, shift, _) in enumerate(rounds)
        for first, away in patterns[pattern]
    ]
    source, target, size, start = np.array(rows).T
    traffic = Traffic.of(hosts, source, target, size, start_ps=start)
    if draw(st.booleans()):
        pairs = np.unique(source * hosts + target, return_inverse=True)[1]
        traffic = replace(traffic, connection=pairs.astype(np.uint32))
    if draw(st.booleans()):
        traffic = replace(traffic, nic_share=np.full(len(size), draw(st.sampled_from([0.3, 0.97, 1.0]))))
    waits = many(st.tuples(st.integers(1, len(size) - 1), st.integers(0, len(size) - 2)), 0, 8)
    waits = sorted({(after, min(before, after - 1)) for after, before in waits})
    if not waits:
        return traffic
    after, before = np.array(waits).T
    at, delay_ps = draw(st.sampled_from([0, AT_RECEIVER])), draw(st.sampled_from([0, 1_000_000]))
    return traffic.after(after, before, at=at, delay_ps=np.full(len(size), delay_ps))


@pytest.mark.parametrize("kind", KINDS)
@settings(max_examples=40, deadline=None)
@given(data=st.data())
def test_nothing_differs(kind, data):
    network = NETWORKS[data.draw(st.sampled_from(sorted(NETWORKS)))]()
    same(network, data.draw(traffics(network.hosts)), Settings(seed=data.draw(st.integers(0, 3)), **KINDS[kind]))


def rings(hosts, rounds, *, size=400_000, first=(0,)):
    """Rounds in which everybody in a ring sends to the next; rings that begin at several hosts."""
    ring = np.concatenate([np.arange(hosts) + begin for begin in first])
    ahead = np.concatenate([np.roll(np.arange(hosts), -1) + begin for begin in first])
    start = np.repeat(np.arange(rounds) * ROUND_PS, len(ring))
    traffic = Traffic.of(16, np.tile(ring, rounds), np.tile(ahead, rounds), size, start_ps=start)
    return replace(traffic, connection=np.tile(np.arange(len(ring)), rounds).astype(np.uint32))


def joined(traffic, source, target, size, start_ps):
    """The traffic with more flows, each a connection of its own."""
    more = Traffic.of(traffic.hosts, source, target, size, start_ps=start_ps)
    columns = {
        name: np.concatenate([getattr(traffic, name), getattr(more, name)])
        for name in ("source", "target", "size_bytes", "start_ps", "delay_ps", "need", "klass")
    }
    own = traffic.connection.max() + 1 + np.arange(len(more), dtype=np.uint32)
    ptr = np.zeros(len(traffic) + len(more) + 1, np.int64)
    return replace(traffic, **columns, dep_ptr=ptr, connection=np.concatenate([traffic.connection, own]))


def test_equal_rounds_are_simulated_once():
    found = same(crossbar(16, rate_bps=G400), rings(8, 600), Settings(), sample_ps=None)
    assert found["episodes"] == 600
    assert found["repeated"] > 500
    assert found["checked"] > 0
    assert found["share"] > 0.9


def test_equal_rings_elsewhere_need_no_packets():
    found = same(crossbar(16, rate_bps=G400), rings(8, 1, first=(0, 8)), Settings())
    assert (found["episodes"], found["repeated"]) == (2, 1)
    assert found["share"] == 0.5


def test_who_meets_a_repeat_finds_its_packets():
    traffic = rings(8, 160)
    late = 159 * ROUND_PS + np.array([1, 3_777_777])
    found = same(crossbar(16, rate_bps=G400), joined(traffic, [9, 3], [2, 10], 250_000, late), Settings())
    assert found["replayed"] > 0
    assert found["share"] > 0.3


def test_repeats_that_a_flow_joins_are_one_from_then_on():
    traffic = rings(4, 160, first=(0, 4))
    odd = np.arange(80, 160) * ROUND_PS + 2_345_678
    found = same(crossbar(16, rate_bps=G400), joined(traffic, [2] * 80, [6] * 80, 90_000, odd), Settings())
    assert found["replayed"] > 20
    assert found["repeated"] > 100


def test_after_repeats_congestion_finds_connections_as_they_would_be():
    count = 400
    number = np.concatenate([np.arange(count) % 8, np.tile(np.arange(8), 3)])
    start = np.concatenate([np.arange(count), np.full(24, count)]) * ROUND_PS  # one by one, then all at once
    traffic = Traffic.of(16, number, number + 8, 300_000, start_ps=start)
    traffic = replace(traffic, connection=number.astype(np.uint32))
    one_way = leaf_spine(16, leaf_hosts=8, spines=1, rate_bps=G400)
    found = same(one_way, traffic, Settings())
    assert found["repeated"] > 200
    assert run(one_way, traffic, Settings()).meta["packets"]["marked"] > 0


def test_what_chance_decides_is_simulated():
    source = np.tile(np.arange(1, 9), 20)
    start = np.repeat(np.arange(20) * 4 * ROUND_PS, 8)
    incast = Traffic.of(16, source, 0, 400_000, start_ps=start)
    found = same(crossbar(16, rate_bps=G400), incast, Settings())
    assert found["episodes"] == 20
    assert found["repeated"] == 0


@pytest.mark.parametrize("hosts", [(2, 3, 0), (0, 1, 3)])
def test_work_that_an_end_sets_free_begins_where_a_copy_becomes_packets(hosts):
    """Two copies of an incast: trimmed packets make the second one packets, whose ends then set free work of its own.

    That work was sent as a flow of the episode, from a host to itself, and never ended.
    """
    first, second, target = hosts
    source = np.array([first, first + 4, first, first + 4, second, second + 4, second, second + 4])
    target = np.tile([target, target + 4], 4)
    count, nothing = len(source), np.zeros(len(source), np.int64)
    traffic = Traffic.of(
        8,
        np.concatenate([source, target]),
        np.concatenate([target, target]),
        np.concatenate([nothing + 150_000, nothing]),
    ).after(np.arange(count, 2 * count), np.arange(count), at=AT_RECEIVER)
    assert same(crossbar(8, rate_bps=G400), traffic, Settings(), sample_ps=None)["episodes"] > 1


def test_many_paths_are_simulated():
    found = same(leaf_spine(16, leaf_hosts=4, spines=4, rate_bps=G400), rings(16, 20), Settings())
    assert found["repeated"] == 0


def test_a_run_in_which_little_repeats_stops_looking():
    rng = np.random.default_rng(1)
    start = np.arange(3000) * 4_500_000
    size = rng.integers(1, 20_000, 3000)
    traffic = Traffic.of(16, np.tile([0, 2, 4], 1000), np.tile([1, 3, 5], 1000), size, start_ps=start)
    found = same(crossbar(16, rate_bps=G400), traffic, Settings(), sample_ps=None)
    assert 2048 < found["episodes"] < 2100
