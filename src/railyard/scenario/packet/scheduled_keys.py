"""How the settings of scheduled fabrics are written."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from railyard.scenario.packet.readers import number, size, time, whole

if TYPE_CHECKING:
    from collections.abc import Callable

SCHEDULED_READERS: dict[str, tuple[str, Callable[[str], Any]]] = {
    "scheduled_cell_bytes": ("scheduled_cell_bytes", whole(16, 8192)),
    "scheduled_cell_header_bytes": ("scheduled_cell_header_bytes", whole(0, 1024)),
    "scheduled_control_cell_bytes": ("scheduled_control_cell_bytes", whole(1, 1024)),
    "scheduled_credit_bytes": ("scheduled_credit_bytes", whole(64, 1 << 20)),
    "scheduled_credit_rate": ("scheduled_credit_rate", number(0.01, 4)),
    "scheduled_fabric_speedup": ("scheduled_fabric_speedup", number(0.01, 64)),
    "scheduled_request": ("scheduled_request_ps", time),
    "scheduled_grant": ("scheduled_grant_ps", time),
    "scheduled_egress_bytes": ("scheduled_egress_bytes", size),
    "scheduled_voq_bytes": ("scheduled_voq_bytes", size),
    "scheduled_memory_bytes": ("scheduled_memory_bytes", size),
    "scheduled_reachability": ("scheduled_reachability_ps", time),
}
"""The key of `--set`, the setting and how its value is read."""
