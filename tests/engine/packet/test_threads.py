"""On several threads comes out what comes out on one, to the bit."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from railyard.engine.packet import AT_RECEIVER, Settings, Traffic, fat_tree, leaf_spine, run
from railyard.engine.packet.faults import both_ways, down, errors

G400 = 400 * 10**9
US = 1_000_000


def permutation(hosts, size=300_000):
    return Traffic.of(hosts, np.arange(hosts), np.roll(np.arange(hosts), hosts // 2 + 3), size)


@pytest.mark.parametrize("control", ["nscc", "rccc", "nscc+rccc", "constant"])
@pytest.mark.parametrize("balance", ["mixed", "reps", "bitmap", "spray", "adaptive", "ecmp", "flowlet"])
def test_every_mechanism(control, balance):
    network, traffic = fat_tree(128, rate_bps=G400), permutation(128)
    chosen = Settings(congestion_control=control, load_balancing=balance, queue_packets=5)
    whole = run(network, traffic, chosen)
    for threads in (2, 3):
        parts = run(network, traffic, chosen, threads=threads)
        assert parts.meta["threads"] == threads
        assert parts.digest() == whole.digest()


@pytest.mark.parametrize("control", ["line-rate", "dcqcn"])
@pytest.mark.parametrize("placed", [False, True])
def test_rdma(control, placed):
    network, traffic = fat_tree(128, rate_bps=G400), permutation(128)
    chosen = Settings(
        transport="rdma", rdma_control=control, load_balancing="ecmp", trim=False, rdma_out_of_order=placed
    )
    whole, parts = run(network, traffic, chosen), run(network, traffic, chosen, threads=2)
    assert parts.meta["threads"] == 2
    assert parts.digest() == whole.digest()


@pytest.mark.parametrize("link_retry", [False, True])
@pytest.mark.parametrize("balance", ["spray", "ecmp", "adaptive"])
def test_routes_that_change_while_packets_are_under_way(balance, link_retry):
    network, traffic = leaf_spine(16, leaf_hosts=8, spines=4, rate_bps=G400), permutation(16)
    wrong = tuple(errors(range(network.links), 0, 1e-5 if link_retry else 0.0))
    for at_ps in range(4 * US, 6 * US, US // 5):
        flap = tuple(down(both_ways(network, 16, 18), at_ps, at_ps + 2 * US))
        chosen = Settings(faults=wrong + flap, reroute_ps=US // 3, load_balancing=balance, link_retry=link_retry)
        assert run(network, traffic, chosen).digest() == run(network, traffic, chosen, threads=2).digest()


@settings(max_examples=25, deadline=None)
@given(st.data())
def test_any_traffic(data):
    hosts = 16
    count = data.draw(st.integers(1, 40))
    index = st.integers(0, hosts - 1)
    pairs = data.draw(st.lists(st.tuples(index, index).filter(lambda p: p[0] != p[1]), min_size=count, max_size=count))
    size = data.draw(st.lists(st.integers(1, 400_000), min_size=count, max_size=count))
    start = data.draw(st.lists(st.integers(0, 20 * US), min_size=count, max_size=count))
    source, target = np.array(pairs).T
    traffic = Traffic.of(hosts, source, target, size, start_ps=start)
    network = leaf_spine(hosts, leaf_hosts=4, spines=3, rate_bps=G400, latency_ps=data.draw(st.integers(1, 2 * US)))
    chosen = Settings(
        congestion_control=data.draw(st.sampled_from(["nscc", "rccc"])),
        load_balancing=data.draw(st.sampled_from(["mixed", "adaptive"])),
        trim=data.draw(st.booleans()),
        queue_packets=data.draw(st.integers(2, 60)),
        seed=data.draw(st.integers(0, 2**32)),
    )
    assert run(network, traffic, chosen).digest() == run(network, traffic, chosen, threads=4).digest()


def test_faults_errors_and_samples():
    network, traffic = fat_tree(128, rate_bps=G400), permutation(128)
    top = network.link_target.max()
    dead = down(both_ways(network, int(network.link_source[network.link_target == top][0]), int(top)), 5 * US, 40 * US)
    wrong = errors(range(network.links), 0, 1e-8)
    chosen = Settings(faults=(*dead, *wrong), reroute_ps=2 * US, sample_ps=US, sample_links=tuple(range(network.links)))
    whole, parts = run(network, traffic, chosen), run(network, traffic, chosen, threads=2)
    assert whole.meta["packets"]["lost"] > 0
    assert parts.digest() == whole.digest()
    for name, column in whole.table("queue_series").items():
        assert (column == parts.table("queue_series")[name]).all(), name


def test_chains_within_a_host_run_side_by_side():
    network = fat_tree(128, rate_bps=G400)
    hosts = np.arange(128)
    ring = np.concatenate([hosts, hosts])
    traffic = Traffic.of(128, ring, (ring + 1) % 128, 200_000)
    traffic = traffic.after(128 + hosts, (hosts - 1) % 128, at=AT_RECEIVER)  # passes on what it has received
    whole, parts = run(network, traffic, Settings()), run(network, traffic, Settings(), threads=2)
    assert parts.meta["threads"] == 2
    assert parts.digest() == whole.digest()


def test_what_waits_for_the_other_end_of_the_network_runs_on_one():
    traffic = permutation(128).after([5], [90])
    whole, parts = (run(fat_tree(128, rate_bps=G400), traffic, Settings(), threads=n) for n in (1, 2))
    assert parts.meta["threads"] == 1
    assert parts.digest() == whole.digest()


def test_an_early_end_is_the_same():
    network, traffic = fat_tree(128, rate_bps=G400), permutation(128, 2_000_000)
    whole, parts = (run(network, traffic, Settings(end_ps=20 * US), threads=n) for n in (1, 2))
    assert parts.meta["threads"] == 2
    assert not whole.ended.any()
    assert whole.digest() == parts.digest()
