"""Collectives that were timed against what the model expects of a cluster."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Any

import numpy as np

from railyard.ask.observe.collective_names import BUSBW
from railyard.ask.observe.drift import Drift, Seen
from railyard.engine.flow import FLOW
from railyard.graph import Job, Kind, Label, TaskGraph
from railyard.graph.task_graph import CollectiveKind, Communicators, Stream

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from railyard.ask.observe.reader import Timed
    from railyard.cluster import Cluster

_KINDS = {kind.name.lower(): kind for kind in CollectiveKind}


def expected_s(cluster: Cluster, kind: str, size_bytes: int, ranks: int, hosts: int = 0) -> float | None:
    """Seconds of one collective with the network to itself, over the first ranks of the first hosts of a cluster.

    Args:
        cluster: The machine.
        kind: all_reduce and so on.
        size_bytes: As in nccl-tests: the larger of a rank's two buffers.
        ranks: How many; 0: all.
        hosts: Over which they lie, as many on each; 0: over as few as hold them.

    Returns:
        None where the cluster has too few, or the model does not know such a collective.
    """
    count = ranks or cluster.ranks
    if not 2 <= count <= cluster.ranks:
        return None
    members = _members(cluster, count, hosts)
    return None if members is None else collective_s(cluster, kind, size_bytes, members)


def _members(cluster: Cluster, count: int, hosts: int) -> NDArray[np.int32] | None:
    """The first accelerators of each host; None where they are not as many on each, or there are too few hosts."""
    if hosts < 1:
        return np.arange(count, dtype=np.int32)
    each, rest = divmod(count, hosts)
    if rest or each > cluster.ranks_per_server or hosts * cluster.ranks_per_server > cluster.ranks:
        return None
    first = cluster.ranks_per_server * np.arange(hosts, dtype=np.int32)
    return (first[:, None] + np.arange(each, dtype=np.int32)).ravel().astype(np.int32)


def collective_s(cluster: Cluster, kind: str, size_bytes: int, members: NDArray[np.int32]) -> float | None:
    """Seconds of one collective with the network to itself, between some ranks of a cluster.

    Args:
        cluster: The machine.
        kind: all_reduce and so on.
        size_bytes: As in nccl-tests: the larger of a rank's two buffers.
        members: int32[ranks of the communicator], in its order; two at least.

    Returns:
        None where the model does not know such a collective.
    """
    if kind not in _KINDS or size_bytes < 1:
        return None
    graph = TaskGraph(
        ranks=cluster.ranks,
        kind=np.array([Kind.COLLECTIVE], np.uint8),
        rank=np.zeros(1, np.int32),
        peer=np.full(1, -1, np.int32),
        duration_ps=np.zeros(1, np.int64),
        size_bytes=np.array([size_bytes], np.int64),
        count=np.ones(1, np.int32),
        collective=np.array([_KINDS[kind]], np.uint8),
        stream=np.array([Stream.GRADIENT], np.uint8),
        label=np.zeros(1, np.int32),
        dep_ptr=np.zeros(2, np.int64),
        labels=[Label("trace", kind)],
        communicators=Communicators(np.array([0, len(members)], np.int64), members, ["dp"]),
    )
    return FLOW.simulate([Job(graph)], cluster).makespan_ps * 1e-12


def compared(timings: Sequence[Timed], cluster: Cluster | None) -> list[dict[str, Any]]:
    """Timings alike in kind, size and ranks: the median, its busbw and, with a cluster, what is expected of it."""
    alike: dict[tuple[str, str, int, int, int], list[Timed]] = {}
    for one in timings:
        alike.setdefault((one.group, one.kind, one.size_bytes, one.ranks, one.hosts), []).append(one)
    rows, known = [], {}
    for (group, kind, size, ranks, hosts), those in alike.items():
        seconds = float(np.median([one.seconds for one in those]))
        count = ranks or (cluster.ranks if cluster else 0)
        factor = BUSBW[kind](count) if kind in BUSBW and count > 1 else None
        written = [one.busbw_bps for one in those if one.busbw_bps is not None]
        if cluster is not None and (kind, size, ranks, hosts) not in known:
            known[kind, size, ranks, hosts] = expected_s(cluster, kind, size, ranks, hosts)
        should = known.get((kind, size, ranks, hosts))
        rows.append(
            {
                "kind": kind or "unknown",
                "communicator": group,
                "size_bytes": size,
                "ranks": ranks,
                "count": len(those),
                "median_s": seconds,
                "busbw_bps": float(np.median(written)) if written else _rate(size, seconds, factor),
                "expected_s": should,
                "expected_busbw_bps": None if should is None else _rate(size, should, factor),
                "measured_over_expected": None if should is None else seconds / should,
                "wrong": sum(one.wrong for one in those),
            }
        )
    return rows


def hourly(timings: Sequence[Timed], cluster: Cluster) -> dict[str, Any]:
    """Errors by hour of the model and of constants that are learned on the way; empty where no time of day is known.

    Args:
        timings: Those with `at_s` count.
        cluster: What is expected of.
    """
    known: dict[tuple[str, int, int, int], float | None] = {}
    seen = []
    for one in sorted((one for one in timings if np.isfinite(one.at_s)), key=lambda one: one.at_s):
        key = (one.kind, one.size_bytes, one.ranks, one.hosts)
        if key not in known:
            known[key] = expected_s(cluster, *key)
        should = known[key]
        if should is not None and one.seconds > 0:
            seen.append(
                Seen(one.at_s, f"{one.kind} {one.ranks or cluster.ranks}{_over(one.hosts)}", should, one.seconds)
            )
    drift = Drift()
    drift.take(seen)
    if not drift.hours:
        return {}
    return {
        "hours": [hour.plain() for hour in drift.hours],
        "constants": [
            {"class": name, "extra_s": one.extra_s, "factor": one.factor, "noise": one.noise, "collectives": one.count}
            for name, one in sorted(drift.classes.items())
        ],
        "changes": [asdict(change) for change in drift.changes],
    }


def _over(hosts: int) -> str:
    return f" over {hosts}" if hosts else ""


def _rate(size_bytes: int, seconds: float, factor: float | None) -> float | None:
    return None if factor is None or seconds <= 0 or not size_bytes else 8 * size_bytes * factor / seconds
