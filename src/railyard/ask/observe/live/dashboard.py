"""A Grafana dashboard over the same metrics, as JSON to import."""

from __future__ import annotations

import json
from typing import Any

from railyard.ask.observe.live import metrics

_PANELS = (
    (
        "busbw of collectives, GB/s",
        metrics.BUSBW,
        "{{collective}} {{message_size}} {{comm_name}} {{node}} {{gpu}}",
        "GBs",
    ),
    (
        "busbw that the model expects, GB/s",
        metrics.EXPECTED,
        "{{collective}} {{message_size}} {{nranks}} ranks on {{n_nodes}} nodes",
        "GBs",
    ),
    ("measured over expected", metrics.RATIO, "{{collective}} {{comm_name}}", "percentunit"),
    ("symbol errors a second", f"rate({metrics.SYMBOL_ERRORS}[5m])", "{{instance}} {{device}}", "short"),
    (
        "ports that wait, ticks a second (look downstream)",
        f"rate({metrics.TRANSMIT_WAIT}[5m])",
        "{{instance}}",
        "short",
    ),
    ("sent by ports", f"rate({metrics.TRANSMITTED}[1m])", "{{instance}} {{device}}", "Bps"),
    ("XID errors", metrics.XID, "{{Hostname}} gpu {{gpu}}", "short"),
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
