"""Curves of collectives: between powers of two near what the engine takes, longer where bytes take longer."""

from __future__ import annotations

from functools import cache

import numpy as np
import pytest

from railyard import catalog, cluster
from railyard.cluster import ClusterSpec, FabricSpec, NetworkSpec
from railyard.cluster.topology import LeafSpine
from railyard.collective.choice import choose_many
from railyard.collective.curves import Curves, Library
from railyard.collective.machine import Shape, machine_of
from railyard.graph import CollectiveKind


@cache
def yard():
    return cluster.build(
        ClusterSpec(96, "hgx-h100", NetworkSpec(LeafSpine(), FabricSpec("infiniband"))), catalog.load()
    )


@pytest.mark.parametrize(("ranks", "local"), [(4, 4), (24, 8), (12, 1), (12, 8)])
@pytest.mark.parametrize("kind", [CollectiveKind.ALL_REDUCE, CollectiveKind.ALL_GATHER, CollectiveKind.ALL_TO_ALL])
def test_curves_are_what_the_library_is_predicted_to_take(kind, ranks, local):
    full, rest = divmod(ranks, local)
    counts = (local,) * full + ((rest,) if rest else ())
    shape = Shape(ranks, len(counts), local, counts if rest else (), aligned=not rest, ports=local)
    size = np.array([3e4, 5e6, 7e8])
    wanted = choose_many(kind, size, shape, machine_of(yard())).time_us * 1e-6
    curves = Curves.of([Library.of(yard())] * 3)
    found = curves.seconds(kind, size, (np.full(3, ranks), np.full(3, local)), None)
    assert found == pytest.approx(wanted, rel=0.05)


def test_bytes_that_take_longer_on_nics_lengthen_what_nics_bound():
    curves, size = Curves.of([Library.of(yard())] * 2), np.array([4e9, 4e9])
    group = (np.array([12.0, 12.0]), np.array([1.0, 1.0]))
    longer = (np.array([1.0, 1.0]), np.array([1.0, 2.0]), np.array([7.0, 7.0]))  # so large, no trees
    plain, twice = curves.seconds(CollectiveKind.ALL_GATHER, size, group, longer)
    assert twice / plain == pytest.approx(2.0, rel=0.02)
    assert curves.seconds(CollectiveKind.ALL_GATHER, size, (np.ones(2), np.ones(2)), longer).tolist() == [0.0, 0.0]


def test_where_the_library_changes_only_one_side_counts():
    """Twelve ranks, one a server: aggregated trees up to some size, rings beyond; never a mean of the two."""
    size = 2.0 ** np.arange(20, 30, 1 / 64)
    choices = choose_many(CollectiveKind.ALL_GATHER, size, Shape(12, 12, 1, ports=1), machine_of(yard()))
    trees = np.array([name == "pat" for name, _ in choices.candidates])[choices.index]
    curves, group = Curves.of([Library.of(yard())] * len(size)), (np.full(len(size), 12), np.ones(len(size)))
    found = curves.aggregated(CollectiveKind.ALL_GATHER, size, group)
    assert set(found) == {0.0, 1.0}
    assert np.abs(found - trees).sum() <= 1  # the change is known to a part in 128 of an octave
    longer = tuple(np.full(len(size), each) for each in (1.0, 1.0, 3.0))
    slower = curves.seconds(CollectiveKind.ALL_GATHER, size, group, longer)
    plain = curves.seconds(CollectiveKind.ALL_GATHER, size, group, None)
    assert (slower > 1.3 * plain)[(found == 1) & (size > 4e6)].all()
    assert slower[found == 0] == pytest.approx(plain[found == 0])
