"""Ways in which things fail: how often, what that does, how it is seen, how long a repair takes; with sources."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from railyard.kit.registry import Registry

if TYPE_CHECKING:
    from railyard.work.operate.failures.fault import Effect

HOURS = 3600.0
SLOW_SEEN_S = 2 * HOURS
"""Until a slow accelerator is seen; an assumption."""


@dataclass(frozen=True)
class Mode:
    """A way in which something fails.

    Attributes:
        name: Component and manner.
        per_1000_node_days: How often, a thousand nodes a day; of a `domain`, a thousand such groups a day.
        effect: What it does to jobs.
        detect_s: Until it is seen; negative: a collective's timeout, which the scenario sets.
        repair_s: Half of the repairs take less.
        repair_p90_s: Nine in ten take less.
        domain: Level of a group that fails as one; empty: one node.
        slow: Speed of slow nodes.
        rerouted: Whether a fabric with a second way leads around it: jobs then stand still and go on.
        source: Of the rate.
    """

    name: str
    per_1000_node_days: float
    effect: Effect
    detect_s: float
    repair_s: float
    repair_p90_s: float
    domain: str = ""
    slow: float = 1.0
    rerouted: bool = False
    source: str = ""


@dataclass(frozen=True)
class FailureProfile:
    """Modes of one fleet; its record is its registration.

    Attributes:
        name: What users write.
        summary: Whose fleet.
        modes: Its modes.
    """

    name: str
    summary: str
    modes: tuple[Mode, ...]


profiles: Registry[FailureProfile] = Registry("failure profile", package="railyard.work.operate.failures.profiles")

REPAIR = (28 * HOURS, 247 * HOURS)
"""Of 400 GPU servers over 174 days, later weeks counting more: `forecast.py` on stepfun-ai/InfiniteHBD-Trace."""
QUICK = (2 * HOURS, 8 * HOURS)
"""An estimate: a reboot or a drain that operators plan."""
ERROR_S = 60.0
"""An estimate: a fatal error is in the host's log at once, agents look once a minute."""
TIMEOUT = -1.0
"""A hang that only the timeout of a collective shows."""
