"""Two spines against four: what `examples/packet/spines.py` shows, and the parallel cables that it needs."""

import importlib.util
import sys
from pathlib import Path

import numpy as np
import pytest

from railyard.engine.packet import Settings, Traffic, leaf_spine, run
from railyard.engine.packet.faults import both_ways

EXAMPLE = Path(__file__).parents[2] / "examples" / "packet" / "spines.py"
G400 = 400 * 10**9
SPRAY = Settings(load_balancing="spray")
SEEDS = (11, 12, 13)  # none that the page shows


@pytest.fixture(scope="module")
def spines():
    spec = importlib.util.spec_from_file_location("spines_example", EXAMPLE)
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module  # where dataclasses look up their annotations
    spec.loader.exec_module(module)
    yield module
    del sys.modules[spec.name]


@pytest.mark.parametrize("seed", SEEDS)
def test_a_spine_and_an_uplink_dead_stop_every_host_under_two_spines_and_hardly_one_under_four(spines, seed):
    two, four = (spines.found(spines.Design(count), spines.SPINE_UPLINK, seed) for count in (2, 4))
    assert two.host_links == 32
    assert two.switch_links >= 8
    assert four.host_links <= 8
    assert two.victim_ms > 10 * four.victim_ms
    assert two.paused_ms > 5 * four.paused_ms


def test_two_dead_uplinks_of_a_leaf_are_alike_under_two_spines_and_four(spines):
    """Each design is left with half of the leaf's uplinks: only that leaf's hosts are stopped."""
    for count in (2, 4):
        found = spines.found(spines.Design(count), spines.TWO_UPLINKS, SEEDS[0])
        assert (found.host_links, found.switch_links) == (4, 0)
        assert found.victim_ms < 0.3


def test_what_counts_is_the_capacity_that_is_left(spines):
    """Of four spines two dead, and an uplink: as many hosts stopped as with one of two."""
    found = spines.found(spines.Design(4), spines.HALF_UPLINK, SEEDS[0])
    assert found.host_links == 32
    assert found.victim_ms > 20


@pytest.mark.parametrize(("count", "dead"), [(2, 2 * (8 * 2 + 1)), (4, 2 * (8 + 1))])
def test_both_designs_have_the_same_links_and_the_failure_takes_what_it_names(spines, count, dead):
    network = spines.Design(count).network()
    assert network.links == 2 * (32 + 8 * 4)
    gone = spines.Design(count).dead(network, spines.SPINE_UPLINK)
    assert len(set(gone)) == len(gone) == dead
    ends = {(int(network.link_source[link]), int(network.link_target[link])) for link in gone}
    assert {(b, a) for a, b in ends} == ends


def test_parallel_cables_of_a_leaf_and_a_spine_all_carry():
    network = leaf_spine(15, leaf_hosts=5, spines=2, rate_bps=G400, cables=3)
    assert network.links == 2 * (15 + 3 * 2 * 3)
    assert len(both_ways(network, 15 + 2, 15 + 3 + 1)) == 6
    found = run(network, Traffic.of(15, [0], [14], 1_200_000), SPRAY)
    carried = found.table("links")["bytes"]
    up = np.flatnonzero((network.link_source == 15) & (network.link_target >= 18))
    down = np.flatnonzero((network.link_source >= 18) & (network.link_target == 17))
    assert len(up) == len(down) == 6
    assert (carried[up] > 0).all()
    assert (carried[down] > 0).all()
    assert carried[down].sum() == carried[up].sum() >= 1_200_000


def test_two_cables_carry_what_one_cannot():
    """6 MB take 120 us over one cable at 400 Gb/s, and 60 us over two."""
    traffic = Traffic.of(4, [0, 1], [2, 3], 3_000_000)
    one, two = (
        run(leaf_spine(4, leaf_hosts=2, spines=1, rate_bps=G400, cables=cables), traffic, SPRAY).end_ps.max()
        for cables in (1, 2)
    )
    assert one > 120e6
    assert 60e6 < two < 90e6


@pytest.mark.parametrize(
    ("line", "word"),
    [
        (["--spines", "3"], "divisor of the 4 uplinks"),
        (["--spines", "1"], "2 or more"),
        (["--size", "250"], "250"),
        (["--leaves", "4"], "16 hosts must be outside leaf 0"),
        (["--seeds", "0"], "1 or more"),
    ],
)
def test_what_cannot_be_built_is_refused(spines, monkeypatch, capsys, line, word):
    monkeypatch.setattr(sys, "argv", ["spines.py", *line])
    with pytest.raises(SystemExit) as stopped:
        spines.main()
    assert stopped.value.code == 2
    assert word in capsys.readouterr().err
