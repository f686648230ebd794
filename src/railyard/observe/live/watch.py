"""One look at a running cluster: what Prometheus measured, what the model expects, which alerts are out."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from railyard.observe.collective_names import BUSBW, kind_of
from railyard.observe.drift import Seen
from railyard.observe.expected import expected_s
from railyard.observe.live import metrics
from railyard.observe.live.dashboard import dashboard
from railyard.observe.live.rules import rules
from railyard.observe.reader import is_count

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from railyard.cluster import Cluster
    from railyard.observe.drift import Drift
    from railyard.observe.live.prometheus import Prometheus

Expected = dict[tuple[str, str, str], float]
"""GB/s by `collective`, `message_size` and `nranks`."""


def expectations(server: Prometheus, cluster: Cluster, known: Expected) -> Expected:
    """What the model expects of every collective that the server has seen; those that are known are kept.

    Raises:
        InputError: The server does not answer.
    """
    found = dict(known)
    for sample in server.query(f"count by (collective, message_size, nranks) ({metrics.BUSBW})"):
        key = (
            sample.labels.get("collective", ""),
            sample.labels.get("message_size", ""),
            sample.labels.get("nranks", ""),
        )
        kind, size = kind_of(key[0]), metrics.size_of(key[1])
        if key in found or size is None or kind not in BUSBW or not is_count(key[2]):
            continue
        seconds = expected_s(cluster, kind, size, int(key[2]))
        if seconds:
            found[key] = size * BUSBW[kind](int(key[2])) / seconds / 1e9
    return found


def exposition(expected: Expected) -> str:
    """The expected values for an exporter or for node_exporter's folder of text files."""
    lines = [f"# HELP {metrics.EXPECTED} Bus bandwidth that the model expects.", f"# TYPE {metrics.EXPECTED} gauge"]
    for (collective, size, ranks), rate in sorted(expected.items()):
        labels = {"collective": collective, "message_size": size, "nranks": ranks}
        lines.append(metrics.line(metrics.EXPECTED, labels, rate))
    return "\n".join(lines) + "\n"


def files(folder: Path) -> dict[Path, str]:
    """Rules and dashboard by the files that they belong in."""
    return {folder / "railyard-rules.yml": rules(), folder / "railyard-dashboard.json": dashboard()}


def learn(drift: Drift, rows: Sequence[Mapping[str, Any]], at_s: float) -> None:
    """Takes in one look: of each communicator and size the time that its busbw says.

    Args:
        drift: What is learned.
        rows: As of `look`.
        at_s: When, Unix time.
    """
    seen = []
    for one in rows:
        kind, size = kind_of(one["collective"]), metrics.size_of(one["message_size"])
        if one["expected_gbs"] and one["busbw_gbs"] > 0 and size is not None:
            moved = size * BUSBW[kind](int(one["nranks"])) / 1e9
            name = f"{one['collective']} {one['nranks']}"
            seen.append(Seen(at_s, name, moved / one["expected_gbs"], moved / one["busbw_gbs"]))
    drift.take(seen)


def calibrated(expected: Expected, drift: Drift) -> Expected:
    """GB/s with the constants that are applied."""
    found = {}
    for key, rate in expected.items():
        kind, size, mine = kind_of(key[0]), metrics.size_of(key[1]), drift.classes.get(f"{key[0]} {key[2]}")
        if mine is None or size is None:
            continue
        moved = size * BUSBW[kind](int(key[2])) / 1e9
        found[key] = moved / mine.predicted_s(moved / rate)
    return found


def look(server: Prometheus, expected: Expected) -> dict[str, Any]:
    """Measured against expected, the worst first, and alerts.

    Raises:
        InputError: The server does not answer.
    """
    rows = []
    for sample in server.query(metrics.BUSBW):
        key = (
            sample.labels.get("collective", ""),
            sample.labels.get("message_size", ""),
            sample.labels.get("nranks", ""),
        )
        should = expected.get(key)
        rows.append(
            {
                "collective": key[0],
                "message_size": key[1],
                "nranks": key[2],
                "communicator": sample.labels.get("comm_name", ""),
                "rank": sample.labels.get("rank", ""),
                "busbw_gbs": sample.value,
                "expected_gbs": should,
                "ratio": None if not should else sample.value / should,
            }
        )
    rows.sort(key=lambda one: (one["ratio"] is None, one["ratio"] or 0.0))
    fired = [
        {
            "alert": one.get("labels", {}).get("alertname", ""),
            "state": one.get("state", ""),
            "summary": one.get("annotations", {}).get("summary", ""),
            "action": one.get("annotations", {}).get("action", ""),
        }
        for one in server.alerts()
    ]
    return {"collectives": rows, "alerts": fired}
