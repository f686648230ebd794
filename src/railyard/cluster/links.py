"""Links: every direction of every cable as a row of columns, and sparse lists of the links that flows use."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

import railyard._core as _core
from railyard.kit.quantities import ranges

if TYPE_CHECKING:
    from collections.abc import Sequence

ROUNDING = 1e-9
"""Differences of shares up to this are rounding."""


def uneven_bps(
    rate_bps: NDArray[np.float64],
    nominal_bps: NDArray[np.float64],
    bundle: NDArray[np.int32],
    moved: NDArray[np.float64],
    remaining_efficiency: NDArray[np.float64],
) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
    """The bundles whose members differ, and their rates in bit/s.

    Args:
        rate_bps: float64[members].
        nominal_bps: float64[members], without faults.
        bundle: int32[members], the bundle of each.
        moved: float64[bundles], share of a slower member's excess load that moves to the others.
        remaining_efficiency: float64[bundles], share of the remaining rate that is reached if some members are down.
    """
    bundles = len(moved)
    kept = np.divide(rate_bps, nominal_bps, out=np.zeros(len(rate_bps)), where=nominal_bps > 0)
    left = kept > 0
    least, most, least_left = np.full(bundles, np.inf), np.zeros(bundles), np.full(bundles, np.inf)
    np.minimum.at(least, bundle, kept)
    np.maximum.at(most, bundle, kept)
    np.minimum.at(least_left, bundle[left], kept[left])
    uneven = np.flatnonzero(least < most * (1 - ROUNDING))
    total = np.bincount(bundle, weights=rate_bps, minlength=bundles)[uneven]
    nominal = np.bincount(bundle[left], weights=nominal_bps[left], minlength=bundles)[uneven]
    time = moved[uneven] / total + (1.0 - moved[uneven]) / (nominal * least_left[uneven])
    return uneven, np.where(least[uneven] == 0, remaining_efficiency[uneven], 1.0) / time


Integers: TypeAlias = NDArray[np.signedinteger[Any]]
"""Integers of any width: ranks, ports, nodes, links."""


@dataclass(frozen=True, eq=False)
class Csr:
    """Links of many flows: flow `i` uses `link[ptr[i]:ptr[i + 1]]`, in the order in which it crosses them.

    Attributes:
        ptr: int64[flows + 1].
        link: int32[], link ids of the cluster's `LinkTable`.
    """

    ptr: NDArray[np.int64]
    link: NDArray[np.int32]

    def __len__(self) -> int:
        return len(self.ptr) - 1

    @property
    def lengths(self) -> NDArray[np.int64]:
        """Number of links of each flow."""
        return np.diff(self.ptr)

    def rows(self) -> NDArray[np.int64]:
        """The flow of every entry of `link`."""
        return np.repeat(np.arange(len(self), dtype=np.int64), self.lengths)

    def weighted(self) -> CsrWeighted:
        """The same with a share of 1 on every link."""
        return CsrWeighted(self.ptr, self.link, np.ones(len(self.link)))


@dataclass(frozen=True, eq=False)
class CsrWeighted(Csr):
    """Links of many flows, no link twice in one row, with the share of each flow's bytes that crosses them.

    Attributes:
        share: float64[], bytes on that link per byte of the flow.
    """

    share: NDArray[np.float64]

    def row(self, flow: int) -> tuple[NDArray[np.int32], NDArray[np.float64]]:
        """Links and shares of one flow."""
        part = slice(self.ptr[flow], self.ptr[flow + 1])
        return self.link[part], self.share[part]

    @classmethod
    def gathered(
        cls, flows: int, row: NDArray[np.int64], link: NDArray[np.int64] | NDArray[np.int32], share: NDArray[np.float64]
    ) -> CsrWeighted:
        """From unordered entries: shares of a link in a row are summed, and rows are sorted by link."""
        one = Csr(np.arange(len(link) + 1), link.astype(np.int32, copy=False))
        return cls.summed(flows, [(row, one, share)])

    @classmethod
    def summed(cls, flows: int, parts: Sequence[tuple[NDArray[np.int64], Csr, NDArray[np.float64]]]) -> CsrWeighted:
        """Sums by row and link, added in the order of the parts; rows are sorted by link.

        Args:
            flows: Rows.
            parts: To which row each flow of a `Csr` is added (int64[flows]), and times what (float64[flows]).
        """
        none = np.empty(0)
        columns = [
            (row, part.ptr, part.link, part.share if isinstance(part, CsrWeighted) else none, factor)
            for row, part, factor in parts
        ]
        found = _core.summed(flows, columns)
        return cls(found.ptr, found.link, found.share)


_ENTITY_COLUMNS: dict[str, type[np.generic]] = {
    **{"link_idx": np.int32, "link_share": np.float64, "volume_bytes": np.float64, "latency_ps": np.int64},
    **{"rate_cap_bps": np.float64, "fair_weight": np.float64, "even_latency_ps": np.int64, "even_ps": np.int64},
}


@dataclass(frozen=True)
class Entities:
    """Fluid entities in columns; m rows.

    Attributes:
        link_ptr: int64[m+1], CSR pointer into the link columns.
        link_idx: int32, links or bundles that the entity uses, none twice in a row.
        link_share: float64, bytes on the wire of that link for one byte of volume, above 0.
        volume_bytes: float64[m], all invocations together.
        latency_ps: int64[m], fixed part before the volume flows, all invocations together.
        rate_cap_bps: float64[m], bits of volume per second that its kernels reach; infinity where none.
        fair_weight: float64[m], rates grow in proportion to it.
        even_latency_ps: int64[m], the part of `even_ps` that does not shrink with bandwidth; more than `latency_ps`
            where a ring hides latency behind an edge whose flows collide.
        even_ps: int64[m], duration with the network to itself and its flows spread evenly over equal links, latency
            included; what the timeline calls alone.
    """

    link_ptr: NDArray[np.int64]
    link_idx: NDArray[np.int32]
    link_share: NDArray[np.float64]
    volume_bytes: NDArray[np.float64]
    latency_ps: NDArray[np.int64]
    rate_cap_bps: NDArray[np.float64]
    fair_weight: NDArray[np.float64]
    even_latency_ps: NDArray[np.int64]
    even_ps: NDArray[np.int64]

    def __len__(self) -> int:
        return len(self.volume_bytes)

    @staticmethod
    def stacked(tables: Sequence[Entities]) -> Entities:
        """The rows of all tables, one table after the other; columns come out contiguous and of the core's types."""
        lengths = [np.diff(np.asarray(table.link_ptr, np.int64)) for table in tables]
        columns: dict[str, Any] = {
            name: np.concatenate([np.empty(0, kind), *(getattr(table, name) for table in tables)]).astype(
                kind, copy=False
            )
            for name, kind in _ENTITY_COLUMNS.items()
        }
        return Entities(np.concatenate([[0], np.cumsum(np.concatenate([np.empty(0, np.int64), *lengths]))]), **columns)

    def take(self, index: NDArray[np.int64]) -> Entities:
        """Some rows."""
        lengths = np.diff(self.link_ptr)[index]
        ptr = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64)
        entry = ranges(self.link_ptr[index], lengths)
        columns = {name: getattr(self, name)[entry if name.startswith("link") else index] for name in _ENTITY_COLUMNS}
        return Entities(ptr, **columns)


