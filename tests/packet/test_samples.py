"""Samples of queues and flows against what must hold of them."""

import numpy as np

from railyard.engine.packet import Settings, Traffic, crossbar, run

G400 = 400 * 10**9
US = 1_000_000


def test_an_incast_fills_one_queue_and_no_other():
    network = crossbar(8, rate_bps=G400)
    traffic = Traffic.of(8, np.arange(1, 8), 0, 1_000_000)
    settings = Settings(sample_ps=US, sample_links=tuple(range(network.links)), sample_flows=(0, 3))
    found = run(network, traffic, settings)
    seen = {**found.table("flow_series"), **found.table("queue_series")}
    assert (np.diff(seen["time_ps"]) == US).all()
    assert seen["time_ps"][0] == 0
    busy = np.flatnonzero(network.link_target == 0)[0]
    switch = network.link_source >= 8
    others = switch & (np.arange(network.links) != busy)
    assert seen["depth_bytes"][:, busy].max() > 10 * 4150
    assert seen["depth_bytes"][:, others].max() <= 4150
    assert (np.diff(seen["carried_bytes"], axis=0) >= 0).all()
    # A link carries no more in a sampling time than its rate allows, but for the packet that has just begun.
    assert np.diff(seen["carried_bytes"], axis=0).max() <= G400 / 8 * 1e-6 + 4150
    assert seen["marks"][-1, busy] > 0
    assert (seen["window_bytes"][2:] > 0).all()
    assert seen["window_bytes"][-1].max() < seen["window_bytes"][1].max()  # the incast has cut the windows


def test_sampling_changes_nothing():
    network = crossbar(8, rate_bps=G400)
    traffic = Traffic.of(8, np.arange(1, 8), 0, 1_000_000)
    plain = run(network, traffic, Settings())
    seen = run(network, traffic, Settings(sample_ps=US, sample_links=tuple(range(network.links))))
    assert plain.digest() == seen.digest()
