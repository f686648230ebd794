"""What a measured record says, in the measures that simulated runs are given in.

utilization   time in which a rank runs kernels that are not communication / time of the trace
exposed       time in which it only communicates / time of the trace
idle          time in which it does neither, copies included / time of the trace
overlap       communication behind which it computes / all communication
late          of collectives that several ranks were traced in: how much later than the median member a rank came
busbw         of a collective from the start of its last traced member to its end, by the factor of nccl-tests
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from railyard.observe.collective_names import BUSBW
from railyard.observe.intervals import common, length, union
from railyard.observe.reader import COMMUNICATION, COMPUTE

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from railyard.graph import Record

PS = 1e-12


def summary(record: Record) -> dict[str, Any]:
    """Figures of a record of kernels, as plain values; times in s, rates in bit/s."""
    phases = np.array([label.phase for label in record.labels])[record.what]
    span = int(record.end_ps.max() - record.start_ps.min())
    ranks = [_rank(record, phases, int(rank), span) for rank in np.unique(record.who)]
    met = _collectives(record, phases)
    mean = {key: float(np.mean([one[key] for one in ranks])) for key in ("utilization", "exposed", "idle", "overlap")}
    return {
        "span_s": span * PS,
        **mean,
        "ranks": ranks,
        "communicators": _communicators(record, phases, span),
        "collectives": _rates(record, met),
        "stragglers": _late(record, met),
        "clocks": record.meta.get("clocks", {}),
        "warnings": record.meta.get("warnings", []),
    }


def _spans(record: Record, chosen: NDArray[np.bool_]) -> NDArray[np.int64]:
    return union(record.start_ps[chosen], record.end_ps[chosen])


def _rank(record: Record, phases: NDArray[Any], rank: int, span: int) -> dict[str, Any]:
    mine = record.who == rank
    compute = _spans(record, mine & (phases == COMPUTE))
    moved = _spans(record, mine & (phases == COMMUNICATION))
    hidden, whole = common(compute, moved), max(span, 1)
    busy = length(_spans(record, mine))
    return {
        "rank": rank,
        "utilization": length(compute) / whole,
        "exposed": (length(moved) - hidden) / whole,
        "idle": 1 - busy / whole,
        "overlap": hidden / max(length(moved), 1),
        "communication_s": length(moved) * PS,
        "kernels": int(mine.sum()),
    }


def _communicators(record: Record, phases: NDArray[Any], span: int) -> list[dict[str, Any]]:
    """Exposed time by communicator, mean over the ranks that were traced in it."""
    column, rows = record.column("communicator"), []
    for number, about in enumerate(record.meta["communicators"]):
        members = np.unique(record.who[column == number])
        exposed = []
        for rank in members:
            mine = record.who == rank
            moved = _spans(record, mine & (column == number))
            hidden = common(moved, _spans(record, mine & (phases == COMPUTE)))
            exposed.append((length(moved) - hidden) / max(span, 1))
        rows.append(
            {
                "name": about["name"] or "unnamed",
                "ranks": about["ranks"],
                "traced": members.tolist(),
                "communications": int((column == number).sum()),
                "exposed": float(np.mean(exposed)),
            }
        )
    return rows


Met = dict[tuple[int, int, int], "NDArray[np.int64]"]
"""Rows of each collective, by communicator, label and number."""


def _collectives(record: Record, phases: NDArray[Any]) -> Met:
    rows = np.flatnonzero((phases == COMMUNICATION) & (record.column("sequence") >= 0))
    keys = np.stack([record.column("communicator")[rows], record.what[rows], record.column("sequence")[rows]], axis=1)
    found: dict[tuple[int, int, int], list[int]] = {}
    for key, row in zip(map(tuple, keys.tolist()), rows.tolist(), strict=True):
        found.setdefault(key, []).append(row)
    starts = {key: np.array(those, np.int64) for key, those in found.items()}
    return {key: those[np.argsort(record.start_ps[those], kind="stable")] for key, those in starts.items()}


def _rates(record: Record, met: Met) -> list[dict[str, Any]]:
    """Collectives alike in kind, communicator and size."""
    about = record.meta["communicators"]
    like: dict[tuple[str, int, int], list[tuple[float, int]]] = {}
    for (group, label, _), rows in met.items():
        seconds = float(record.end_ps[rows].max() - record.start_ps[rows].max()) * PS
        size = int(record.size_bytes[rows].max())
        like.setdefault((record.labels[label].op, group, size), []).append((seconds, len(rows)))
    listed = []
    for (kind, group, size), those in sorted(like.items(), key=lambda item: -sum(one for one, _ in item[1])):
        members = len(about[group]["ranks"]) or max(count for _, count in those)
        seconds = float(np.median([one for one, _ in those]))
        rate = 8 * size / seconds if size and seconds > 0 else None
        factor = BUSBW[kind](members) if kind in BUSBW and members > 1 else None
        listed.append(
            {
                "kind": kind,
                "communicator": about[group]["name"] or "unnamed",
                "members": members,
                "traced": max(count for _, count in those),
                "size_bytes": size,
                "count": len(those),
                "median_s": seconds,
                "algbw_bps": rate,
                "busbw_bps": None if rate is None or factor is None else rate * factor,
            }
        )
    return listed


def _late(record: Record, met: Met) -> list[dict[str, Any]]:
    """Ranks that came last to collectives that several were traced in, the worst first."""
    total: dict[int, list[int]] = {}
    for rows in met.values():
        if len(rows) < 2:
            continue
        start = record.start_ps[rows]
        total.setdefault(int(record.who[rows[-1]]), []).append(int(start[-1] - np.median(start)))
    found = [
        {
            "rank": rank,
            "last": len(late),
            "late_s": sum(late) * PS,
            "collectives": sum(len(r) > 1 for r in met.values()),
        }
        for rank, late in total.items()
    ]
    return sorted(found, key=lambda one: -one["late_s"])
