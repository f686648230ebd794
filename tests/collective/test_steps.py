"""Messages that must follow one another, of every algorithm, counted by hand."""

from __future__ import annotations

import pytest

from railyard.collective import ALGORITHMS, Shape, Steps
from railyard.graph import CollectiveKind as Kind

REDUCE, GATHER, EVERYBODY = Kind.ALL_REDUCE, Kind.ALL_GATHER, Kind.ALL_TO_ALL
THREE, ONE = Shape.grid(3, 5), Shape.grid(1, 5)

# 3 domains of 5 ranks where nothing else is said; an all-reduce goes there and back.
COUNTED = [
    # 2 x 14 edges of a ring, each turn crosses all 3 boundaries
    ("ring", REDUCE, THREE, Steps(scale_up=22, scale_out=6)),
    ("ring", GATHER, THREE, Steps(scale_up=11, scale_out=3)),
    ("ring", REDUCE, Shape.grid(7, 1), Steps(scale_out=12)),
    ("ring", REDUCE, ONE, Steps(scale_up=8)),
    # everybody posts to 14 others at once, once for each round
    ("direct", REDUCE, THREE, Steps(scale_out=2, peers=28)),
    ("direct", GATHER, THREE, Steps(scale_out=1, peers=14)),
    ("direct", REDUCE, ONE, Steps(scale_up=2, peers=8)),
    ("pairwise", EVERYBODY, THREE, Steps(scale_out=1, peers=14)),
    ("pairwise", EVERYBODY, ONE, Steps(scale_up=1, peers=4)),
    # 4 peers inside, then a ring of 3 domains; for an all-to-all 4 peers inside and 2 outside
    ("hierarchical", REDUCE, THREE, Steps(scale_up=2, scale_out=4, peers=8)),
    ("hierarchical", GATHER, THREE, Steps(scale_up=1, scale_out=2, peers=4)),
    ("hierarchical", Kind.REDUCE_SCATTER, THREE, Steps(scale_up=1, scale_out=2, peers=4)),
    ("hierarchical-all-to-all", EVERYBODY, THREE, Steps(scale_up=1, scale_out=1, peers=6)),
    # to the network's switches and back, between all-to-alls of 4 peers
    ("collnet-direct", REDUCE, THREE, Steps(scale_up=2, reduction=1, peers=8)),
    ("collnet-direct", REDUCE, Shape.grid(3, 1), Steps(reduction=1)),
    ("collnet-chain", REDUCE, THREE, Steps(scale_up=8, reduction=1)),
    ("nvls-sharp", REDUCE, THREE, Steps(switch=1, reduction=1)),
    ("nvls", REDUCE, ONE, Steps(switch=1)),
    # a tree over 9 domains has 4 levels below its root
    ("nvls-tree", REDUCE, Shape.grid(9, 4), Steps(switch=1, scale_out=8)),
    # 11 ranks double 4 times
    ("pat", GATHER, Shape.grid(11, 1), Steps(scale_out=4, peers=10)),
    # 8 of 24 ranks fold into the others first and unfold last; of 4 exchanges 3 are inside
    ("halving-doubling", REDUCE, Shape.grid(3, 8), Steps(scale_up=8, scale_out=2)),
    ("halving-doubling", GATHER, Shape.grid(2, 8), Steps(scale_up=3, scale_out=1)),
    # chains of 14 edges
    ("broadcast", Kind.BROADCAST, THREE, Steps(scale_up=12, scale_out=2)),
    ("reduce", Kind.REDUCE, THREE, Steps(scale_up=12, scale_out=2)),
    # rings of 4, 3 and 2 one after another
    ("torus", REDUCE, Shape(24, 1, 24, scale_up="torus", torus=(4, 3, 2)), Steps(scale_up=12)),
    ("torus", GATHER, Shape(24, 1, 24, scale_up="torus", torus=(4, 3, 2)), Steps(scale_up=6)),
]


@pytest.mark.parametrize(("name", "kind", "shape", "steps"), COUNTED)
def test_steps(name, kind, shape, steps):
    assert ALGORITHMS.get(name).steps(kind, shape) == steps


@pytest.mark.parametrize(("ranks", "refused"), [(512, False), (513, True)])
def test_direct_messages_have_at_most_511_peers(ranks, refused):
    assert bool(ALGORITHMS.get("direct").refuses(REDUCE, Shape.grid(ranks, 1), None)) == refused


@pytest.mark.parametrize(("kind", "inside", "outside"), [(REDUCE, 2 / 5, 4 / 15), (GATHER, 1 / 5, 2 / 15)])
def test_edges_of_a_hierarchical_collective(kind, inside, outside):
    """Each of 5 peers gets a fifth once a round; on a rail 2 of 3 domains' parts of that fifth go over every edge."""
    pattern = ALGORITHMS.get("hierarchical").pattern(kind, THREE)
    out = pattern.scale_out(THREE)
    assert pattern.share[~out].tolist() == pytest.approx([inside] * 60)
    assert pattern.share[out].tolist() == pytest.approx([outside] * 15)
