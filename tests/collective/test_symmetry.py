"""Networks that are the same under turns of their ranks, and schedules that stand for all of their images."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from railyard.collective.synthesis.bound import exchanges_us, gathers_us, lower_bound_us, sums_us
from railyard.collective.synthesis.collectives import Ask, collectives, image_faults, whole
from railyard.collective.synthesis.network import build
from railyard.collective.synthesis.schedule import faults
from railyard.collective.synthesis.search import synthesize
from railyard.collective.synthesis.symmetry import followed, symmetry_of
from railyard.kit.errors import InputError


def torus(*dims, slow=1.0):
    """Ranks of a torus, the first axis fastest; the first link has a share of its rate."""
    links, stride, ranks = [], 1, int(np.prod(dims))
    for size in dims:
        for rank in range(ranks):
            at = rank // stride % size
            links += [(rank, rank + ((at + step) % size - at) * stride, 100.0, 1.0) for step in (1, -1)]
        stride *= size
    links[0] = (*links[0][:2], 100.0 * slow, 1.0)
    return build(links, [])


def clos(leaves, hosts, spines):
    """Hosts under leaves, leaves under spines, by packets."""
    ranks, links = leaves * hosts, []
    for rank in range(ranks):
        leaf = ranks + rank // hosts
        links += [(rank, leaf, 50.0, 5.0), (leaf, rank, 50.0, 0.5)]
    for leaf in range(ranks, ranks + leaves):
        for spine in range(ranks + leaves, ranks + leaves + spines):
            links += [(leaf, spine, 50.0, 0.5), (spine, leaf, 50.0, 0.5)]
    return replace(build(links, list(range(ranks, ranks + leaves + spines))), packets=True)


def rails(domains, width):
    """Domains of ranks with 450 GB/s each, whose NICs of 50 GB/s have a leaf for each rail; by packets."""
    ranks, links = domains * width, []
    for rank in range(ranks):
        domain, leaf = ranks + rank // width, ranks + domains + rank % width
        links += [(rank, domain, 450.0, 0.5), (domain, rank, 450.0, 0.0)]
        links += [(rank, leaf, 50.0, 5.0), (leaf, rank, 50.0, 0.5)]
    return replace(build(links, list(range(ranks, ranks + domains + width))), packets=True)


@pytest.mark.parametrize(
    ("network", "elements", "orbits", "together"),
    [(torus(6, 4), 24, 4, [1]), (clos(4, 6, 6), 24, 4, [1]), (clos(4, 6, 3), 24, 4, [1, 2])],
)
def test_symmetries_by_hand(network, elements, orbits, together):
    """A torus turns along each axis: an orbit a direction. Under 6 spines the uplinks of 6 hosts are all different;
    under 3 two hosts share each.
    """
    found = symmetry_of(network)
    assert (len(found), len(found.first), found.roots) == (elements, orbits, (network.ranks[0],))
    assert sorted(set(found.together.tolist())) == together


def test_one_link_that_is_slower_breaks_the_symmetry():
    assert len(symmetry_of(torus(6, 4, slow=0.5))) == 1
    rates = torus(17, 17).bytes_per_us + np.arange(17 * 17 * 4)
    with pytest.raises(InputError, match="searched by symmetry, and this network has none"):
        synthesize(replace(torus(17, 17), bytes_per_us=rates), "all-gather", 1e6)


@pytest.mark.parametrize("collective", list(collectives))
@pytest.mark.parametrize("network", [torus(4, 4), clos(3, 4, 4), clos(3, 4, 2)])
def test_a_schedule_and_its_images_are_sound(network, collective):
    """By the check of images; and, all sends written out, by the check that knows nothing of symmetry."""
    symmetry = symmetry_of(network)
    assert len(symmetry) == len(network.ranks)
    kept = collectives.get(collective)(Ask(network, 1e6, 2, 0.3, symmetry))
    assert image_faults(network, kept, collective, symmetry) == []
    every = whole(network, kept, collective, symmetry)
    assert len(every.sends) == len(kept.sends) * len(symmetry)
    if symmetry.together.max() == 1:  # else links carry several images at a part of their rate
        assert faults(network, every, collective) == []
    assert kept.finish_us >= lower_bound_us(network, collective, 1e6, symmetry) * (1 - 1e-9)


@pytest.mark.parametrize("collective", list(collectives))
def test_bounds_of_the_quotient_are_those_of_the_network(collective):
    network = torus(4, 3)
    found = symmetry_of(network)
    assert lower_bound_us(network, collective, 1e7, found) == pytest.approx(lower_bound_us(network, collective, 1e7))


def test_sums_cross_every_port_twice_by_hand():
    """Of 1e6 bytes each of 12 ranks receives 2 x 11/12 on average, over four links of 100 GB/s after the first us."""
    assert lower_bound_us(torus(4, 3), "all-reduce", 1e6) == pytest.approx(2 * 11 / 12 * 1e6 / 4e5 + 1.0)


def test_sums_cross_the_borders_of_domains_twice_by_hand():
    """Of 8 MB each of 6 domains of 4 takes 10/6 on average over its four NICs of 50 GB/s, 66.7 us; ports of all ranks
    together would take only 46/24 of 8 MB over 450 + 50 GB/s, 30.7 us. The first byte is there after 5 us and 0.5.
    """
    network = rails(6, 4)
    assert sums_us(network, 8e6) == pytest.approx(2 * 5 / 6 * 8e6 / 200e3 + 5.5)
    assert lower_bound_us(network, "all-reduce", 8e6, symmetry_of(network)) == pytest.approx(72.17, abs=0.01)
    assert gathers_us(network, 8e6) == pytest.approx(5 / 6 * 8e6 / 200e3 + 5.5)
    even = 1.0 - np.eye(24)
    assert exchanges_us(network, even * 1e4) == pytest.approx(4 * 20 * 1e4 / 200e3 + 5.5)


@pytest.mark.parametrize("collective", ["all-gather", "reduce-scatter", "all-reduce"])
def test_rails_come_near_their_bound(collective):
    """48 ranks in domains of 8: sums are brought together as quickly as data is spread."""
    network = rails(6, 8)
    found = synthesize(network, collective, 64e6, enough=1.05)
    assert found.images == 48
    assert found.faults() == []
    assert found.lower_bound_us <= found.finish_us <= 1.05 * found.lower_bound_us


@pytest.mark.parametrize("network", [torus(3, 3), clos(2, 3, 2)])
def test_a_schedule_played_backward_takes_as_long_and_adds_every_part_once(network):
    """Also where what stands last is what nobody waits for."""
    ask = Ask(network, 1e6, 3, 0.3)
    up, down = (collectives.get(name)(ask) for name in ("reduce-scatter", "all-gather"))
    assert faults(network, up, "reduce-scatter") == []
    both = followed(up, down)
    assert faults(network, both, "all-reduce") == []
    assert both.finish_us == pytest.approx(up.finish_us + down.finish_us)
    assert (both.sends.after < np.repeat(np.arange(len(both.sends)), np.diff(both.sends.after_ptr))).all()


def test_images_that_are_wrong_are_found():
    network = clos(3, 4, 4)
    symmetry = symmetry_of(network)
    kept = collectives.get("all-reduce")(Ask(network, 1e6, 2, 0.3, symmetry))
    early = replace(kept, start_us=kept.start_us * 0)
    assert any("two sends at once" in fault for fault in image_faults(network, early, "all-reduce", symmetry))
    lost = replace(kept, sends=replace(kept.sends, reduce=np.zeros_like(kept.sends.reduce)))
    assert image_faults(network, lost, "all-reduce", symmetry)
    moved = replace(symmetry, link=np.roll(symmetry.link, 1, axis=1))
    assert "do not join" in image_faults(network, kept, "all-reduce", moved)[0]


def test_many_ranks_come_near_the_bound():
    """64 in a torus and under a Clos: within a tenth of what is possible, by a search for one rank."""
    for network in (torus(4, 4, 3), clos(8, 6, 6)):
        found = synthesize(network, "all-gather", 64e6, enough=1.05)
        assert found.images == 48
        assert found.faults() == []
        assert found.lower_bound_us <= found.finish_us <= 1.1 * found.lower_bound_us


@pytest.mark.parametrize(
    ("collective", "gap"), [("all-gather", 1.002), ("reduce-scatter", 1.001), ("all-reduce", 1.01)]
)
def test_a_clos_meets_its_bound_by_symmetry(collective, gap):
    """8 leaves of 8: 63 parts of 4 MB over ports of 50,000 bytes a microsecond, 5,040 us, once or up and down."""
    network = clos(8, 8, 8)
    found = synthesize(network, collective, 256e6, enough=gap)
    assert found.images == 64
    assert found.faults() == []
    assert found.lower_bound_us >= 63 / 64 * 256e6 / 50e3 * (2 if collective == "all-reduce" else 1)
    assert found.lower_bound_us <= found.finish_us <= gap * found.lower_bound_us
