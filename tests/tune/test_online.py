"""The climb during a run: what stays, what is undone, and a mix of traffic that it shortens."""

from __future__ import annotations

import numpy as np
import pytest

from railyard.engine.packet import Period, Retuning, Settings, Traffic, leaf_spine, run
from railyard.fabric import fabrics
from railyard.tune.online.climb import ROCE, Climb

US = 1_000_000


def periods(climb, delivered, **lost):
    """Feeds so many bytes a period of 1 us; the place on the ladder after each."""
    found = []
    for at, each in enumerate(delivered):
        counts = dict.fromkeys(("paused_ps", "sent", "retransmitted", "dropped", "marked", "pauses", "cnps"), 0)
        climb(Period(end_ps=(at + 1) * US, length_ps=US, delivered_bytes=each, **{**counts, **lost}))
        found.append(climb.at)
    return found


def test_a_better_step_stays_and_the_next_is_tried_at_once():
    places = periods(Climb(span=3), [100] * 3 + [90] + [104] * 4 + [104] * 4)
    assert places[:3] == [0, 0, 1]
    assert max(places) == 2


def test_a_step_that_is_no_better_is_undone_and_waits_longer_each_time():
    climb = Climb(span=3)
    places = periods(climb, [100] * 60)
    tried = [end // US for end, _, why in climb.steps if why == "tried"]
    assert set(places) == {0, 1}
    assert np.diff(tried).tolist() == sorted(np.diff(tried).tolist())
    assert tried[2] - tried[1] > tried[1] - tried[0]


@pytest.mark.parametrize(
    ("after", "lost", "why"), [([100, 60], {}, "far worse"), ([100], {"dropped": 1}, "lost packets")]
)
def test_what_is_unsafe_is_undone_in_the_same_period(after, lost, why):
    climb = Climb(span=3)
    periods(climb, [100] * 3)
    assert climb.at == 1
    periods(climb, after, **lost)
    assert climb.at == 0
    assert climb.steps[-1][2] == why


def test_on_packets_a_changing_mix_ends_sooner_and_the_ladder_begins_with_the_fabrics_own():
    constants = fabrics.get("roce").packets.constants
    assert all(constants[name] == value for name, value in ROCE[0].items())
    hosts, rounds, here = 16, 6, np.arange(16)
    shift = np.repeat([5, 7, 9, 4, 11, 6], hosts)
    source = np.tile(here, rounds)
    mix = Traffic.of(hosts, source, (source + shift) % hosts, np.where(np.arange(96) < 48, 8_000_000, 2_000_000))
    later, before = np.arange(hosts, 96), np.arange(0, 96 - hosts)
    mix = mix.after(later, before, at=1)
    network = leaf_spine(hosts, leaf_hosts=4, spines=2, rate_bps=int(400e9))
    ends = []
    for retuning in (None, Retuning(10 * US, Climb())):
        record = run(network, mix, Settings(**constants, seed=3), retuning=retuning)
        ends.append(int(record.end_ps.max()))
    assert ends[1] < 0.9 * ends[0]
