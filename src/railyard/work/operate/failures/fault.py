"""One thing that goes wrong in a run, drawn or given."""

from __future__ import annotations

import math
from dataclasses import dataclass
from enum import IntEnum
from typing import Protocol

from railyard.kit.registry import Registry

HOURS = 3600.0
SLOW_SEEN_S = 2 * HOURS
"""Until a slow accelerator is seen; an assumption."""


@dataclass(frozen=True)
class FailureMode:
    """A way in which something fails.

    Attributes:
        per_1000_node_days: How often, a thousand nodes a day; of a `domain`, a thousand such groups a day.
        detect_s: Until it is seen; negative: a collective's timeout, which the scenario sets.
        repair_s: Half of the repairs take less.
        repair_p90_s: Nine in ten take less.
        domain: Level of a group that fails as one; empty: one node.
        rerouted: Whether a fabric with a second way leads around it: jobs then stand still and go on.
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
    """Modes of one fleet; its record is its registration."""

    name: str
    summary: str
    modes: tuple[FailureMode, ...]


profiles: Registry[FailureProfile] = Registry("failure profile", package="railyard.work.operate.failures.profiles")

REPAIR = (28 * HOURS, 247 * HOURS)
"""Of 400 GPU servers over 174 days, later weeks counting more: `forecast.py` on stepfun-ai/InfiniteHBD-Trace."""
QUICK = (2 * HOURS, 8 * HOURS)
"""An estimate: a reboot or a drain that operators plan."""
ERROR_S = 60.0
"""An estimate: a fatal error is in the host's log at once, agents look once a minute."""
TIMEOUT = -1.0
"""A hang that only the timeout of a collective shows."""


def young_s(stall_s: float, mttf_s: float) -> float:
    """Young's interval: work between two checkpoints."""
    return math.sqrt(2 * stall_s * mttf_s)


def daly_s(stall_s: float, mttf_s: float) -> float:
    """Daly's interval: work between two checkpoints; the mean time to failure where a checkpoint takes twice that."""
    if stall_s >= 2 * mttf_s:
        return mttf_s
    ratio = math.sqrt(stall_s / (2 * mttf_s))
    return math.sqrt(2 * stall_s * mttf_s) * (1 + ratio / 3 + ratio * ratio / 9) - stall_s


def efficiency(interval_s: float, stall_s: float, restart_s: float, mttf_s: float) -> float:
    """Useful share of the time of a job that fails as a Poisson process and restarts from its last checkpoint.

    Daly's equation 20 turned over; detection counts as part of the restart.
    """
    if math.isinf(mttf_s):
        return interval_s / (interval_s + stall_s)
    segment = (interval_s + stall_s) / mttf_s
    if segment > 500:
        return 0.0
    return interval_s / (mttf_s * math.exp(restart_s / mttf_s) * math.expm1(segment))


class Effect(IntEnum):
    """What a fault does to the jobs that it hits."""

    OUT = 0
    """Nodes stop; their jobs hang until it is seen; the nodes are repaired."""
    CRASH = 1
    """A job ends, its nodes are well; of a group of nodes, every job on them."""
    SLOW = 2
    """Nodes go on slowly, and their jobs with them, until it is seen; then the nodes are repaired."""
    CORRUPT = 3
    """Nodes compute wrongly; the work since is lost when it is seen; then the nodes are repaired."""
    STALL = 4
    """Jobs stand still until the network leads around, or the link is back; nothing is lost."""


@dataclass(frozen=True)
class NodeFault:
    """A fault.

    Attributes:
        nodes: Whose; of a crash, the node by which the job is found.
        mode: Number of its mode, for the accounts.
        detect_us: From then until it is known.
        repair_us: From then until the nodes are back.
        slow_ppm: Speed of slow nodes, in millionths.
    """

    time_us: int
    nodes: tuple[int, ...]
    effect: Effect
    mode: int = 0
    detect_us: int = 0
    repair_us: int = 0
    slow_ppm: int = 1_000_000
    stall_us: int = 0


class FaultSource(Protocol):
    """Faults of a run, chunk by chunk of time: a function of the chunk's number alone."""

    chunk_us: int

    @property
    def random(self) -> bool:
        """Whether another draw differs."""

    def again(self, seed: int) -> FaultSource:
        """The same in another draw."""

    def chunk(self, number: int) -> tuple[NodeFault, ...]:
        """Faults from `number * chunk_us` on, in order."""
