"""Ultra Ethernet and the ideal fabric as parts of the packet engine: what compositions and presets have in common.

Constants of Ultra Ethernet are those of its reference simulator (uet-htsim 40ccb05), see `docs/explanation/packet.md`.
"""

from __future__ import annotations

from typing import Any

UEC: dict[str, Any] = {
    "transport": "uec",
    "switching": "lossy",
    "congestion_control": "nscc",
    "load_balancing": "mixed",
    "mtu_bytes": 4096 + 64,
    "header_bytes": 64,
    "trim": True,
}
"""Windows at the sender (NSCC), packets over all paths by recycled entropies, trimming."""

IDEAL: dict[str, Any] = {
    "transport": "uec",
    "switching": "lossy",
    "congestion_control": "constant",
    "load_balancing": "spray",
    "queue_packets": 1 << 16,
}
"""What nothing but hosts' links can slow: a window that never changes, queues that never overflow."""
