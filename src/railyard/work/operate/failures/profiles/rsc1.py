"""`rsc1`: Meta's research cluster RSC-1 (A100).

Source: Kokolis et al., "Revisiting Reliability in Large-Scale Machine Learning Research Clusters", HPCA 2025, arXiv
2410.21680:
6.5 failures of a thousand nodes a day. Jobs fail more often than nodes do: jobs of 8 GPUs once in 47.7 days, jobs of
1,024 GPUs
once in 7.9 hours, which is 21 and 24 failures of a thousand node-days; what nodes do not explain are crashes here.
What is of hardware is divided among components as in Llama 3's table.
"""

from __future__ import annotations

from dataclasses import replace

from railyard.work.operate.failures.fault import Effect, FailureProfile, profiles
from railyard.work.operate.failures.profiles.llama3 import MODES

SOURCE = "RSC-1, arXiv 2410.21680"
HARDWARE = 6.5
"""Failures of nodes, a thousand node-days."""
JOBS = 22.3 - 6.5
"""Jobs that fail for other reasons, a thousand node-days."""

_CRASH = sum(mode.per_1000_node_days for mode in MODES if mode.effect == Effect.CRASH)
_NODES = sum(mode.per_1000_node_days for mode in MODES) - _CRASH

RSC1 = profiles.add(
    "rsc1",
    FailureProfile(
        "rsc1",
        "Meta's RSC-1, 16,000 A100 over 11 months.",
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
