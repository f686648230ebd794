"""Torus: every port is a router connected to its neighbors in two or three dimensions; no switches."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from functools import cache
from typing import TYPE_CHECKING, ClassVar

import numpy as np

from railyard.cluster import routes
from railyard.cluster.links import Csr
from railyard.cluster.routes import RouteBuilder, Routes
from railyard.cluster.topology.wiring import Endpoints, Parts, Tier, Wiring, cables, impossible, topologies
from railyard.kit.schema import field as f

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from railyard.cluster.links import Integers

TORUS = Tier("torus", 3.0)


@dataclass(frozen=True)
class Torus:
    """A ring in every dimension; ports are numbered along the first dimension, then the second, then the third.

        +--o--o--o--+        every o: one port (accelerator or NIC) with two links in each dimension;
        +--o--o--o--+        the ends of each row and column are joined
        +--o--o--o--+
           |  |  |

    A port's rate is split evenly over its links. Routes go dimension by dimension, the last one first, the shorter way
    round; where both ways are equally long both are equal-cost links.
    """

    kind: ClassVar[str] = "torus"

    dimensions: tuple[int, ...] | None = field(
        default=None,
        metadata=f.numbers(
            "dimensions", "Ports along each dimension; as near a cube as their number allows", "[8, 8, 16]"
        ),
    )

    def build(self, endpoints: Endpoints, parts: Parts) -> Wiring:
        """Wires the network; see `TopologySpec`."""
        if endpoints.extra:
            raise impossible(
                "a torus has no switch to which storage or a gateway could be connected",
                key="kind",
                found=self.kind,
                possible="give storage the front-end or a network of its own",
            )
        shape = self.dimensions
        if shape is None:
            shape = tuple(size for size in near_cube(endpoints.ports, 3) if size > 1) or (1,)
        _check(shape, endpoints.ports)
        port_of = np.arange(endpoints.ports, dtype=np.int32).reshape(endpoints.servers, endpoints.nics)
        return wire(shape, parts.link_bps / (2 * len(shape)), port_of)


def _check(shape: tuple[int, ...], ports: int) -> None:
    if not shape or min(shape) < 1 or math.prod(shape) != ports:
        near = " x ".join(map(str, near_cube(ports, max(1, min(len(shape), 3)))))
        raise impossible(
            f"these dimensions have {math.prod(shape) if shape else 0} ports and {ports} are to be joined",
            key="dimensions",
            found=" x ".join(map(str, shape)),
            possible=f"possible: {near}",
        )


@cache
def near_cube(number: int, axes: int) -> tuple[int, ...]:
    """Factors of a number, ascending, with the smallest possible maximum."""
    if axes == 1:
        return (number,)
    best: tuple[int, ...] = (*([1] * (axes - 1)), number)
    for first in range(1, round(number ** (1 / axes)) + 1):
        if number % first == 0:
            found = tuple(sorted((first, *near_cube(number // first, axes - 1))))
            best = min(best, found, key=lambda shape: (shape[-1], [-size for size in shape]))
    return best


def wire(shape: tuple[int, ...], link_bps: float, port_of: NDArray[np.int32]) -> Wiring:
    """Links and routes of a torus whose every link has the given rate."""
    ports = math.prod(shape)
    axes = [axis for axis, size in enumerate(shape) if size > 1]
    index = np.arange(ports).reshape(tuple(reversed(shape)))
    low = [np.arange(ports) for _ in axes]
    high = [np.roll(index, -1, axis=len(shape) - 1 - axis).ravel() for axis in axes]
    empty = [np.empty(0, np.int64)]
    source, target = cables(low or empty, high or empty)
    widest = max(shape)
    return Wiring(
        ports=ports,
        port_of=port_of,
        extra=np.empty(0, np.int32),
        nodes=ports,
        groups=(),
        source=source,
        target=target,
        line_bps=np.full(len(source), link_bps),
        tier=np.zeros(len(source), np.int16),
        tiers=(TORUS,),
        routing=_routes(shape, axes, index),
        classes=None,
        bisection_bps=2 * (ports // widest) * link_bps if widest > 1 else 0.0,
        pod_ports=ports,
    )


def _routes(shape: tuple[int, ...], axes: list[int], index: Integers) -> Routes:
    ports = math.prod(shape)
    builder = RouteBuilder(ports)
    node = np.arange(ports)
    for place, axis in enumerate(axes):
        size, step = shape[axis], math.prod(shape[:axis])
        forward = 2 * (place * ports + node)
        before = np.roll(index, 1, axis=len(shape) - 1 - axis).ravel()
        backward = 2 * (place * ports + before) + 1
        first = builder.choices(np.stack([forward, backward], axis=1))
        base = node // (step * size) * (step * size)
        coordinate = node // step % size
        for here in range(size):
            mine = coordinate == here
            for lo, hi, offset, width in _directions(size, here):
                builder.records(
                    node[mine],
                    base[mine] + lo * step,
                    base[mine] + hi * step,
                    first[mine] + offset,
                    width=width,
                    stride=ports,
                )
    return builder.build(ports)


def _directions(size: int, here: int) -> list[tuple[int, int, int, int]]:
    """Ranges of coordinates on a ring and the links there: from, to, first of (forward, backward), how many."""
    reach = (size - 1) // 2
    out = []
    for begin, end, offset, width in (
        (here + 1, here + 1 + reach, 0, 1),
        (here + 1 + reach, here + size - reach, 0, 2),
        (here + size - reach, here + size, 1, 1),
    ):
        out.append((min(begin, size), min(end, size), offset, width))
        out.append((max(begin, size) - size, max(end, size) - size, offset, width))
    return [run for run in out if run[0] < run[1]]


@dataclass(frozen=True, eq=False)
class TorusPaths:
    """A scale-up torus: the links of one domain, repeated for every domain.

    Attributes:
        wiring: One domain.
        link_bps: Rate of a link, one way.
        domains: Number of domains.
    """

    wiring: Wiring
    link_bps: float
    domains: int

    @classmethod
    def of(cls, domain: int, domains: int, rate_bps: float, links: int) -> TorusPaths:
        """A torus of `links // 2` dimensions, as close to a cube as possible; each link has `1 / links` of the rate."""
        axes = min(3, max(1, links // 2))
        shape = near_cube(domain, axes)
        link_bps = rate_bps / max(links, 1)
        return cls(wire(shape, link_bps, np.arange(domain, dtype=np.int32)[:, None]), link_bps, domains)

    @property
    def links(self) -> int:
        """Links of all domains."""
        return self.wiring.links * self.domains

    def path(self, src: Integers, dst: Integers, first_link: int) -> Csr:
        """One dimension-ordered path for each pair of ranks of one domain."""
        size = self.wiring.ports
        local = routes.hashed(
            self.wiring.routing, self.wiring.target, (src % size).astype(np.int32), (dst % size).astype(np.int32)
        )
        shift = first_link + src // size * self.wiring.links
        return Csr(local.ptr, (local.link + shift[local.rows()]).astype(np.int32))

    def ends(self) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Ranks at both ends of every link."""
        shift = np.repeat(np.arange(self.domains, dtype=np.int64) * self.wiring.ports, self.wiring.links)
        return np.tile(self.wiring.source, self.domains) + shift, np.tile(self.wiring.target, self.domains) + shift


topologies.add(Torus.kind, Torus)
