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

from railyard.ask.observe.gather import gather
from railyard.ask.observe.kernels import BUSBW, COMMUNICATION, COMPUTE, communicating, starts_of
from railyard.ask.observe.measured import record_of
from railyard.graph import Record, TaskGraph
from railyard.graph.parquet import read_record

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Spans = NDArray[np.int64]
    from pathlib import Path

    from railyard.cluster import Cluster
    from railyard.graph import Record
    from railyard.measure.decompose import Decomposition


def union(start: NDArray[np.int64], end: NDArray[np.int64]) -> Spans:
    """int64[m, 2], what any of the intervals covers, as intervals that do not touch, by time."""
    order = np.argsort(start, kind="stable")
    begin, reach = start[order], np.maximum.accumulate(end[order]) if len(end) else end
    if not len(begin):
        return np.empty((0, 2), np.int64)
    first = np.r_[True, begin[1:] > reach[:-1]]
    last = np.r_[first[1:], True]
    return np.stack([begin[first], reach[last]], axis=1)


def length(spans: Spans) -> int:
    """Total length of the spans."""
    return int((spans[:, 1] - spans[:, 0]).sum())


def common(one: Spans, other: Spans) -> int:
    """Length of the time that both cover."""
    both = union(np.concatenate([one[:, 0], other[:, 0]]), np.concatenate([one[:, 1], other[:, 1]]))
    return length(one) + length(other) - length(both)


PS = 1e-12


def summary(record: Record) -> dict[str, Any]:
    """Figures of a record of kernels, as plain values; times in s, rates in bit/s."""
    span = int(record.end_ps.max() - record.start_ps.min())
    busy = _busy(record)
    ranks = [_rank(rank, one, span) for rank, one in busy.items()]
    collectives = _collectives(record)
    mean = {key: float(np.mean([one[key] for one in ranks])) for key in ("utilization", "exposed", "idle", "overlap")}
    return {
        "span_s": span * PS,
        **mean,
        "ranks": ranks,
        "communicators": _communicators(record, busy, span),
        "collectives": _rates(record, collectives),
        "stragglers": _late(record, collectives),
        "clocks": record.meta.get("clocks", {}),
        "warnings": record.meta.get("warnings", []),
    }


@dataclass(frozen=True)
class Busy:
    """Intervals in which a rank was busy."""

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
class Collectives:
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


def _collectives(record: Record) -> Collectives:
    rows = np.flatnonzero(communicating(record) & (record.column("sequence") >= 0))
    keys = [record.column("communicator")[rows], record.what[rows], record.column("sequence")[rows]]
    order = np.lexsort((record.start_ps[rows], *reversed(keys)))
    rows = rows[order]
    first = starts_of(*(key[order] for key in keys))
    count = np.diff(np.r_[first, len(rows)])
    return Collectives(
        rows, first, count, keys[0][order][first].astype(np.int64), keys[1][order][first].astype(np.int64)
    )


def _rates(record: Record, collectives: Collectives) -> list[dict[str, Any]]:
    if not len(collectives.first):
        return []
    about = record.meta["communicators"]
    end = np.maximum.reduceat(record.end_ps[collectives.rows], collectives.first)
    seconds = (end - record.start_ps[collectives.last]) * PS
    size = np.maximum.reduceat(record.size_bytes[collectives.rows], collectives.first)
    kinds = np.array([label.op for label in record.labels])[collectives.label]
    names, kind = np.unique(kinds, return_inverse=True)
    alike, inverse = np.unique(np.stack([kind.ravel(), collectives.group, size]), axis=1, return_inverse=True)
    order = np.argsort(inverse.ravel(), kind="stable")
    listed = []
    for (which, group, size_bytes), those in zip(
        alike.T.tolist(), np.split(order, np.cumsum(np.bincount(inverse.ravel()))[:-1]), strict=True
    ):
        name, traced = str(names[which]), int(collectives.count[those].max())
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


