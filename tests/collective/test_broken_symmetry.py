"""Networks that a few links keep from being symmetric: what they were, and schedules that are repaired."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from tests.collective.test_symmetry import clos, rails, torus

from railyard.collective.synthesis.collectives import collectives, whole_faults
from railyard.collective.synthesis.repaired import Broken
from railyard.collective.synthesis.schedule import faults
from railyard.collective.synthesis.symmetry import mended


def slowed(network, link, share=0.5):
    rate = network.bytes_per_us.copy()
    rate[link] *= share
    return replace(network, bytes_per_us=rate)


def without(network, *links):
    left = np.setdiff1d(np.arange(len(network.source)), links)
    columns = {name: getattr(network, name)[left] for name in ("source", "target", "bytes_per_us", "latency_us")}
    return replace(network, **columns)


def uplink(network):
    """Of a leaf."""
    return int(np.flatnonzero(network.switch[network.source] & network.switch[network.target])[5])


def ends(network, links):
    return [(int(network.source[link]), int(network.target[link])) for link in links]


@pytest.mark.parametrize("network", [rails(6, 4), torus(5, 4), clos(4, 6, 6)])
def test_what_was_is_found_by_what_its_like_are(network):
    """A link at half its rate, one lost, a cable lost in both directions."""
    link = network.out[7][-1]
    found = mended(slowed(network, link))
    assert found.odd.tolist() == [link]
    assert (found.network.bytes_per_us == network.bytes_per_us).all()
    back = int(np.flatnonzero((network.source == network.target[link]) & (network.target == 7))[0])
    for lost in ([link], [link, back]):
        found = mended(without(network, *lost))
        assert sorted(ends(found.network, found.odd)) == sorted(ends(network, lost))
        rates = zip(found.network.bytes_per_us[found.odd], network.bytes_per_us[lost], strict=True)
        assert all(one == other for one, other in rates)


def test_what_is_as_it_was_needs_no_mending_and_a_faster_link_is_none():
    assert mended(rails(6, 4)) is None
    network = torus(5, 4)
    assert mended(slowed(network, 3, share=2.0)) is None


@pytest.mark.parametrize("collective", list(collectives))
@pytest.mark.parametrize("kind", ["slow", "lost"])
@pytest.mark.parametrize("network", [rails(6, 4), torus(4, 3), clos(4, 4, 4)])
def test_repaired_schedules_are_sound(network, kind, collective):
    """By the check that looks at some pieces together, and by the one that follows every send."""
    link = uplink(network) if kind == "lost" and network.switch.sum() == 8 else network.out[3][-1]
    left = slowed(network, link) if kind == "slow" else without(network, link)
    broken = Broken.of(left)
    schedule = broken.schedule(collective, 8e6, 2)
    assert whole_faults(left, schedule, collective) == []
    assert faults(left, schedule, collective) == []
    assert schedule.finish_us >= broken.bound_us(collective, 8e6) * (1 - 1e-9)
    late = replace(schedule, start_us=schedule.start_us * 0.9, arrive_us=schedule.arrive_us * 0.9)
    assert whole_faults(left, late, collective)
    more = replace(schedule, sends=replace(schedule.sends, pieces=2 * schedule.sends.pieces))
    assert whole_faults(left, more, collective)


def test_a_slow_nic_moves_the_bound_and_is_left_what_it_can_carry():
    """Into a domain of 4 NICs of 50 GB/s, one at half its rate: 5/6 of 24 MB over 175 GB/s after 5.5 us, 119.8 us.

    A slow NIC keeps some pieces: with half its rate more than none and fewer than before.
    """
    network = rails(6, 4)
    link = int(np.flatnonzero((network.target == 3) & (network.bytes_per_us == 50e3))[0])
    broken = Broken.of(slowed(network, link))
    assert broken.bound_us("all-gather", 24e6) == pytest.approx(5 / 6 * 24e6 / 175e3 + 5.5)
    before, after = (
        np.bincount(one.schedule("all-gather", 24e6, 4).sends.link)[link]
        for one in (Broken.of(slowed(network, network.out[9][-1])), broken)
    )
    assert 0.3 * before < after < 0.8 * before
    schedule = broken.schedule("all-gather", 24e6, 8)
    assert schedule.finish_us < 1.2 * broken.bound_us("all-gather", 24e6)
