"""One look at a running cluster: what Prometheus measured, what the model expects, which alerts are out."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from railyard.ask.observe.collective_names import BUSBW, kind_of
from railyard.ask.observe.drift import Seen
from railyard.ask.observe.expected import expected_s
from railyard.ask.observe.live import metrics
from railyard.ask.observe.live.dashboard import dashboard
from railyard.ask.observe.live.exporter import Key, labels_of
from railyard.ask.observe.live.rules import rules
from railyard.ask.observe.reader import is_count

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from railyard.ask.observe.drift import Drift
    from railyard.ask.observe.live.prometheus import Prometheus
    from railyard.cluster import Cluster

Expected = dict[Key, float]
"""GB/s by `metrics.KEYS`."""


def expectations(server: Prometheus, cluster: Cluster, known: Expected) -> Expected:
    """What the model expects of every collective that the server has seen; those that are known are kept.

    Raises:
        InputError: The server does not answer.
    """
    found = dict(known)
    for sample in server.query(f"count by ({', '.join(metrics.KEYS)}) ({metrics.BUSBW})"):
        key = _key(sample.labels)
        kind, size = kind_of(key[0]), metrics.size_of(key[1])
        if key in found or size is None or kind not in BUSBW or not is_count(key[2]):
            continue
        seconds = expected_s(cluster, kind, size, int(key[2]), int(key[3]) if is_count(key[3]) else 0)
        if seconds:
            found[key] = size * BUSBW[kind](int(key[2])) / seconds / 1e9
    return found


def exposition(expected: Expected) -> str:
    """The expected values for an exporter or for node_exporter's folder of text files."""
    lines = [f"# HELP {metrics.EXPECTED} Bus bandwidth that the model expects.", f"# TYPE {metrics.EXPECTED} gauge"]
    lines += [metrics.line(metrics.EXPECTED, labels_of(key), rate) for key, rate in sorted(expected.items())]
    return "\n".join(lines) + "\n"


def _key(labels: Mapping[str, str]) -> Key:
    return tuple(labels.get(name, "") for name in metrics.KEYS)


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
            name = _class((one["collective"], "", one["nranks"], one["n_nodes"]))
            seen.append(Seen(at_s, name, moved / one["expected_gbs"], moved / one["busbw_gbs"]))
    drift.take(seen)


def _class(key: Key) -> str:
    return f"{key[0]} {key[2]}" + (f" over {key[3]}" if key[3] else "")


def calibrated(expected: Expected, drift: Drift) -> Expected:
    """GB/s with the constants that are applied."""
    found = {}
    for key, rate in expected.items():
        kind, size, mine = kind_of(key[0]), metrics.size_of(key[1]), drift.classes.get(_class(key))
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
        key = _key(sample.labels)
        should = expected.get(key)
        rows.append(
            {
                "collective": key[0],
                "message_size": key[1],
                "nranks": key[2],
                "n_nodes": key[3],
                "communicator": sample.labels.get("comm_name", ""),
                "rank": " ".join(sample.labels[name] for name in ("node", "gpu", "rank") if sample.labels.get(name)),
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
