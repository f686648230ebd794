"""GraphCopies that do the same, simulated once: each communication stands for those of all copies.

All copies go through the same states when no copy could tell from what its communications meet which copy it is.
Links are of one class when they have the same rate and when the same kinds of communication put the same bytes on
them, over all copies. Where the communications of every copy use links of the same classes with the same shares, rates
that are equal in all copies satisfy the conditions of the max-min allocation, which has one solution only; so it is
enough to find the rates of the first copy, on one link of each class that carries what all copies put on it (an
equitable partition). Links on which communications cannot slow one another need not be alike. What is not so is
refused, and every copy is simulated.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

import railyard._core as _core
from railyard.cluster.links import Entities
from railyard.cluster.routes import mix
from railyard.engine.faults import FaultColumns
from railyard.engine.lowering import LoweredGraph, core_graph, core_of
from railyard.kit.quantities import ranges

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    from railyard.cluster import LinkTable
    from railyard.engine.contract import Probes
    from railyard.graph.symmetry import GraphCopies

LOWERED = np.array([-1, 1, 0, 2, 2, 3, 3])
"""By `Kind`: the order in which `lower` lists the rows of communications."""

_ROWS = ("volume_bytes", "latency_ps", "rate_cap_bps", "fair_weight", "even_latency_ps", "even_ps")


@dataclass(frozen=True, eq=False)
class Quotient:
    """The communications of the first copy, and links by class.

    Attributes:
        lowered: Of the symmetry's `graph`; a row puts on the link of a class what all copies put on each link of it.
        alone_bps: float64[entities], the rate of one with the network to itself.
        rate_bps: float64[classes].
        class_of: int64[links], class of each; the last one for links that nobody uses.
        link_bps: float64[links].
        every: Loads of all copies.
    """

    lowered: LoweredGraph
    alone_bps: NDArray[np.float64]
    rate_bps: NDArray[np.float64]
    class_of: NDArray[np.int64]
    link_bps: NDArray[np.float64]
    every: CopyLoads

    def alike(
        self, symmetry: GraphCopies, crowded: NDArray[np.uint8], start_ps: NDArray[np.int64], end_ps: NDArray[np.int64]
    ) -> bool:
        """Whether every copy met the same, at all times, on the links where communications can slow one another.

        What all copies share and ran while none of their own communications did need not be alike: rows of shared ones
        name links of every class, so that what these do to one another is complete.

        Args:
            symmetry: Whose copies.
            crowded: uint8[classes].
            start_ps: int64[n], by task of `symmetry.graph`.
            end_ps: int64[n].
        """
        every = self.every
        kept = ~unmet(symmetry, start_ps, end_ps)[every.kind]
        coarse, _ = _classes(every.link[kept], every.kind[kept], every.share[kept], self.link_bps)
        matters = np.zeros(int(coarse.max(initial=0)) + 1, np.bool_)
        matters[coarse[crowded[self.class_of] > 0]] = True
        of = coarse[every.entities.link_idx]
        met = np.where(matters[of], fingerprints(of, every.entities.link_share), 0)
        total = np.concatenate([np.zeros(1, np.uint64), np.cumsum(met, dtype=np.uint64)])
        return constant(np.diff(total[every.entities.link_ptr]), symmetry.request_ptr)


def unmet(symmetry: GraphCopies, start_ps: NDArray[np.int64], end_ps: NDArray[np.int64]) -> NDArray[np.bool_]:
    """bool[k]: shared communications that ran only while none of a copy's own did; times by task of the graph."""
    request, own = symmetry.request, np.diff(symmetry.request_ptr) > 1
    task = np.flatnonzero(request >= 0)
    kind, start, end = request[task], start_ps[task], end_ps[task]
    of_copy = own[kind]
    begun = np.searchsorted(np.sort(start[of_copy]), end, side="left")
    running = begun - np.searchsorted(np.sort(end[of_copy]), start, side="right")
    found = ~own
    found[kind[running > 0]] = False
    return found