@dataclass(frozen=True, eq=False)
class LinkTable:
    """All directed links of a cluster: scale-up, every network, storage devices, and then the bundles.

    A *bundle* represents all parallel links between two groups of nodes over which a fabric sprays evenly. A transfer
    sprayed over 64 uplinks then names one bundle instead of 64 links. Its rate is the sum of its members' rates, which
    is exact as long as every member carries the same share. Ids below `physical` are links, ids from there on bundles.

    Attributes:
        rate_bps: float64[links], rate that flows can use: line rate minus background traffic, times the utilization
            that the fabric reaches on shared tiers.
        line_bps: float64[links], rate on the wire.
        free_bps: float64[links], `rate_bps` without the effect of distance.
        reach_bps: float64[links], rate limit from distance (see `railyard.cluster.credits`); inf for no limit.
        latency_ps: int64[links], propagation plus the switch at the far end.
        tier: int16[links], index into `tiers`.
        source: int32[links], node at the near end.
        target: int32[links], node at the far end.
        tiers: Names of the tiers, unique over the networks: `scale-up`, `back-end nic`, `back-end leaf-spine`.
        bundle_of: int32[physical], bundle of a link, or -1.
        moved: float64[bundles], share of a slower member's excess load that moves to the others.
        remaining_efficiency: float64[bundles], share of the remaining rate that is reached if some members are down.
    """

    rate_bps: NDArray[np.float64]
    line_bps: NDArray[np.float64]
    free_bps: NDArray[np.float64]
    reach_bps: NDArray[np.float64]
    latency_ps: NDArray[np.int64]
    tier: NDArray[np.int16]
    source: NDArray[np.int32]
    target: NDArray[np.int32]
    tiers: tuple[str, ...]
    bundle_of: NDArray[np.int32] = field(repr=False)
    moved: NDArray[np.float64] = field(default_factory=lambda: np.empty(0), repr=False)
    remaining_efficiency: NDArray[np.float64] = field(default_factory=lambda: np.empty(0), repr=False)

    def __len__(self) -> int:
        return len(self.rate_bps)

    @property
    def physical(self) -> int:
        """Number of real links; ids from here on are bundles."""
        return len(self.bundle_of)

    @property
    def healthy_bps(self) -> NDArray[np.float64]:
        """float64[links], `rate_bps` without faults that slow links."""
        return np.minimum(self.free_bps, self.reach_bps)

    def of_tier(self, name: str) -> NDArray[np.int32]:
        """Ids of the links of a tier.

        Raises:
            ValueError: There is no such tier.
        """
        return np.flatnonzero(self.tier[: self.physical] == self.tiers.index(name)).astype(np.int32)

    def degraded(self, link: NDArray[np.int32], factor: float) -> NDArray[np.float64]:
        """Rates of all links when the rates of some are multiplied by `factor`; bundles follow their members.

        Args:
            link: Physical link ids.
            factor: 0 (dead) to 1.

        Returns:
            float64[links] in bit/s.
        """
        rate = self.rate_bps.copy()
        rate[link] = np.minimum(self.free_bps[link] * factor, self.reach_bps[link])
        return self.with_bundles(rate)

    def with_bundles(self, rate_bps: NDArray[np.float64]) -> NDArray[np.float64]:
        """Sets the rate of every bundle from those of its members, in place; returns the array.

        The rate is their sum, unless some are slower or down: see `railyard.cluster.links`.
        """
        member = np.flatnonzero(self.bundle_of >= 0)
        index, rate = self.bundle_of[member] - self.physical, rate_bps[member]
        rate_bps[self.physical :] = np.bincount(index, weights=rate, minlength=len(self) - self.physical)
        uneven, reached = uneven_bps(rate, self.rate_bps[member], index, self.moved, self.remaining_efficiency)
        rate_bps[self.physical + uneven] = reached
        return rate_bps

    def to_physical(self, load: NDArray[np.float64]) -> NDArray[np.float64]:
        """Load on real links from load on links and bundles: a bundle's load is split over members by their rates.

        Args:
            load: float64[links], bytes or other additive quantities.

        Returns:
            float64[physical].
        """
        out = load[: self.physical].copy()
        member = np.flatnonzero(self.bundle_of >= 0)
        bundle = self.bundle_of[member]
        total = self.rate_bps[bundle]
        part = np.divide(self.rate_bps[member], total, out=np.zeros(len(member)), where=total > 0)
        out[member] += load[bundle] * part
        return out

    def scaled(self, factor: NDArray[np.float64], *, latency: NDArray[np.float64] | float = 1.0) -> LinkTable:
        """A copy whose rates are multiplied by `factor[links]`, and latencies by one factor or `latency[links]`."""
        latency_ps = np.rint(self.latency_ps * latency).astype(np.int64)
        free, reach = self.free_bps * factor, self.reach_bps / latency
        return replace(
            self,
            rate_bps=np.minimum(free, reach),
            line_bps=self.line_bps * factor,
            free_bps=free,
            reach_bps=reach,
            latency_ps=latency_ps,
        )
