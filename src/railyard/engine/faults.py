"""Faults as the core takes them: points in time at which a link's or a rank's state changes."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from railyard import _core
from railyard.engine.contract import DegradeLink, Fault, Late, SlowAccelerator
from railyard.errors import InputError, did_you_mean

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from numpy.typing import NDArray

    from railyard.cluster.links import LinkTable

_LINK_FACTOR, _RANK_SPEED, _RANK_LATE = 0, 1, 2


@dataclass(frozen=True)
class FaultColumns:
    """Changes of state; one row a change.

    Attributes:
        at_ps: int64, when.
        kind: uint8; 0: factor of a link's rate, 1: speed of a rank, 2: delay of a rank's computation in ps.
        target: int32, link or rank.
        value: float64, the new factor, speed or the delay.
        origin: int32, index of the fault that a row comes from, -1 where several overlap.
    """

    at_ps: NDArray[np.int64]
    kind: NDArray[np.uint8]
    target: NDArray[np.int32]
    value: NDArray[np.float64]
    origin: NDArray[np.int32]

    def core(self) -> _core.Faults:
        """The same for the core, which copies nothing."""
        return _core.Faults(at_ps=self.at_ps, kind=self.kind, target=self.target, value=self.value)


def placed(faults: Sequence[Fault], rank: NDArray[np.int32]) -> tuple[Fault, ...]:
    """The faults of several jobs with the ranks of the graph that all are one of.

    Args:
        faults: Their ranks count from those of the first job on.
        rank: int32[ranks of all jobs], the rank of each in the graph.

    Raises:
        InputError: A fault names a rank that does not exist.
    """
    return tuple(_placed(fault, rank, index) for index, fault in enumerate(faults))


def _placed(fault: Fault, rank: NDArray[np.int32], index: int) -> Fault:
    if isinstance(fault, DegradeLink):
        return fault
    _check_rank(fault.rank, len(rank), index)
    return replace(fault, rank=int(rank[fault.rank]))


def expand(faults: Sequence[Fault], links: LinkTable, ranks: int) -> FaultColumns:
    """Faults as changes of state; where faults of one kind overlap on one thing, their factors are multiplied.

    Args:
        faults: What goes wrong.
        links: The cluster's links; a bundle loses what its members lose.
        ranks: Number of ranks.

    Raises:
        InputError: A fault names a rank, link or tier that does not exist.
    """
    rows: list[tuple[int, int, int, float, int]] = []
    for index, fault in enumerate(faults):
        if not isinstance(fault, DegradeLink):
            _check_rank(fault.rank, ranks, index)
        if isinstance(fault, Late):
            rows.append((fault.at_ps, _RANK_LATE, fault.rank, float(fault.by_ps), index))
    rows += _speeds([fault for fault in faults if isinstance(fault, SlowAccelerator)])
    rows += _capacities([(i, fault) for i, fault in enumerate(faults) if isinstance(fault, DegradeLink)], links)
    at, kind, target, value, origin = zip(*rows, strict=True) if rows else ((),) * 5
    return FaultColumns(
        np.array(at, np.int64),
        np.array(kind, np.uint8),
        np.array(target, np.int32),
        np.array(value, np.float64),
        np.array(origin, np.int32),
    )


def _check_rank(rank: int, ranks: int, index: int) -> None:
    if not 0 <= rank < ranks:
        raise InputError("there is no such rank", key=f"faults[{index}].rank", found=rank, allowed=f"0 to {ranks - 1}")


def _speeds(faults: Sequence[SlowAccelerator]) -> Iterator[tuple[int, int, int, float, int]]:
    by_rank: dict[int, list[SlowAccelerator]] = defaultdict(list)
    for fault in faults:
        by_rank[fault.rank].append(fault)
    for rank, of_rank in by_rank.items():
        for at in _times(of_rank):
            yield at, _RANK_SPEED, rank, float(np.prod([f.factor for f in of_rank if _holds(f, at)])), -1


def _capacities(
    faults: Sequence[tuple[int, DegradeLink]], links: LinkTable
) -> Iterator[tuple[int, int, int, float, int]]:
    reached = [(fault, _links_of(fault, links, index)) for index, fault in faults]
    before = links.rate_bps
    for at in _times([fault for fault, _ in reached]):
        rate = links.rate_bps.copy()
        for fault, link in reached:
            if _holds(fault, at):
                rate[link] *= fault.factor
        rate = links.with_bundles(rate)
        for changed in np.flatnonzero(rate != before).tolist():
            nominal = links.rate_bps[changed]
            yield at, _LINK_FACTOR, changed, float(rate[changed] / nominal) if nominal > 0 else 0.0, -1
        before = rate


def _times(faults: Sequence[SlowAccelerator] | Sequence[DegradeLink]) -> list[int]:
    return sorted({f.start_ps for f in faults} | {f.end_ps for f in faults if f.end_ps is not None})


def _holds(fault: SlowAccelerator | DegradeLink, at: int) -> bool:
    return fault.start_ps <= at and (fault.end_ps is None or at < fault.end_ps)


def _links_of(fault: DegradeLink, links: LinkTable, index: int) -> NDArray[np.int32]:
    if fault.link is not None:
        if not 0 <= fault.link < links.physical:
            allowed = f"0 to {links.physical - 1}"
            raise InputError("there is no such link", key=f"faults[{index}].link", found=fault.link, allowed=allowed)
        return np.array([fault.link], np.int32)
    tiers = [name for name in links.tiers if fault.tier in (name, name.split()[-1])]
    if not tiers:
        raise InputError(
            f"the cluster has no tier `{fault.tier}`",
            key=f"faults[{index}].tier",
            found=fault.tier,
            allowed=links.tiers,
            hint=did_you_mean(str(fault.tier), links.tiers),
        )
    return np.concatenate([links.of_tier(name) for name in tiers])