@dataclass(frozen=True, eq=False)
class CopyLoads:
    """Loads of all copies.

    Attributes:
        entities: The communications of all copies, in the order of `GraphCopies.requests`.
        link, kind, share: Sorted by the first two: what all communications of a kind together put on a link.
    """

    entities: Entities
    link: NDArray[np.int64]
    kind: NDArray[np.int64]
    share: NDArray[np.float64]

    def link_bytes(self, symmetry: GraphCopies, links: int) -> NDArray[np.float64]:
        """float64[links], bytes on the wire, added up in the order of the whole graph: the same to the last bit."""
        entities, counts = self.entities, np.diff(symmetry.request_ptr)
        kind = np.repeat(np.arange(len(counts)), counts)
        task = np.flatnonzero(symmetry.request >= 0)
        _, first, runs = np.unique(symmetry.request[task], return_index=True, return_counts=True)
        slot = np.searchsorted(np.cumsum(symmetry.own), task[first], side="right")
        order = np.lexsort((kind, ranges(0, counts), slot[kind], LOWERED[symmetry.requests.kind]))
        lengths = np.diff(entities.link_ptr)[order]
        entry = ranges(entities.link_ptr[order], lengths)
        total = (entities.volume_bytes * runs[kind])[order]
        loads = np.repeat(total, lengths) * entities.link_share[entry]
        return np.bincount(entities.link_idx[entry], loads, links).astype(np.float64)


def by_class(symmetry: GraphCopies, lowered: LoweredGraph, links: LinkTable) -> Quotient | None:
    """Links and communications by class; None where copies take different times alone.

    Args:
        symmetry: The copies.
        lowered: Of `symmetry.requests`.
        links: Links of the cluster.
    """
    ptr = symmetry.request_ptr
    entities = lowered.entities.take(lowered.entity.astype(np.int64))
    alone = alone_bps(entities, links.rate_bps)
    if not all(constant(column, ptr) for column in (alone, *(getattr(entities, name) for name in _ROWS))):
        return None
    first = ptr[:-1]
    kind = np.repeat(np.repeat(np.arange(len(first)), np.diff(ptr)), np.diff(entities.link_ptr))
    key, at = np.unique(entities.link_idx.astype(np.int64) * len(first) + kind, return_inverse=True)
    share = np.bincount(at.ravel(), entities.link_share, len(key)).astype(np.float64)
    link, kind = np.divmod(key, max(len(first), 1))
    class_of, chosen = _classes(link, kind, share, links.rate_bps)
    entry = chosen[np.argsort(kind[chosen], kind="stable")]
    rows = Entities(
        np.concatenate([[0], np.cumsum(np.bincount(kind[entry], minlength=len(first)))]),
        class_of[link[entry]].astype(np.int32),
        share[entry],
        *(getattr(entities, name)[first] for name in _ROWS),
    )
    rate_bps = np.ones(int(class_of.max(initial=0)) + 1)
    rate_bps[class_of[link]] = links.rate_bps[link]
    words = (column[lowered.entity[first]] for column in (lowered.algorithm, lowered.protocol))
    every = CopyLoads(entities, link, kind, share)
    return Quotient(
        LoweredGraph(rows, symmetry.request, *words), alone[first], rate_bps, class_of, links.rate_bps, every
    )


def fingerprints(number: NDArray[np.integer], share: NDArray[np.float64]) -> NDArray[np.uint64]:
    """uint64[k]: a hash of each pair, to be summed."""
    found: NDArray[np.uint64] = mix(2 * number.astype(np.uint64) + np.uint64(1)) * (2 * mix(_rounded(share)) + 1)
    return found


def _rounded(values: NDArray[np.float64]) -> NDArray[np.uint64]:
    """The same number for values that differ by rounding: sums of equal shares in another order."""
    found: NDArray[np.uint64] = (values.view(np.uint64) + np.uint64(1 << 15)) >> np.uint64(16)
    return found


def constant(column: NDArray[np.generic], ptr: NDArray[np.int64]) -> bool:
    """Whether a column has one value in each stretch, but for rounding."""
    if column.dtype == np.float64:
        column = _rounded(np.ascontiguousarray(column, np.float64))
    return bool((column == np.repeat(column[ptr[:-1]], np.diff(ptr))).all())


def alone_bps(entities: Entities, rate_bps: NDArray[np.float64]) -> NDArray[np.float64]:
    """float64[m], as the core finds it."""
    alone, used = entities.rate_cap_bps.copy(), np.diff(entities.link_ptr) > 0
    if used.any():
        bound = rate_bps[entities.link_idx] / entities.link_share
        alone[used] = np.minimum(alone[used], np.minimum.reduceat(bound, entities.link_ptr[:-1][used]))
    return alone


