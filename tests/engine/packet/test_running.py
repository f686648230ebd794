"""How a run behaves: the same for the same seed, dependencies, an early end, progress, bad input."""

import dataclasses

import numpy as np
import pytest

from railyard.cluster.routes import Routes
from railyard.engine.packet import (
    AT_RECEIVER,
    PacketNetwork,
    Settings,
    Traffic,
    crossbar,
    fat_tree,
    leaf_spine,
    run,
)
from railyard.kit.errors import InputError

G400 = 400 * 10**9


def permutation(hosts, size=500_000):
    return Traffic.of(hosts, np.arange(hosts), np.roll(np.arange(hosts), 5), size)


def test_the_seed_decides_everything():
    network = fat_tree(16, rate_bps=G400)
    digests = [run(network, permutation(16), Settings(seed=seed)).digest() for seed in (1, 1, 2)]
    assert digests[0] == digests[1] != digests[2]


def test_far_flows_change_nothing():
    network = leaf_spine(16, leaf_hosts=4, spines=4, rate_bps=G400)
    alone = run(network, Traffic.of(16, [0, 1], [1, 2], 300_000), Settings())
    beside = run(network, Traffic.of(16, [0, 1, 12], [1, 2, 13], 300_000), Settings())
    assert (alone.end_ps == beside.end_ps[:2]).all()


def test_flows_wait_for_their_dependencies():
    traffic = Traffic.of(4, [0, 1, 2], [1, 2, 3], 100_000, start_ps=[0, 0, -1])
    traffic = traffic.after([2, 2], [0, 1], delay_ps=[0, 0, 5_000])
    found = run(crossbar(4, rate_bps=G400), traffic, Settings())
    assert found.start_ps[2] == found.end_ps[:2].max() + 5_000


def test_one_of_two_dependencies_may_suffice():
    traffic = Traffic.of(4, [0, 1, 2], [1, 2, 3], [100_000, 900_000, 100_000])
    found = run(crossbar(4, rate_bps=G400), traffic.after([2, 2], [0, 1], need=[0, 0, 1]), Settings())
    assert found.start_ps[2] == found.end_ps[0] < found.end_ps[1]


def test_a_dependency_may_end_at_the_receiver():
    traffic = Traffic.of(4, [0, 1], [1, 2], 100_000).after([1], [0], at=AT_RECEIVER)
    found = run(crossbar(4, rate_bps=G400), traffic, Settings())
    assert found.start_ps[1] == found.column("receiver_finish_ps")[0] < found.end_ps[0]


def test_local_work_takes_its_time_and_no_bandwidth():
    traffic = Traffic.of(4, [0, 0], [1, 0], [100_000, 0]).after([1], [0], delay_ps=[0, 3_000_000])
    found = run(crossbar(4, rate_bps=G400), traffic, Settings())
    assert found.start_ps[1] == found.end_ps[0]
    assert found.duration_ps[1] == 3_000_000


def test_an_early_end_leaves_flows_unfinished():
    found = run(fat_tree(16, rate_bps=G400), permutation(16, 2_000_000), Settings(end_ps=20_000_000))
    assert not found.ended.any()
    assert (found.duration_ps == -1).all()
    assert found.meta["now_ps"] < 20_000_000


def test_progress_is_told_and_may_end_the_run():
    class Enough(Exception):
        pass

    told = []

    def progress(events, now_ps):
        told.append((events, now_ps))
        raise Enough

    with pytest.raises(Enough):
        run(fat_tree(128, rate_bps=G400), permutation(128, 50_000_000), Settings(), progress=progress)
    assert told[0][0] > 0
    assert told[0][1] > 0


def broken(**changes):
    plain = crossbar(4, rate_bps=G400)
    routes = dataclasses.replace(plain.routes, **{k: v for k, v in changes.items() if hasattr(plain.routes, k)})
    fields = {k: v for k, v in changes.items() if not hasattr(plain.routes, k)}
    return dataclasses.replace(plain, routes=routes, **fields)


@pytest.mark.parametrize(
    "changed",
    [
        {"paths": 48},
        {"mtu_bytes": 64},
        {"mtu_bytes": 1 << 17},
        {"failed_links": (99,)},
        {"failed_fraction": 0.0},
        {"ecn_low_packets": 9, "ecn_high_packets": 3},
        {"pull_rate": 0.0},
        {"oversubscription": 0.5},
    ],
)
def test_settings_out_of_range_are_refused(changed):
    with pytest.raises(InputError):
        run(crossbar(4, rate_bps=G400), Traffic.of(4, 0, 3, 1000), Settings(**changed))


def test_a_loop_of_routes_is_refused():
    # Two switches that send everything to each other.
    loop = PacketNetwork(
        hosts=2,
        nodes=4,
        link_source=np.array([0, 1, 2, 3], np.int32),
        link_target=np.array([2, 3, 3, 2], np.int32),
        rate_bps=np.full(4, G400, np.int64),
        latency_ps=np.full(4, 1000, np.int64),
        routes=Routes(
            np.arange(5, dtype=np.int64), np.zeros(4, np.int32), np.full(4, 2, np.int32), np.arange(4, dtype=np.int64),
            np.ones(4, np.int32), np.full(4, 2, np.int32), np.arange(4, dtype=np.int32),
        ),
    )  # fmt: skip
    with pytest.raises(InputError, match="no path"):
        run(loop, Traffic.of(2, 0, 1, 1000), Settings())


def test_a_window_never_closes_for_good():
    """Round trips of small packets on short links are shorter than a packet takes; losses then cut windows to that."""
    pairs = [(0, 1)] * 15 + [(1, 0)] * 6 + [(3, 0), (0, 4), (5, 0), (3, 0), (5, 1), (3, 0)]
    source, target = np.array(pairs).T
    size = [1] * 21 + [767, 3189, 4086, 9770, 4053, 130_881]
    network = leaf_spine(16, leaf_hosts=4, spines=3, rate_bps=G400, latency_ps=1)
    for seed in range(8):
        chosen = Settings(trim=False, queue_packets=2, seed=seed, end_ps=10**10)
        assert run(network, Traffic.of(16, source, target, size), chosen).ended.all()