def _late(record: Record, collectives: Collectives) -> list[dict[str, Any]]:
    """Ranks that came last to collectives that several were traced in, the worst first."""
    several = collectives.count > 1
    first, count, start = collectives.first[several], collectives.count[several], record.start_ps[collectives.rows]
    middle = (start[first + (count - 1) // 2] + start[first + count // 2]) / 2
    late = start[first + count - 1] - middle
    who = record.who[collectives.last[several]]
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


TIMELINE = "timeline.parquet"


def record_file(path: Path) -> Path | None:
    """The record of tasks at a path; None where there are traces."""
    if path.is_dir() and (path / TIMELINE).is_file():
        return path / TIMELINE
    return path if path.is_file() and path.suffix == ".parquet" else None


def observed(path: Path, cluster: Path | None = None) -> tuple[Record | None, dict[str, Any]]:
    """The record, None where there are only logs, and the figures.

    Args:
        path: Of traces, logs, a run or a record.
        cluster: File of the cluster, of which collectives that were timed are expected.

    Raises:
        InputError: Nothing there can be read, the record holds too little, or the cluster's file is wrong.
    """
    machine = None if cluster is None else _machine(cluster)
    file = record_file(path)
    if file is None:
        return _gathered(path, machine)
    record = read_record(file)
    if isinstance(record.work, TaskGraph):
        return record, _simulated(record)
    record.require("what a trace says", "communicator", "sequence", "stream")
    return record, summary(record)


def _machine(cluster: Path) -> Cluster:
    from railyard.ask.observe.answer import cluster_of  # with all of a scenario, which traces alone do not need

    return cluster_of(cluster)


def _gathered(path: Path, machine: Cluster | None) -> tuple[Record | None, dict[str, Any]]:
    from railyard.ask.observe.expected import compared, hourly

    found = gather(path)
    traced = any(piece.kernels for piece in found.pieces)
    logs = any(piece.timings or piece.edges or piece.counts for piece in found.pieces)
    record = record_of(found) if traced or not logs else None
    figures: dict[str, Any] = {"warnings": found.remarks} if record is None else summary(record)
    timings = [one for piece in found.pieces for one in piece.timings]
    counts = sorted((one for piece in found.pieces for one in piece.counts), key=lambda one: (-one.value, one.part))
    edges = [one for piece in found.pieces for one in piece.edges]
    about = {
        "timings": compared(timings, machine),
        **({} if machine is None else hourly(timings, machine)),
        "edges": [
            {
                "communicator": one.group,
                "channel": one.channel,
                "source": one.source,
                "target": one.target,
                "via": one.via,
                "pattern": one.pattern,
            }
            for one in edges
        ],
        "counts": [{"name": one.name, "part": one.part, "value": one.value} for one in counts],
    }
    return record, {**figures, **{key: value for key, value in about.items() if value}}


def _simulated(record: Record) -> dict[str, Any]:
    """The same keys for a record with its task graph; exposed time has causes there."""
    from railyard.measure.decompose import Cause, decompose

    found = decompose(record)
    step = max(found.step_ps, 1)
    exposed = [Cause.LATENCY, Cause.BANDWIDTH, Cause.CONTENTION]
    shares = found.by_rank_ps / step
    ranks = [
        {
            "rank": rank,
            "utilization": float(row[Cause.COMPUTE]),
            "exposed": float(row[exposed].sum()),
            "idle": float(1 - row[Cause.COMPUTE] - row[exposed].sum()),
            "late_s": float(found.waited_for_ps[rank] * 1e-12),
        }
        for rank, row in enumerate(shares)
    ]
    return {
        "span_s": found.step_s,
        "utilization": float(shares[:, Cause.COMPUTE].mean()),
        "exposed": float(shares[:, exposed].sum(axis=1).mean()),
        "idle": float(1 - shares[:, [Cause.COMPUTE, *exposed]].sum(axis=1).mean()),
        "ranks": ranks,
        "communicators": _by_group(found),
        "collectives": [],
        "stragglers": _figures_late(ranks, found.straggler_events),
        "clocks": {},
        "warnings": record.meta.get("warnings", []),
    }


def _by_group(found: Decomposition) -> list[dict[str, Any]]:
    rows: dict[str, dict[str, float]] = {}
    for row in found.rows:
        if row.cause in ("latency", "bandwidth", "contention"):
            causes = rows.setdefault(row.group or "unnamed", {})
            causes[row.cause] = causes.get(row.cause, 0.0) + row.share
    return [{"name": name, "exposed": sum(causes.values()), "causes": causes} for name, causes in rows.items()]


def _figures_late(ranks: list[dict[str, Any]], events: int) -> list[dict[str, Any]]:
    late = [{"rank": one["rank"], "late_s": one["late_s"], "collectives": events} for one in ranks if one["late_s"] > 0]
    return sorted(late, key=lambda one: -one["late_s"])