def _classes(
    link: NDArray[np.int64], kind: NDArray[np.int64], share: NDArray[np.float64], rate_bps: NDArray[np.float64]
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Links with the same rate and the same kinds and shares, from entries sorted by link and kind.

    Returns:
        int64[links], the class of each link; and the entries of one link of each class.
    """
    used, begin, count = np.unique(link, return_index=True, return_counts=True)
    print_ = mix(rate_bps[used].view(np.uint64)) * np.uint64(2) + np.uint64(1)
    if len(used):
        print_ += np.add.reduceat(fingerprints(kind, share), begin)
    _, first, number = np.unique(print_, return_index=True, return_inverse=True)
    class_of = np.full(len(rate_bps), len(first), np.int64)
    class_of[used] = number.ravel()
    return class_of, ranges(begin[first], count[first])


@dataclass(frozen=True, eq=False)
class FirstCopyRun:
    """A run of the first copy.

    Attributes:
        result: By task of the symmetry's `graph` and by class of links.
    """

    quotient: Quotient
    result: _core.Result


def first_copy(
    symmetry: GraphCopies,
    lowered: LoweredGraph,
    links: LinkTable,
    *,
    probes: Probes,
    progress: Callable[[int, int], None] | None = None,
) -> FirstCopyRun | None:
    """Runs the first copy; None where its times are not those of all copies.

    Args:
        symmetry: The copies.
        lowered: Of `symmetry.requests`.
        links: Links of the cluster.
        probes: Links and quantities to record.
        progress: Called now and then with (tasks ended, simulated ps).

    Raises:
        Stopped: `progress` did.
    """
    found = by_class(symmetry, lowered, links)
    if found is None:
        return None
    result = of_copy(symmetry, found, contention=True, probes=probes, progress=progress)
    if result.cycle or result.stalled:
        return None
    graph, entities = core_graph(symmetry.graph, found.lowered), core_of(found.lowered.entities, found.alone_bps)
    crowded = _core.crowded_links(graph, entities, found.rate_bps).flag
    if not found.alike(symmetry, crowded, result.start_ps, result.end_ps):
        return None
    return FirstCopyRun(found, result)


def of_copy(
    symmetry: GraphCopies,
    quotient: Quotient,
    *,
    contention: bool,
    probes: Probes,
    progress: Callable[[int, int], None] | None = None,
) -> _core.Result:
    """Runs the first copy on links by class."""
    windows = probes.windows or probes.samples
    return _core.simulate(
        core_graph(symmetry.graph, quotient.lowered),
        core_of(quotient.lowered.entities, quotient.alone_bps),
        quotient.rate_bps,
        faults=FaultColumns.of(()).core(),
        seed=0,
        task_sigma=0.0,
        rank_sigma=0.0,
        contention=contention,
        probe_links=np.arange(len(quotient.rate_bps) if windows else 0, dtype=np.int32),
        probe_samples=windows,
        count_full=probes.full,
        progress=progress,
    )


@dataclass(frozen=True, eq=False)
class CopiesRun:
    """What happened, by task and link of the whole job; fields of the core's `Result`."""

    start_ps: NDArray[np.int64]
    end_ps: NDArray[np.int64]
    blocker: NDArray[np.int32]
    link_bytes: NDArray[np.float64]
    link_full_ps: NDArray[np.int64]
    probe_bytes: NDArray[np.float64]
    probe_interval_ps: int
    events: int
    idle_faults: NDArray[np.int32]

    @classmethod
    def of(cls, run: FirstCopyRun, symmetry: GraphCopies, recorded: NDArray[np.int32]) -> CopiesRun:
        """Every copy has the times of the first, every link the load of its class.

        Args:
            run: The run of the first copy.
            symmetry: The copies.
            recorded: Links whose load over time is recorded.
        """
        found, class_of, over = run.result, run.quotient.class_of, symmetry.over_tasks
        series = found.probe_bytes.reshape(-1, int(class_of.max(initial=0)) + 1)
        return cls(
            over(found.start_ps),
            over(found.end_ps),
            symmetry.among_copies(found.blocker),
            run.quotient.every.link_bytes(symmetry, len(class_of)),
            found.link_full_ps[class_of] if len(found.link_full_ps) else found.link_full_ps,
            series[:, class_of[recorded]].ravel(),
            found.probe_interval_ps,
            found.events,
            found.idle_faults,
        )
