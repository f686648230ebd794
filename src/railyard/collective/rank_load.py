"""What an algorithm asks of the busiest rank of a shape."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING

import numpy as np

from railyard.collective.algorithm import ALGORITHMS
from railyard.collective.pattern import Pattern

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from railyard.collective.machine import Shape
    from railyard.graph import CollectiveKind


@dataclass(frozen=True)
class RankLoad:
    """What an algorithm asks of the busiest rank, in bytes per byte of the collective's size.

    Attributes:
        scale_up: Through a rank's scale-up links, one way, with relays to the right NIC and, in a torus, data of
            others.
        pair: From one rank to one other of its domain.
        port: Through one NIC port, one way.
    """

    scale_up: float
    pair: float
    port: float


@lru_cache(maxsize=4096)
def load_of(name: str, kind: CollectiveKind, shape: Shape) -> RankLoad:
    """The load of an algorithm on a shape."""
    algorithm = ALGORITHMS.get(name)
    local = np.arange(shape.ranks) - shape.offsets[shape.domain_of]
    rails = local * min(shape.ports, shape.per_domain) // shape.per_domain
    joined = shape.aligned and shape.scale_up != "none"
    pattern = algorithm.relayed_pattern(kind, shape, rails) if joined else algorithm.pattern(kind, shape)
    out = pattern.scale_out(shape)
    inside, outside = pattern.part(~out), pattern.part(out)
    pairs = inside.share[(inside.source >= 0) & (inside.target >= 0)]
    carried = Pattern(inside.source, inside.target, inside.share * _hops(inside, shape), inside.merged)
    nics_of_rank = max(1, shape.ports // shape.per_domain)
    return RankLoad(
        scale_up=float(carried.loads(shape.ranks).max()),
        pair=float(pairs.max(initial=0.0)),
        port=_fullest_port(outside, shape, rails) / nics_of_rank,
    )


def _fullest_port(outside: Pattern, shape: Shape, rails: NDArray[np.int64]) -> float:
    """What the fullest NIC port sends or receives: it does both at once, for all ranks that share it."""
    port = shape.domain_of * shape.per_domain + rails
    ends = [(end[end >= 0], outside.share[end >= 0]) for end in (outside.source, outside.target)]
    return max(float(np.bincount(port[rank], share, minlength=1).max()) for rank, share in ends)


def _hops(edges: Pattern, shape: Shape) -> NDArray[np.int64]:
    """Links that an edge crosses: in a torus the distance, for others pass the data on; elsewhere 1."""
    total = np.ones(len(edges), np.int64)
    if not shape.torus:
        return total
    total[:] = 0
    stride = 1
    for size in shape.torus:
        apart = np.abs(edges.source // stride % size - edges.target // stride % size)
        total += np.minimum(apart, size - apart)
        stride *= size
    return total
