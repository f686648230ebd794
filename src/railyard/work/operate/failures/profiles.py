"""Failure profiles of fleets; creating a record registers it.

`llama3`: 419 unexpected interruptions of Llama 3's pre-training on 16,384 H100 (2,048 nodes) in 54 days; the counts are
from "The Llama 3 Herd of Models", arXiv 2407.21783, table 5. The effect of each on the job and its detection are
assumptions. So are repair times, the speed of slow nodes, and the failure rates of switches, of cables between switches
and of racks (annual rates of 2 %, 2 % and 0.4 %). Cables between switches interrupted no job there because the fabric
rerouted around them.

`rsc1`, `rsc2`: Meta's research clusters (A100): Kokolis et al., "Revisiting Reliability in Large-Scale Machine Learning
Research Clusters", HPCA 2025, arXiv 2410.21680: 6.5 and 2.34 failures per thousand node-days. On RSC-1 jobs fail
more often than nodes: jobs of 8 GPUs every 47.7 days and jobs of 1,024 GPUs every 7.9 hours, which is 21 and 24
failures per thousand node-days. The excess over node failures counts as crashes here, on RSC-2 in the same proportion.
Hardware failures are split among components as in Llama 3's table.
"""

from __future__ import annotations

from dataclasses import replace

from railyard.work.operate.failures.fault import (
    ERROR_S,
    HOURS,
    QUICK,
    REPAIR,
    SLOW_SEEN_S,
    TIMEOUT,
    Effect,
    FailureMode,
    FailureProfile,
    profiles,
)

NODE_DAYS = 54 * 2048 / 1000


def _mode(
    name: str,
    count: int,
    effect: Effect = Effect.OUT,
    *,
    detect_s: float = ERROR_S,
    repair: tuple[float, float] = REPAIR,
    slow: float = 1.0,
    rerouted: bool = False,
    link: bool = False,
) -> FailureMode:
    source = "Llama 3, arXiv 2407.21783, table 5"
    return FailureMode(
        name, count / NODE_DAYS, effect, detect_s, *repair, slow=slow, rerouted=rerouted, source=source, link=link
    )


MODES = (
    _mode("gpu", 148),
    _mode("hbm", 72),
    _mode("software", 54, Effect.CRASH),
    _mode("network cable", 35, detect_s=TIMEOUT, rerouted=True, link=True),
    _mode("host maintenance", 32, repair=QUICK),
    _mode("gpu sram", 19),
    _mode("gpu system processor", 17),
    _mode("nic", 7, detect_s=TIMEOUT, rerouted=True),
    _mode("watchdog", 7, Effect.CRASH, detect_s=TIMEOUT),
    _mode("silent corruption", 6, Effect.CORRUPT, detect_s=12 * HOURS),
    _mode("gpu thermal", 6, Effect.SLOW, detect_s=SLOW_SEEN_S, slow=0.7),
    _mode("ssd", 3),
    _mode("power supply", 3),
    _mode("chassis", 2),
    _mode("io board", 2),
    _mode("dependency", 2, Effect.CRASH),
    _mode("cpu", 2),
    _mode("system memory", 2),
)
ESTIMATED = "estimate: a share of them a year"
UPLINKS = 32
"""Uplinks of a leaf; each has optics at both ends."""
DOMAINS = (
    FailureMode("leaf switch", 1000 * 0.02 / 365, Effect.OUT, TIMEOUT, *QUICK, "leaf", rerouted=True, source=ESTIMATED),
    FailureMode("uplink", 1000 * 0.02 * UPLINKS / 365, Effect.STALL, 0.0, *QUICK, "leaf", source=ESTIMATED, link=True),
    FailureMode("rack power", 1000 * 0.004 / 365, Effect.OUT, ERROR_S, *QUICK, "leaf", source=ESTIMATED),
)
profiles.enter(FailureProfile("llama3", "Llama 3's pre-training: 16,384 H100 over 54 days.", (*MODES, *DOMAINS)))

profiles.enter(FailureProfile("none", "Nothing breaks but what the scenario names.", ()))

_CRASHES = sum(mode.per_1000_node_days for mode in MODES if mode.effect == Effect.CRASH)
_OF_NODES = sum(mode.per_1000_node_days for mode in MODES) - _CRASHES


def _rsc(name: str, summary: str, nodes: float, jobs: float, source: str) -> FailureProfile:
    """Llama 3's modes scaled to these node failures, and job failures for other reasons, per thousand node-days."""

    def scaled(mode: FailureMode) -> FailureMode:
        factor = jobs / _CRASHES if mode.effect == Effect.CRASH else nodes / _OF_NODES
        return replace(mode, per_1000_node_days=mode.per_1000_node_days * factor, source=source)

    return profiles.add(name, FailureProfile(name, summary, tuple(map(scaled, MODES))))


_rsc("rsc1", "Meta's RSC-1, 16,000 A100 over 11 months.", 6.5, 22.3 - 6.5, "RSC-1, arXiv 2410.21680")
_rsc("rsc2", "Meta's RSC-2, 8,000 A100 over 11 months.", 2.34, 2.34 * (22.3 - 6.5) / 6.5, "RSC-2, arXiv 2410.21680")
