"""Ranks that compute slower than others do the same work, and the part that they are: an accelerator, a host, a stage.

The pace of a rank is the time of its computations, without what communications took from them, over that of a nominal
accelerator. A part can only make it slower: the pace of the fastest quarter is what all should have, and the spread
between ranks is that between those of one host and stage, so that neither a slow stage nor a slow host hides itself.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from railyard.ask.observe.diagnosis.peers import MAD_TO_SIGMA
from railyard.measure.result.section import EIGHT_OF_TEN

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from numpy.typing import NDArray

    from railyard.graph import Record, TaskGraph

    Floats = NDArray[np.float64]

LEAST = 0.01
"""Least share of its time by which a rank is slow."""

SPREADS = 6.0
"""Standard deviations between ranks that are no reason: their estimate from few ranks is a fifth too small at times."""

QUARTER_OF_NORMAL = 0.6745
"""Standard deviations from the lower quartile of a normal law to its middle."""

ALIKE = 0.02
"""Accelerators of a slow part differ at most by so much, or by what healthy ones differ by."""


@dataclass(frozen=True)
class Slow:
    """A slow part.

    Attributes:
        spreads: By how many standard deviations the fastest of them is slower.
    """

    name: str
    kind: str
    ranks: tuple[int, ...]
    ratio: float
    spreads: float


@dataclass(frozen=True)
class Paces:
    """Paces of ranks.

    Attributes:
        relative: float64[ranks], over what all should have; nan of ranks that compute nothing.
    """

    relative: Floats
    sigma: float

    @property
    def slow(self) -> list[int]:
        """Ranks that are too slow."""
        far = np.nan_to_num(self.relative, nan=0.0) > 1 + max(LEAST, SPREADS * self.sigma)
        return [int(rank) for rank in np.flatnonzero(far)]


def computed_ps(record: Record) -> NDArray[np.int64]:
    """int64[tasks], how long each computation takes without concurrent communications; 0 for other tasks."""
    slowed = record.column("slowed_ps") if record.has("slowed_ps") else 0
    took = np.where(record.graph.on_accelerator & record.ended, record.end_ps - record.start_ps - slowed, 0)
    return np.asarray(np.maximum(took, 0), np.int64)


def paces(record: Record) -> Floats:
    """float64[ranks], time over nominal time; nan of ranks that compute nothing."""
    graph, took = record.graph, computed_ps(record)
    mine = graph.on_accelerator & record.ended
    spent = np.bincount(graph.rank[mine], weights=took[mine], minlength=graph.ranks)
    nominal = np.bincount(graph.rank[mine], weights=graph.duration_ps[mine], minlength=graph.ranks)
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.where(nominal > 0, spent / nominal, np.nan)


def stages(graph: TaskGraph) -> list[tuple[int, ...]]:
    """Ranks that compute the same layers, in the order of these; empty where all do."""
    layer = np.array([label.layer for label in graph.labels], np.int64)[graph.label]
    mine = graph.on_accelerator & (layer >= 0)
    found: dict[int, set[int]] = {}
    for rank, one in np.unique(np.stack([graph.rank[mine], layer[mine]], axis=1), axis=0).tolist():
        found.setdefault(rank, set()).add(one)
    alike: dict[tuple[int, ...], list[int]] = {}
    for rank, layers in sorted(found.items()):
        alike.setdefault(tuple(sorted(layers)), []).append(rank)
    return [tuple(ranks) for _, ranks in sorted(alike.items())] if len(alike) > 1 else []


def relative(pace: Floats, groups: Sequence[Sequence[int]], per_host: int = 0) -> Paces:
    """Paces over that of healthy ranks.

    Args:
        pace: float64[ranks].
        groups: Ranks that do the same work; none: all do.
        per_host: Accelerators of a server; 0 where that is not known.
    """
    known = np.isfinite(pace)
    if known.sum() < 3:
        return Paces(np.where(known, 1.0, np.nan), 0.0)
    rest = []
    for ranks in _cells(groups or [np.flatnonzero(known).tolist()], per_host):
        mine = pace[list(ranks)]
        mine = mine[np.isfinite(mine)]
        rest.append(np.abs(mine / np.median(mine) - 1) if len(mine) > 2 else np.empty(0))
    sigma = _spread(np.concatenate(rest), few=per_host > 2)
    usual = float(np.quantile(pace[known], 0.25)) * (1 + QUARTER_OF_NORMAL * sigma)
    return Paces(pace / usual, sigma)


def agreed(one: Paces, other: Paces) -> Paces:
    """Paces that two ways to read a record agree on: of each rank the milder, and the larger spread."""
    return Paces(np.fmin(one.relative, other.relative), max(one.sigma, other.sigma))


def _spread(off: Floats, *, few: bool) -> float:
    """The standard deviation of healthy ranks from deviations within cells, of few ranks each or of many.

    The median alone may be far too small of few ranks.
    """
    if not len(off):
        return 0.0
    middle = MAD_TO_SIGMA * float(np.median(off))
    return max(middle, float(np.quantile(off, 0.8)) / EIGHT_OF_TEN) if few else middle


def _cells(groups: Sequence[Sequence[int]], per_host: int) -> list[list[int]]:
    """Ranks of one host that do the same work; of any host where these are too few to differ."""
    found: dict[tuple[int, int], list[int]] = {}
    for number, ranks in enumerate(groups):
        for rank in ranks:
            found.setdefault((number, rank // per_host if per_host > 2 else 0), []).append(rank)
    enough = [ranks for ranks in found.values() if len(ranks) > 2]
    return enough or [list(ranks) for ranks in groups]


def slow_parts(found: Paces, groups: Sequence[Sequence[int]], per_host: int) -> list[Slow]:
    """Stages and hosts all of whose accelerators are slow, and equally; and single accelerators.

    Args:
        found: Paces.
        groups: Stages.
        per_host: Accelerators of a server; 0 where that is not known.
    """
    left = set(found.slow)
    listed = []
    for name, kind, ranks in sorted(_larger(groups, per_host, len(found.relative)), key=lambda one: -len(one[2])):
        if set(ranks) <= left and _alike(found, ranks) and not _rather_hosts(ranks, per_host, kind):
            listed.append(_part(found, name, kind, ranks))
            left -= set(ranks)
    listed += [_part(found, f"rank {rank}", "accelerator", (rank,)) for rank in sorted(left)]
    return sorted(listed, key=lambda one: -one.ratio * len(one.ranks))


def _larger(groups: Sequence[Sequence[int]], per_host: int, count: int) -> Iterator[tuple[str, str, tuple[int, ...]]]:
    for number, ranks in enumerate(groups):
        if len(ranks) > 1:
            yield f"stage {number}", "stage", tuple(ranks)
    if per_host > 1:
        for host in range(count // per_host):
            yield f"server {host}", "host", tuple(range(host * per_host, (host + 1) * per_host))


def _alike(found: Paces, ranks: Sequence[int]) -> bool:
    mine = found.relative[list(ranks)]
    return bool(mine.max() < (1 + max(ALIKE, 2 * SPREADS * found.sigma)) * mine.min())


def _rather_hosts(ranks: Sequence[int], per_host: int, kind: str) -> bool:
    """Whether a stage is exactly one host: the machine is the likelier cause."""
    return kind == "stage" and len(ranks) == per_host and ranks[0] % per_host == 0 and ranks[-1] - ranks[0] < per_host


def _part(found: Paces, name: str, kind: str, ranks: tuple[int, ...]) -> Slow:
    mine = found.relative[list(ranks)]
    spreads = float(mine.min() - 1) / max(found.sigma, LEAST / SPREADS)
    return Slow(name, kind, ranks, float(mine.mean()), spreads)
