"""One look at a running cluster: what Prometheus measured, what the model expects, which alerts are out."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import yaml

from railyard.ask.observe import live
from railyard.ask.observe.expected import TimedClass, expected_s
from railyard.ask.observe.kernels import BUSBW, kind_of
from railyard.ask.observe.live import LabelKey, labels_of
from railyard.ask.observe.reader import is_count

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from railyard.ask.observe.expected import Drift
    from railyard.ask.observe.live import Prometheus
    from railyard.cluster import Cluster


_PANELS = (
    (
        "busbw of collectives, GB/s",
        live.BUSBW_METRIC,
        "{{collective}} {{message_size}} {{comm_name}} {{node}} {{gpu}}",
        "GBs",
    ),
    (
        "busbw that the model expects, GB/s",
        live.EXPECTED,
        "{{collective}} {{message_size}} {{nranks}} ranks on {{n_nodes}} nodes",
        "GBs",
    ),
    ("measured over expected", live.RATIO, "{{collective}} {{comm_name}}", "percentunit"),
    ("symbol errors a second", f"rate({live.SYMBOL_ERRORS}[5m])", "{{instance}} {{device}}", "short"),
    (
        "ports that wait, ticks a second (look downstream)",
        f"rate({live.TRANSMIT_WAIT}[5m])",
        "{{instance}}",
        "short",
    ),
    ("sent by ports", f"rate({live.TRANSMITTED}[1m])", "{{instance}} {{device}}", "Bps"),
    ("XID errors", live.XID, "{{Hostname}} gpu {{gpu}}", "short"),
)


def dashboard() -> str:
    """The dashboard; its data source is chosen when it is imported."""
    return json.dumps(
        {
            "title": "Railyard: measured against expected",
            "uid": "railyard",
            "schemaVersion": 39,
            "refresh": "30s",
            "time": {"from": "now-1h", "to": "now"},
            "templating": {"list": [{"name": "source", "type": "datasource", "query": "prometheus"}]},
            "panels": [_panel(number, *panel) for number, panel in enumerate(_PANELS)],
        },
        indent=1,
    )


def _panel(number: int, title: str, expression: str, legend: str, unit: str) -> dict[str, Any]:
    source = {"type": "prometheus", "uid": "${source}"}
    return {
        "id": number + 1,
        "type": "timeseries",
        "title": title,
        "datasource": source,
        "gridPos": {"x": 12 * (number % 2), "y": 8 * (number // 2), "w": 12, "h": 8},
        "fieldConfig": {"defaults": {"unit": unit, "min": 0}, "overrides": []},
        "targets": [{"refId": "A", "datasource": source, "expr": expression, "legendFormat": legend}],
    }


SLOW = 0.8
"""Share of the expected busbw below which a communicator is slow: engines and clusters differ by less than that."""

ERRORS_PER_S, WAITING = 1.0, 0.1
"""Symbol errors a second of a bad cable, and the share of a port's time in which it waited for credits."""

TICK_S = 4e-9
"""About what a tick of PortXmitWait stands for on HDR and NDR ports; vendors do not publish it."""


@dataclass(frozen=True)
class Alert:
    """An alert."""

    name: str
    expression: str
    hold: str
    severity: str
    summary: str
    action: str

    def plain(self) -> dict[str, Any]:
        """The metrics in Prometheus' format."""
        return {
            "alert": self.name,
            "expr": self.expression,
            "for": self.hold,
            "labels": {"severity": self.severity},
            "annotations": {"summary": self.summary, "action": self.action},
        }


