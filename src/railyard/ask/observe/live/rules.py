"""Recording rules and alerts for Prometheus: measured against expected, and counters by what they cause."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import yaml

from railyard.ask.observe.live import metrics

SLOW = 0.8
"""Share of the expected busbw below which a communicator is slow: engines and clusters differ by less than that."""

ERRORS_PER_S, WAITING = 1.0, 0.1
"""Symbol errors a second of a bad cable, and the share of a port's time in which it waited for credits."""

TICK_S = 4e-9
"""About what a tick of PortXmitWait stands for on HDR and NDR ports; vendors do not publish it."""


@dataclass(frozen=True)
class Alert:
    """An alert.

    Attributes:
        name: In camel case.
        expression: In PromQL.
        hold: How long it must hold.
        severity: page, ticket or info.
        summary: What is wrong, with templates of Prometheus.
        action: What to do.
    """

    name: str
    expression: str
    hold: str
    severity: str
    summary: str
    action: str

    def plain(self) -> dict[str, Any]:
        """As Prometheus writes it."""
        return {
            "alert": self.name,
            "expr": self.expression,
            "for": self.hold,
            "labels": {"severity": self.severity},
            "annotations": {"summary": self.summary, "action": self.action},
        }


def alerts(hold: str = "2m") -> list[Alert]:
    """All of them."""
    return [
        Alert(
            "NcclBelowModel",
            f"{metrics.RATIO} < {SLOW}",
            hold,
            "ticket",
            "{{ $labels.collective }} of {{ $labels.comm_name }}: {{ $value | humanizePercentage }} of the model",
            "railyard diagnose on the job's record with --cluster: all ranks of a ring are slow together",
        ),
        Alert(
            "PortSymbolErrors",
            f"rate({metrics.SYMBOL_ERRORS}[5m]) > {ERRORS_PER_S}",
            hold,
            "ticket",
            "{{ $labels.instance }} {{ $labels.device }} port {{ $labels.port }}: {{ $value }} symbol errors a second",
            "reseat or replace this cable: errors of the physical layer are of this link",
        ),
        Alert(
            "PortLinkDowned",
            f"increase({metrics.LINK_DOWNED}[15m]) > 0",
            "0s",
            "page",
            "{{ $labels.instance }} {{ $labels.device }} port {{ $labels.port }} went down",
            "see whether it flaps; drain the host before the next step hangs",
        ),
        Alert(
            "PortWaits",
            f"rate({metrics.TRANSMIT_WAIT}[5m]) * {TICK_S} > {WAITING}",
            hold,
            "info",
            "{{ $labels.instance }} {{ $labels.device }} waits {{ $value | humanizePercentage }} of its time",
            "not its own fault: whoever it sends to is slow or congested, look downstream",
        ),
        Alert(
            "GpuXid",
            f"{metrics.XID} > 0",
            "0s",
            "page",
            "{{ $labels.Hostname }} gpu {{ $labels.gpu }} reports XID {{ $value }}",
            "drain the host; the number says what happened",
        ),
    ]


def rules(hold: str = "2m", every: str = "15s") -> str:
    """The file of rules.

    Args:
        hold: How long an alert must hold before it fires.
        every: How often rules are evaluated.
    """
    keys = ", ".join(metrics.KEYS)
    ratio = f"{metrics.BUSBW} / on ({keys}) group_left () max by ({keys}) ({metrics.EXPECTED})"
    groups = [
        {
            "name": "railyard",
            "interval": every,
            "rules": [{"record": metrics.RATIO, "expr": ratio}, *(alert.plain() for alert in alerts(hold))],
        }
    ]
    return yaml.safe_dump({"groups": groups}, sort_keys=False, width=120)
