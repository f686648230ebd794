"""What a measured record says, in the measures that simulated runs are given in.

utilization   time in which a rank runs kernels that are not communication / time of the trace
exposed       time in which it only communicates / time of the trace
idle          time in which it does neither, copies included / time of the trace
overlap       communication behind which it computes / all communication
late          of collectives that several ranks were traced in: how much later than the median member a rank came
busbw         of a collective from the start of its last traced member to its end, by the factor of nccl-tests
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from railyard.ask.observe.collective_names import BUSBW
from railyard.ask.observe.intervals import common, length, union
from railyard.ask.observe.kernels import COMMUNICATION, COMPUTE

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from railyard.ask.observe.intervals import Spans
    from railyard.graph import Record

PS = 1e-12


def summary(record: Record) -> dict[str, Any]:
    """Figures of a record of kernels, as plain values; times in s, rates in bit/s."""
    span = int(record.end_ps.max() - record.start_ps.min())
    busy = _busy(record)
    ranks = [_rank(rank, one, span) for rank, one in busy.items()]
    met = _collectives(record)
    mean = {key: float(np.mean([one[key] for one in ranks])) for key in ("utilization", "exposed", "idle", "overlap")}
    return {
        "span_s": span * PS,
        **mean,
        "ranks": ranks,
        "communicators": _communicators(record, busy, span),
        "collectives": _rates(record, met),
        "stragglers": _late(record, met),
        "clocks": record.meta.get("clocks", {}),
        "warnings": record.meta.get("warnings", []),
    }


@dataclass(frozen=True)
class Busy:
    """When a rank was busy.

    Attributes:
        compute: Running kernels that are not communication.
        moved: Communicating.
        either: With anything, copies included.
        groups: Communicating, by communicator.
        kernels: How many it ran.
        communications: How many of each communicator.
    """

    compute: Spans
    moved: Spans
    either: Spans
    groups: dict[int, Spans]
    kernels: int
    communications: dict[int, int]


def _busy(record: Record) -> dict[int, Busy]:
    phase = np.array([label.phase for label in record.labels])[record.what]
    group = record.column("communicator")
    order = np.argsort(record.who, kind="stable")
    found = {}
    for mine in np.split(order, np.flatnonzero(np.diff(record.who[order])) + 1):
        start, end, of, what = record.start_ps[mine], record.end_ps[mine], group[mine], phase[mine]
        compute, moved = what == COMPUTE, what == COMMUNICATION
        groups = [int(one) for one in np.unique(of[of >= 0])]
        found[int(record.who[mine[0]])] = Busy(
            union(start[compute], end[compute]),
            union(start[moved], end[moved]),
            union(start, end),
            {one: union(start[of == one], end[of == one]) for one in groups},
            len(mine),
            {one: int((of == one).sum()) for one in groups},
        )
    return found


def _rank(rank: int, busy: Busy, span: int) -> dict[str, Any]:
    hidden, moved, every = common(busy.compute, busy.moved), length(busy.moved), max(span, 1)
    return {
        "rank": rank,
        "utilization": length(busy.compute) / every,
        "exposed": (moved - hidden) / every,
        "idle": 1 - length(busy.either) / every,
        "overlap": hidden / max(moved, 1),
        "communication_s": moved * PS,
        "kernels": busy.kernels,
    }


def _communicators(record: Record, busy: dict[int, Busy], span: int) -> list[dict[str, Any]]:
    """Exposed time by communicator, mean over the ranks that were traced in it."""
    rows = []
    for number, about in enumerate(record.meta["communicators"]):
        members = {rank: one for rank, one in busy.items() if number in one.groups}
        exposed = [
            (length(one.groups[number]) - common(one.groups[number], one.compute)) / max(span, 1)
            for one in members.values()
        ]
        rows.append(
            {
                "name": about["name"] or "unnamed",
                "ranks": about["ranks"],
                "traced": list(members),
                "communications": sum(one.communications[number] for one in members.values()),
                "exposed": float(np.mean(exposed)) if exposed else 0.0,
            }
        )
    return rows


@dataclass(frozen=True)
class Met:
    """Collectives, m of them, and the rows of their members.

    Attributes:
        rows: int64[n], collective by collective, in each by start.
        first: int64[m], the first row of each.
        count: int64[m], traced members.
        group: int64[m], communicator.
        label: int64[m].
    """

    rows: NDArray[np.int64]
    first: NDArray[np.int64]
    count: NDArray[np.int64]
    group: NDArray[np.int64]
    label: NDArray[np.int64]

    @property
    def last(self) -> NDArray[np.int64]:
        """int64[m], the row of the member that came last."""
        return np.asarray(self.rows[self.first + self.count - 1], np.int64)


def _collectives(record: Record) -> Met:
    moves = np.array([label.phase == COMMUNICATION for label in record.labels], np.bool_)[record.what]
    rows = np.flatnonzero(moves & (record.column("sequence") >= 0))
    keys = [record.column("communicator")[rows], record.what[rows], record.column("sequence")[rows]]
    order = np.lexsort((record.start_ps[rows], *reversed(keys)))
    rows = rows[order]
    new = np.zeros(len(rows), np.bool_)
    new[:1] = True
    for key in keys:
        new[1:] |= np.diff(key[order]) != 0
    first = np.flatnonzero(new)
    count = np.diff(np.r_[first, len(rows)])
    return Met(rows, first, count, keys[0][order][first].astype(np.int64), keys[1][order][first].astype(np.int64))


def _rates(record: Record, met: Met) -> list[dict[str, Any]]:
    """Collectives alike in kind, communicator and size."""
    if not len(met.first):
        return []
    about = record.meta["communicators"]
    end = np.maximum.reduceat(record.end_ps[met.rows], met.first)
    seconds = (end - record.start_ps[met.last]) * PS
    size = np.maximum.reduceat(record.size_bytes[met.rows], met.first)
    kinds = np.array([label.op for label in record.labels])[met.label]
    names, kind = np.unique(kinds, return_inverse=True)
    alike, inverse = np.unique(np.stack([kind.ravel(), met.group, size]), axis=1, return_inverse=True)
    order = np.argsort(inverse.ravel(), kind="stable")
    listed = []
    for (which, group, size_bytes), those in zip(
        alike.T.tolist(), np.split(order, np.cumsum(np.bincount(inverse.ravel()))[:-1]), strict=True
    ):
        name, traced = str(names[which]), int(met.count[those].max())
        members = len(about[group]["ranks"]) or traced
        median = float(np.median(seconds[those]))
        rate = 8 * size_bytes / median if size_bytes and median > 0 else None
        factor = BUSBW[name](members) if name in BUSBW and members > 1 else None
        listed.append(
            {
                "kind": name,
                "communicator": about[group]["name"] or "unnamed",
                "members": members,
                "traced": traced,
                "size_bytes": size_bytes,
                "count": len(those),
                "median_s": median,
                "total_s": float(seconds[those].sum()),
                "algbw_bps": rate,
                "busbw_bps": None if rate is None or factor is None else rate * factor,
            }
        )
    return sorted(listed, key=lambda one: -one["total_s"])


def _late(record: Record, met: Met) -> list[dict[str, Any]]:
    """Ranks that came last to collectives that several were traced in, the worst first."""
    several = met.count > 1
    first, count, start = met.first[several], met.count[several], record.start_ps[met.rows]
    middle = (start[first + (count - 1) // 2] + start[first + count // 2]) / 2
    late = start[first + count - 1] - middle
    who = record.who[met.last[several]]
    found = [
        {
            "rank": int(rank),
            "last": int((who == rank).sum()),
            "late_s": float(late[who == rank].sum()) * PS,
            "collectives": int(several.sum()),
        }
        for rank in np.unique(who)
    ]
    return sorted(found, key=lambda one: -one["late_s"])