def alerts(hold: str = "2m") -> list[Alert]:
    """Alerts of all rules."""
    return [
        Alert(
            "NcclBelowModel",
            f"{live.RATIO} < {SLOW}",
            hold,
            "ticket",
            "{{ $labels.collective }} of {{ $labels.comm_name }}: {{ $value | humanizePercentage }} of the model",
            "railyard diagnose on the job's record with --cluster: all ranks of a ring are slow together",
        ),
        Alert(
            "PortSymbolErrors",
            f"rate({live.SYMBOL_ERRORS}[5m]) > {ERRORS_PER_S}",
            hold,
            "ticket",
            "{{ $labels.instance }} {{ $labels.device }} port {{ $labels.port }}: {{ $value }} symbol errors a second",
            "reseat or replace this cable: physical-layer errors come from this link",
        ),
        Alert(
            "PortLinkDowned",
            f"increase({live.LINK_DOWNED}[15m]) > 0",
            "0s",
            "page",
            "{{ $labels.instance }} {{ $labels.device }} port {{ $labels.port }} went down",
            "see whether it flaps; drain the host before the next step hangs",
        ),
        Alert(
            "PortWaits",
            f"rate({live.TRANSMIT_WAIT}[5m]) * {TICK_S} > {WAITING}",
            hold,
            "info",
            "{{ $labels.instance }} {{ $labels.device }} waits {{ $value | humanizePercentage }} of its time",
            "not its fault: the receiver is slow or congested, look downstream",
        ),
        Alert(
            "GpuXid",
            f"{live.XID} > 0",
            "0s",
            "page",
            "{{ $labels.Hostname }} gpu {{ $labels.gpu }} reports XID {{ $value }}",
            "drain the host; the number gives the reason",
        ),
    ]


def rules(hold: str = "2m", every: str = "15s") -> str:
    """The file of rules."""
    keys = ", ".join(live.KEYS)
    ratio = f"{live.BUSBW_METRIC} / on ({keys}) group_left () max by ({keys}) ({live.EXPECTED})"
    groups = [
        {
            "name": "railyard",
            "interval": every,
            "rules": [{"record": live.RATIO, "expr": ratio}, *(alert.plain() for alert in alerts(hold))],
        }
    ]
    return yaml.safe_dump({"groups": groups}, sort_keys=False, width=120)


Expected = dict[LabelKey, float]
"""GB/s by `metrics.KEYS`."""


def expectations(server: Prometheus, cluster: Cluster, known: Expected) -> Expected:
    """What the model expects of every collective that the server has seen; those that are known are kept.

    Raises:
        InputError: The server does not answer.
    """
    found = dict(known)
    for sample in server.query(f"count by ({', '.join(live.KEYS)}) ({live.BUSBW_METRIC})"):
        key = _key(sample.labels)
        kind, size = kind_of(key[0]), live.size_of(key[1])
        if key in found or size is None or kind not in BUSBW or not is_count(key[2]):
            continue
        seconds = expected_s(cluster, kind, size, int(key[2]), int(key[3]) if is_count(key[3]) else 0)
        if seconds:
            found[key] = size * BUSBW[kind](int(key[2])) / seconds / 1e9
    return found


def exposition(expected: Expected) -> str:
    """The expected values for an exporter or for node_exporter's folder of text files."""
    lines = [
        f"# HELP {live.EXPECTED} Bus bandwidth that the model expects.",
        f"# TYPE {live.EXPECTED} gauge",
    ]
    lines += [live.line(live.EXPECTED, labels_of(key), rate) for key, rate in sorted(expected.items())]
    return "\n".join(lines) + "\n"


def _key(labels: Mapping[str, str]) -> LabelKey:
    return tuple(labels.get(name, "") for name in live.KEYS)


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
        kind, size = kind_of(one["collective"]), live.size_of(one["message_size"])
        if one["expected_gbs"] and one["busbw_gbs"] > 0 and size is not None:
            moved = size * BUSBW[kind](int(one["nranks"])) / 1e9
            name = _class((one["collective"], "", one["nranks"], one["n_nodes"]))
            seen.append(TimedClass(at_s, name, moved / one["expected_gbs"], moved / one["busbw_gbs"]))
    drift.take(seen)


def _class(key: LabelKey) -> str:
    return f"{key[0]} {key[2]}" + (f" over {key[3]}" if key[3] else "")


def calibrated(expected: Expected, drift: Drift) -> Expected:
    """GB/s with the constants that are applied."""
    found = {}
    for key, rate in expected.items():
        kind, size, mine = kind_of(key[0]), live.size_of(key[1]), drift.classes.get(_class(key))
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
    for sample in server.query(live.BUSBW_METRIC):
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
