"""`rsc2`: Meta's research cluster RSC-2 (A100).

Source: Kokolis et al., "Revisiting Reliability in Large-Scale Machine Learning Research Clusters", HPCA 2025, arXiv
2410.21680:
2.34 failures of a thousand nodes a day. How often jobs fail for other reasons is taken in proportion from RSC-1.
What is of hardware is divided among components as in Llama 3's table.
"""

from __future__ import annotations

from dataclasses import replace

from railyard.work.operate.failures.fault import Effect, FailureProfile, profiles
from railyard.work.operate.failures.profiles.llama3 import MODES

SOURCE = "RSC-2, arXiv 2410.21680"
HARDWARE = 2.34
"""Failures of nodes, a thousand node-days."""
JOBS = 2.34 * (22.3 - 6.5) / 6.5
"""Jobs that fail for other reasons, a thousand node-days."""

_CRASH = sum(mode.per_1000_node_days for mode in MODES if mode.effect == Effect.CRASH)
_NODES = sum(mode.per_1000_node_days for mode in MODES) - _CRASH

RSC2 = profiles.add(
    "rsc2",
    FailureProfile(
        "rsc2",
        "Meta's RSC-2, 8,000 A100 over 11 months.",
        tuple(
            replace(
                mode,
                per_1000_node_days=mode.per_1000_node_days
                * (JOBS / _CRASH if mode.effect == Effect.CRASH else HARDWARE / _NODES),
                source=SOURCE,
            )
            for mode in MODES
        ),
    ),
)
