"""The shape of a communicator: how many of its ranks sit in each scale-up domain. Patterns depend on nothing else."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

Ints = NDArray[np.int64]


@dataclass(frozen=True)
class Shape:
    """Where the members of a communicator sit. A *position* is an index into its members in ascending rank order.

    Members of one scale-up domain have consecutive positions, because ranks are numbered server by server.

    Attributes:
        ranks: Members, at least 1.
        domains: Scale-up domains that hold a member; a library calls them nodes.
        per_domain: Members in the fullest domain.
        uneven: Members of each domain when they differ, else empty.
        aligned: Every domain holds members at the same local indices, so that equal indices are on one rail.
        ports: Distinct NIC ports that the members of the first domain own together.
        scale_up: "switched", "mesh", "torus" or "none".
        torus: Ranks along each axis when the members fill one torus, first axis fastest; else empty.
    """

    ranks: int
    domains: int
    per_domain: int
    uneven: tuple[int, ...] = ()
    aligned: bool = True
    ports: int = 1
    scale_up: str = "switched"
    torus: tuple[int, ...] = ()

    @staticmethod
    def grid(domains: int, per_domain: int, *, ports: int | None = None, scale_up: str = "switched") -> Shape:
        """The even shape: `per_domain` members in each of `domains` domains, each with a NIC port of its own."""
        return Shape(
            ranks=domains * per_domain,
            domains=domains,
            per_domain=per_domain,
            ports=per_domain if ports is None else ports,
            scale_up=scale_up,
        )

    @cached_property
    def counts(self) -> Ints:
        """Members of each domain, int64[domains]."""
        if self.uneven:
            return np.asarray(self.uneven, np.int64)
        return np.full(self.domains, self.per_domain, np.int64)

    @cached_property
    def offsets(self) -> Ints:
        """First position of each domain, int64[domains]."""
        return np.concatenate([np.zeros(1, np.int64), np.cumsum(self.counts)[:-1]])

    @cached_property
    def domain_of(self) -> Ints:
        """Domain of each position, int64[ranks]."""
        return np.repeat(np.arange(self.domains), self.counts)

    @property
    def even(self) -> bool:
        """Whether every domain holds the same number of members."""
        return not self.uneven
