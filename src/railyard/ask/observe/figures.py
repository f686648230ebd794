"""What lies at a path as a record and its figures: traces, a run's folder, or a record's file."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from railyard.ask.observe.gather import gather
from railyard.ask.observe.measured import record_of
from railyard.ask.observe.summary import summary
from railyard.graph import Record, TaskGraph
from railyard.graph.parquet import read_record

if TYPE_CHECKING:
    from pathlib import Path

    from railyard.cluster import Cluster
    from railyard.measure.decompose import Decomposition

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
    from railyard.ask.observe.clusterfile import cluster_of  # with all of a scenario, which traces alone do not need

    return cluster_of(cluster)


def _gathered(path: Path, machine: Cluster | None) -> tuple[Record | None, dict[str, Any]]:
    """Of traces and logs."""
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
    from railyard.measure.causes import Cause
    from railyard.measure.decompose import decompose

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
        "stragglers": _late(ranks, found.straggler_events),
        "clocks": {},
        "warnings": record.meta.get("warnings", []),
    }


def _by_group(found: Decomposition) -> list[dict[str, Any]]:
    """Exposed time by class of communicator and cause."""
    rows: dict[str, dict[str, float]] = {}
    for row in found.rows:
        if row.cause in ("latency", "bandwidth", "contention"):
            causes = rows.setdefault(row.group or "unnamed", {})
            causes[row.cause] = causes.get(row.cause, 0.0) + row.share
    return [{"name": name, "exposed": sum(causes.values()), "causes": causes} for name, causes in rows.items()]


def _late(ranks: list[dict[str, Any]], events: int) -> list[dict[str, Any]]:
    late = [{"rank": one["rank"], "late_s": one["late_s"], "collectives": events} for one in ranks if one["late_s"] > 0]
    return sorted(late, key=lambda one: -one["late_s"])
