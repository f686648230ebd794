"""Collectives that were timed against what the model expects of a cluster."""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from railyard.ask.observe.kernels import BUSBW
from railyard.engine.flow import FLOW
from railyard.graph import Job, Kind, Label, TaskGraph
from railyard.graph.task_graph import CollectiveKind, Communicators, Stream

if TYPE_CHECKING:
    from collections.abc import Iterable

    from numpy.typing import NDArray

    Floats = NDArray[np.float64]
    from collections.abc import Sequence

    from railyard.ask.observe.reader import Timed
    from railyard.cluster import Cluster


HOUR_S = 3600.0

PRIOR_FACTOR, PRIOR_EXTRA_S = 0.15, 30e-6
"""Spreads of what the model may be wrong by before anything was measured: about its worst published classes, and the
latency of a slow stack (docs/validation/collectives.md)."""

WALK_FACTOR, WALK_EXTRA_S = 0.02, 2e-6
"""Drift in an hour, which is forgotten."""

NOISE = 0.05
"""Spread of one collective's time before the class has shown its spread."""

FOLLOWED = 0.02
"""Weight of the latest collective in the class's spread."""

OUTLIER = 3.0
"""Spreads beyond which a collective counts for no more."""

LEAST, SURE = 0.01, 2.0
"""Share of the prediction, and spreads of its estimate: applied values change only by more than both."""


@dataclass(frozen=True)
class TimedClass:
    """A collective that ended.

    Attributes:
        expected_s: What the model expects of it, above 0.
        seconds: What it took, above 0.
    """

    at_s: float
    name: str
    expected_s: float
    seconds: float


@dataclass(frozen=True)
class ConstantsChange:
    """Constants of a class were changed.

    Attributes:
        before, after: Predicted over expected time of the collective at hand.
    """

    at_s: float
    name: str
    before: float
    after: float


@dataclass
class Constants:
    """A class.

    Attributes:
        estimate: float64[2], extra in s and factor, as estimated.
        covariance: float64[2, 2], of that.
        at_s: Of the last collective; nan before the first.
    """

    extra_s: float = 0.0
    factor: float = 1.0
    estimate: Floats = field(default_factory=lambda: np.array([0.0, 1.0]))
    covariance: Floats = field(default_factory=lambda: np.diag([PRIOR_EXTRA_S**2, PRIOR_FACTOR**2]))
    noise: float = NOISE
    at_s: float = math.nan
    count: int = 0

    def predicted_s(self, expected_s: float) -> float:
        """Predicted time of such a collective, as applied."""
        return max(self.extra_s + self.factor * expected_s, 0.05 * expected_s)

    def learn(self, one: TimedClass) -> bool:
        """Takes in a collective; True where what is applied has changed."""
        hours = 0.0 if math.isnan(self.at_s) else max(one.at_s - self.at_s, 0.0) / HOUR_S
        self.covariance = self.covariance + np.diag([WALK_EXTRA_S**2, WALK_FACTOR**2]) * hours
        row = np.array([1.0, one.expected_s])
        should = float(row @ self.estimate)
        spread = self.noise * max(should, one.expected_s * 0.05)
        unsure = float(row @ self.covariance @ row) + spread**2
        rest = one.seconds - should
        limit = OUTLIER * math.sqrt(unsure)
        kept = min(max(rest, -limit), limit)
        gain = self.covariance @ row / unsure
        self.estimate = self.estimate + gain * kept
        self.covariance = self.covariance - np.outer(gain, row @ self.covariance)
        self.noise = math.sqrt((1 - FOLLOWED) * self.noise**2 + FOLLOWED * (kept / max(should, 1e-12)) ** 2)
        self.at_s, self.count = one.at_s, self.count + 1
        return self._applied(one.expected_s, row)

    def _applied(self, expected_s: float, row: Floats) -> bool:
        now, new = self.predicted_s(expected_s), float(row @ self.estimate)
        sure = math.sqrt(max(float(row @ self.covariance @ row), 0.0))
        if abs(new - now) <= max(LEAST * now, SURE * sure):
            return False
        self.extra_s, self.factor = self.estimate.tolist()
        return True


@dataclass
class Hour:
    """Errors of an hour, as shares of the measured times.

    Attributes:
        applied: Of the constants that were applied at the time, summed.
    """

    start_s: float
    model: float = 0.0
    applied: float = 0.0
    count: int = 0

    def plain(self) -> dict[str, float | int]:
        """Mean absolute percentage errors, as shares."""
        return {
            "start_s": self.start_s,
            "collectives": self.count,
            "mape_model": self.model / max(self.count, 1),
            "mape": self.applied / max(self.count, 1),
        }


@dataclass
class Drift:
    """Drift of all classes."""

    classes: dict[str, Constants] = field(default_factory=dict)
    hours: list[Hour] = field(default_factory=list)
    changes: list[ConstantsChange] = field(default_factory=list)

    def take(self, seen: Iterable[TimedClass]) -> None:
        """Takes in collectives in the order of time; those older than the latest hour belong to it."""
        for one in seen:
            mine = self.classes.setdefault(one.name, Constants())
            predicted = mine.predicted_s(one.expected_s)
            hour = self._hour(one.at_s)
            hour.model += abs(one.expected_s / one.seconds - 1)
            hour.applied += abs(predicted / one.seconds - 1)
            hour.count += 1
            if mine.learn(one):
                after = mine.predicted_s(one.expected_s) / one.expected_s
                self.changes.append(ConstantsChange(one.at_s, one.name, predicted / one.expected_s, after))

    def _hour(self, at_s: float) -> Hour:
        start = at_s // HOUR_S * HOUR_S
        if not self.hours or start > self.hours[-1].start_s:
            self.hours.append(Hour(start))
        return self.hours[-1]


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
    graph = TaskGraph.of(
        cluster.ranks,
        kind=Kind.COLLECTIVE,
        size_bytes=size_bytes,
        collective=_KINDS[kind],
        stream=Stream.GRADIENT,
        labels=[Label("trace", kind)],
        communicators=Communicators.of([members], "dp"),
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
                TimedClass(
                    one.at_s,
                    f"{one.kind} {one.ranks or cluster.ranks}{f' over {one.hosts}' if one.hosts else ''}",
                    should,
                    one.seconds,
                )
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


def _rate(size_bytes: int, seconds: float, factor: float | None) -> float | None:
    return None if factor is None or seconds <= 0 or not size_bytes else 8 * size_bytes * factor / seconds
