"""Messages of one connection: they share paths and what the sender has learnt of them."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from railyard.cluster.fabric.uec import PACKETS as UEC
from railyard.engine.packet import Settings, Traffic, leaf_spine, run

RATE_BPS = 400 * 10**9
PAIRS, MESSAGES, SIZE = 8, 6, 400_000


def messages(connection):
    """Eight hosts send six messages each, one after another, to another leaf."""
    source = np.tile(np.arange(PAIRS), MESSAGES)
    flows = len(source)
    chained = Traffic.of(2 * PAIRS, source, source + PAIRS, SIZE)
    waits = (np.arange(flows) >= PAIRS).astype(np.int64)
    return replace(
        chained,
        start_ps=np.where(waits, -1, 0),
        dep_ptr=np.concatenate([[0], np.cumsum(waits)]),
        dep_idx=np.arange(flows - PAIRS, dtype=np.int32),
        dep_at=np.ones(flows - PAIRS, np.uint8),
        need=waits.astype(np.int32),
        connection=connection,
    )


def slow_spine():
    """One of eight spines takes a quarter of what the others take from the first leaf."""
    network = leaf_spine(2 * PAIRS, leaf_hosts=PAIRS, spines=8, rate_bps=RATE_BPS)
    rate = network.rate_bps.copy()
    rate[np.flatnonzero((network.link_source == 2 * PAIRS) & (network.link_target >= 2 * PAIRS + 2))[0]] //= 4
    return replace(network, rate_bps=rate)


@pytest.mark.parametrize(("balancing", "share"), [("mixed", 0.9), ("reps", 0.97)])
def test_later_messages_avoid_the_slow_link_that_the_first_has_met(balancing, share):
    settings = Settings(**UEC.constants | {"load_balancing": balancing})
    own = run(slow_spine(), messages(None), settings)
    shared = run(slow_spine(), messages(np.tile(np.arange(PAIRS, dtype=np.uint32), MESSAGES)), settings)
    first, later = slice(0, PAIRS), slice(PAIRS, None)
    assert shared.duration_ps[first].mean() == pytest.approx(own.duration_ps[first].mean(), rel=0.1)
    assert shared.duration_ps[later].mean() < share * own.duration_ps[later].mean()


def test_an_entropy_leads_every_message_of_a_connection_over_the_same_links():
    """With one entropy for all packets, six messages load one uplink, six connections several."""
    network, settings = slow_spine(), Settings(load_balancing="ecmp")
    uplinks = (network.link_source == 2 * PAIRS) & (network.link_target >= 2 * PAIRS + 2)
    used = []
    for connection in (np.zeros(MESSAGES, np.uint32), np.arange(MESSAGES, dtype=np.uint32)):
        traffic = replace(Traffic.of(2 * PAIRS, np.zeros(MESSAGES), 9, SIZE), connection=connection)
        used.append(int((run(network, traffic, settings).table("links")["bytes"][uplinks] > SIZE / 2).sum()))
    assert used[0] == 1 < used[1]


def trimmed(sizes, connection):
    """Packets trimmed of messages that two hosts of one leaf each begin at once, to one host of another."""
    source = np.repeat([0, 1], len(sizes))
    traffic = Traffic.of(2 * PAIRS, source, PAIRS, np.tile(sizes, 2))
    settings = Settings(**UEC.constants)
    record = run(slow_spine(), replace(traffic, connection=connection), settings)
    assert record.ended.all()
    return record.meta["packets"]["trimmed"]


def test_messages_of_a_connection_share_one_window():
    """Eight at once lose about what one message of their bytes loses; eight windows lose twice as much."""
    one = trimmed([8 * SIZE], None)
    assert trimmed([SIZE] * 8, np.repeat([0, 1], 8).astype(np.uint32)) == pytest.approx(one, rel=0.25)
    assert trimmed([SIZE] * 8, None) > 1.6 * one


def alone(connection):
    """Eight messages of twelve full packets that one host sends at once to its neighbour."""
    network = leaf_spine(2, leaf_hosts=2, spines=1, rate_bps=RATE_BPS)
    settings = Settings(**UEC.constants)
    size = 12 * (settings.mtu_bytes - settings.header_bytes)
    return run(network, replace(Traffic.of(2, np.zeros(8), 1, size), connection=connection), settings)


def test_messages_of_a_connection_go_out_one_after_another():
    """12 packets of 4,218 bytes take 1.012 us at 400 Gbit/s; eight connections take turns and end together."""
    message_ps = 12 * 4218 * 8 * 10**12 // RATE_BPS
    received = np.sort(alone(np.zeros(8, np.uint32)).column("receiver_finish_ps"))
    assert np.diff(received) == pytest.approx(message_ps, rel=0.01)
    apart = np.sort(alone(None).column("receiver_finish_ps"))
    assert apart[-1] == pytest.approx(received[-1], rel=0.01)
    assert apart[-1] - apart[0] < 1.5 * message_ps


def test_messages_of_a_connection_are_acknowledged_together():
    """One for the first packet, one for each four more (16,384 bytes), one for the last of a message: 1 + 3 + 7 x 3."""
    assert alone(np.zeros(8, np.uint32)).meta["packets"]["acks"] == pytest.approx(25, abs=1)
    assert alone(None).meta["packets"]["acks"] == pytest.approx(8 * 4, abs=1)


@pytest.mark.parametrize("control", ["nscc", "rccc", "nscc+rccc", "constant"])
def test_a_connection_that_was_idle_sends_again(control):
    """Six messages, each begun when the one before has arrived, take six times as long as one, and no timeout."""
    network, settings = leaf_spine(16, leaf_hosts=8, spines=8, rate_bps=RATE_BPS), Settings(**UEC.constants)
    traffic = messages(np.tile(np.arange(PAIRS, dtype=np.uint32), MESSAGES))
    record = run(network, traffic, replace(settings, congestion_control=control))
    assert record.meta["packets"]["timeouts"] == 0
    received = record.column("receiver_finish_ps").reshape(MESSAGES, PAIRS)
    assert received[-1] == pytest.approx(MESSAGES * received[0], rel=0.1)
