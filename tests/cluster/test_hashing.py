"""The hash against published values of splitmix64, and that two tiers choose independently."""

from __future__ import annotations

import numpy as np
import pytest

from railyard.cluster import routes
from railyard.cluster.topology import Endpoints, LeafSpine, ThreeTier

from .wired import LARGE, Case


@pytest.mark.parametrize(
    ("seed", "first"),
    [(0, 0xE220A8397B1DCDAF), (1234567, 6457827717110365317)],  # first outputs of the reference implementation
)
def test_mix_is_splitmix64(seed, first):
    assert int(routes.mix(np.array([seed], np.uint64))[0]) == first


def test_picks_are_uniform_for_any_width():
    hashed = routes.mix(np.arange(200_000, dtype=np.uint64))
    for width in (2, 3, 7, 48, 64, 129):
        count = np.bincount(routes.pick(hashed, np.full(len(hashed), width, np.int32)), minlength=width)
        assert len(count) == width
        expected = len(hashed) / width
        chi_square = ((count - expected) ** 2 / expected).sum()
        assert chi_square < width + 6 * np.sqrt(2 * width) + 10


def test_salts_and_subflows_differ():
    assert len(np.unique(routes.salts(100_000))) > 99_990  # of 2^32: one pair is alike by chance
    assert len(np.unique(routes.subflows(np.arange(10_000, dtype=np.uint64), 8))) == 80_000
    assert (routes.salts(100, seed=1) != routes.salts(100, seed=2)).all()


def test_tiers_do_not_polarize():
    """Flows that a leaf sent to one spine spread over all its cores: the choice above does not follow that below."""
    wiring = Case(ThreeTier(leafs_per_pod=4), Endpoints(64, 8), LARGE, LARGE).build()
    flows = 40_000
    source = np.full(flows, wiring.port_of[0, 0], np.int32)
    target = np.full(flows, wiring.port_of[-1, 0], np.int32)
    entropy = np.arange(flows, dtype=np.uint64)
    path = routes.hashed(
        wiring.routing, wiring.target, source, target, entropy=entropy, salt=routes.salts(wiring.nodes)
    )
    up, over = path.link[path.ptr[:-1] + 1], path.link[path.ptr[:-1] + 2]
    spines, uplinks = len(np.unique(up)), len(np.unique(over[up == up[0]]))
    assert spines == 32
    assert uplinks == 32
    joint = np.unique(up.astype(np.int64) * wiring.links + over, return_counts=True)[1]
    expected = flows / 32 / 32
    assert ((joint - expected) ** 2 / expected).sum() < 1024 + 6 * np.sqrt(2 * 1024)


def test_equal_entropy_takes_equal_paths():
    wiring = Case(LeafSpine(), Endpoints(16, 4)).build()
    source, target = np.zeros(8, np.int32), np.full(8, 60, np.int32)
    path = routes.hashed(
        wiring.routing,
        wiring.target,
        source,
        target,
        entropy=np.full(8, 7, np.uint64),
        salt=routes.salts(wiring.nodes),
    )
    assert (path.link.reshape(8, -1) == path.link[: len(path.link) // 8]).all()
