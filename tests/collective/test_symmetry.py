"""Networks that are the same under turns of their ranks, and schedules that stand for all of their images."""

from __future__ import annotations

import json
from dataclasses import replace

import numpy as np
import pytest

from railyard import catalog, cluster
from railyard.cluster import ClusterSpec, FabricSpec, NetworkSpec
from railyard.collective.synthesis.bound import exchanges_us, gathers_us, lower_bound_us, sums_us
from railyard.collective.synthesis.collectives import ScheduleRequest, collectives, image_faults, whole, whole_faults
from railyard.collective.synthesis.msccl import MOST_MESSAGES, least_messages
from railyard.collective.synthesis.mscclpp import MOST_IN_PLAN
from railyard.collective.synthesis.network import build
from railyard.collective.synthesis.of_cluster import network_of
from railyard.collective.synthesis.repaired import BrokenNetwork
from railyard.collective.synthesis.schedule import faults
from railyard.collective.synthesis.search import synthesize
from railyard.collective.synthesis.symmetry import followed, mended, symmetry_of
from railyard.face.cli.guard import run
from railyard.graph import CollectiveKind
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
    kept = collectives.get(collective)(ScheduleRequest(network, 1e6, 2, 0.3, symmetry))
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
    ask = ScheduleRequest(network, 1e6, 3, 0.3)
    up, down = (collectives.get(name)(ask) for name in ("reduce-scatter", "all-gather"))
    assert faults(network, up, "reduce-scatter") == []
    both = followed(up, down)
    assert faults(network, both, "all-reduce") == []
    assert both.finish_us == pytest.approx(up.finish_us + down.finish_us)
    assert (both.sends.after < np.repeat(np.arange(len(both.sends)), np.diff(both.sends.after_ptr))).all()


def test_images_that_are_wrong_are_found():
    network = clos(3, 4, 4)
    symmetry = symmetry_of(network)
    kept = collectives.get("all-reduce")(ScheduleRequest(network, 1e6, 2, 0.3, symmetry))
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


# Networks that a few links keep from being symmetric: what they were, and schedules that are repaired.


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
    broken = BrokenNetwork.of(left)
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
    broken = BrokenNetwork.of(slowed(network, link))
    assert broken.bound_us("all-gather", 24e6) == pytest.approx(5 / 6 * 24e6 / 175e3 + 5.5)
    before, after = (
        np.bincount(one.schedule("all-gather", 24e6, 4).sends.link)[link]
        for one in (BrokenNetwork.of(slowed(network, network.out[9][-1])), broken)
    )
    assert 0.3 * before < after < 0.8 * before
    schedule = broken.schedule("all-gather", 24e6, 8)
    assert schedule.finish_us < 1.2 * broken.bound_us("all-gather", 24e6)


# Clusters of more ranks than are searched one by one: by symmetry, and played where all sends can be laid
# down.

SERVERS = 33
RANKS = 8 * SERVERS


@pytest.fixture
def words(tmp_path):
    """Of a command over a cluster of so many ranks."""

    def of(ranks, *more):
        scenario = tmp_path / "s.yaml"
        scenario.write_text(
            f"cluster: {{accelerators: {ranks}, server: hgx-h100,"
            " back_end: {topology: rail-optimized, fabric: roce}}\n"
            "workload: {training: {model: llama-3-8b, tokens: 1 T, global_batch: 2048, sequence: 8192}}\n"
        )
        return ["synthesize", "--cluster", str(scenario), "--size", "64 MB", "--quiet", "--json", *more]

    return of


def machine(ranks):
    network = NetworkSpec(topology=cluster.topologies.get("rail-optimized")(), fabric=FabricSpec("roce"))
    return cluster.build(ClusterSpec(accelerators=ranks, server="hgx-h100", back_end=network), catalog.load())


def test_33_servers_are_searched_by_symmetry():
    """Each rank's tree is that of the first; a domain takes 32/33 of 64 MB over its eight NICs of 50 GB/s at best."""
    network = network_of(machine(RANKS), np.arange(RANKS), CollectiveKind.ALL_GATHER)
    found = synthesize(network, "all-gather", 64e6)
    assert found.images == RANKS
    assert found.lower_bound_us > 32 / 33 * 64e6 / (8 * 50e3)
    assert found.finish_us <= 1.1 * found.lower_bound_us
    assert found.faults() == []


def test_a_schedule_that_is_laid_down_is_no_finer_than_its_sends_allow():
    """Of 48 ranks each gets from 47 others by two links: 4,512 sends uncut, 9,024 in two pieces, in four too many."""
    network = network_of(machine(48), np.arange(48), CollectiveKind.ALL_GATHER)
    found = synthesize(network, "all-gather", 256e6, most_whole=9_100)
    assert (found.cut, found.sends, len(found.schedule.sends)) == (2, 9_024, 9_024)
    assert synthesize(network, "all-gather", 256e6, most_whole=19_000).cut == 4


def test_a_search_alone_needs_no_sends_laid_down(words, capsys):
    assert run(words(RANKS)) == 0
    found = json.loads(capsys.readouterr().out)
    assert "played" not in found
    assert found["lower_bound_us"] < found["finish_us"] < 1.2 * found["lower_bound_us"]


def test_messages_that_are_too_many_are_counted(words, tmp_path, capsys):
    """1,024 ranks: 1,024 x 1,023 of an all-gather can be laid down, twice as many of an all-reduce cannot."""
    assert least_messages("all-gather", 1024) == least_messages("all-to-all", 1024) == 1_047_552 <= MOST_MESSAGES
    out = tmp_path / "a.xml"
    for more in (["--engine", "flow"], ["--msccl", str(out)]):
        assert run(words(1024, "--collective", "all-reduce", *more)) == 2
        error = capsys.readouterr().err
        assert "2,095,104 messages of 1,024 ranks" in error
        assert f"up to {MOST_MESSAGES:,} messages" in error
    assert run(words(1024, "--mscclpp", str(out))) == 2
    assert f"up to {MOST_IN_PLAN:,} messages" in capsys.readouterr().err
    assert not out.exists()


@pytest.mark.slow
def test_33_servers_are_played(words, capsys):
    """Above the prediction by what it leaves out: launches, queue pairs that share a NIC; rings are slower."""
    assert run(words(RANKS, "--engine", "flow")) == 0
    found = json.loads(capsys.readouterr().out)
    took = {one["algorithm"]: one["took_us"] for one in found["played"]}
    assert found["lower_bound_us"] < found["finish_us"] < took["synthesized"] < 1.4 * found["finish_us"]
    assert took["synthesized"] < took["library"]
