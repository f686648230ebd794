"""Failure modes, profiles of fleets, and one fault of a run, drawn or given."""

from __future__ import annotations

import math
from dataclasses import dataclass
from enum import IntEnum
from typing import TYPE_CHECKING, Protocol

from railyard.kit.registry import Registry
from railyard.measure.cost.assumptions import ZERO

if TYPE_CHECKING:
    from railyard.catalog.types import Range

HOURS = 3600.0
SLOW_SEEN_S = 2 * HOURS
"""Time until a slow accelerator is detected; an assumption."""


@dataclass(frozen=True)
class FailureMode:
    """A failure mode.

    Attributes:
        per_1000_node_days: Failures per thousand node-days; for a `domain`, per thousand group-days.
        detect_s: Time to detection; negative: a collective's timeout, which the scenario sets.
        repair_s: Median time to repair.
        repair_p90_s: 90th percentile of the time to repair.
        domain: Level whose group fails as a unit; empty: one node.
        rerouted: Whether a fabric with a second path reroutes around it; jobs then pause and continue.
        groups: Nodes that fail as a unit, in place of those of `domain`.
        stall_s: How long jobs stall, in place of the fabric's time to reroute; negative: that time.
        link: Whether it is a failure of cables and modules, which rates of the catalogue can replace.
        work_s: Work of a technician for one repair.
        repair_usd: Work and parts of one repair.
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
    groups: tuple[tuple[int, ...], ...] = ()
    stall_s: float = -1.0
    link: bool = False
    work_s: float = 0.0
    repair_usd: Range = ZERO


@dataclass(frozen=True)
class FailureProfile:
    """The failure modes of one fleet; creating the record registers it."""

    name: str
    summary: str
    modes: tuple[FailureMode, ...]


profiles: Registry[FailureProfile] = Registry("failure profile", package="railyard.work.operate.failures.profiles")

REPAIR = (28 * HOURS, 247 * HOURS)
"""From 400 GPU servers over 174 days, later weeks weighted more: `forecast.py` on stepfun-ai/InfiniteHBD-Trace."""
QUICK = (2 * HOURS, 8 * HOURS)
"""An estimate: a reboot, or a drain planned by operators."""
ERROR_S = 60.0
"""An estimate: a fatal error appears in the host's log at once, and agents poll once a minute."""
TIMEOUT = -1.0
"""A hang that only a collective's timeout detects."""


def young_s(stall_s: float, mttf_s: float) -> float:
    """Young's interval: work between two checkpoints."""
    return math.sqrt(2 * stall_s * mttf_s)


class Effect(IntEnum):
    """What a fault does to the jobs that it hits."""

    OUT = 0
    """Nodes stop, and their jobs hang until detection; then the nodes are repaired."""
    CRASH = 1
    """A job crashes but its nodes are healthy; in a group of nodes, every job on them crashes."""
    SLOW = 2
    """Nodes slow down, and their jobs with them, until detection; then the nodes are repaired."""
    CORRUPT = 3
    """Nodes compute wrong results. Work since then is lost at detection; then the nodes are repaired."""
    STALL = 4
    """Jobs stall until the network reroutes or the link is back; nothing is lost."""
    DRIFT = 5
    """A link corrupts more and more until it fails: jobs are slow, then hang; then the nodes are repaired."""


@dataclass(frozen=True)
class NodeFault:
    """A fault at a moment of a run.

    Attributes:
        nodes: Nodes that it hits; for a crash, the node that identifies the job.
        mode: Number of its mode, for accounting.
        detect_us: Time from the fault to its detection.
        repair_us: Time from detection until the nodes are back.
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
    """Faults of a run by chunk of time, each a function of the chunk's number alone."""

    chunk_us: int

    @property
    def random(self) -> bool:
        """Whether another seed gives other faults."""

    def again(self, seed: int) -> FaultSource:
        """The same faults with another seed."""

    def chunk(self, number: int) -> tuple[NodeFault, ...]:
        """Faults from `number * chunk_us` on, in order."""
