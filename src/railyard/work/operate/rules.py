"""How a cluster is run: queue, backfill, placement, quotas, windows, checkpoints, spares."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

SECOND = 1_000_000
HOUR = 3600 * SECOND
DAY = 24 * HOUR
PPM = 1_000_000
_P90 = 1.2815515655446004
"""The standard normal distribution's 90th percentile."""


def microseconds(seconds: float) -> int:
    """The clock of a run, which counts whole microseconds."""
    return round(seconds * SECOND)


def sigma(median: float, p90: float) -> float:
    """Of a log-normal distribution with these percentiles; 0 where they do not rise."""
    return math.log(p90 / median) / _P90 if p90 > median else 0.0


@dataclass(frozen=True)
class NodeWindow:
    """Nodes that are kept free for a time: maintenance, or the reservation of a tenant.

    Attributes:
        start_us: From when.
        end_us: Until when.
        tenant: Who may use them meanwhile; empty: nobody.
    """

    start_us: int
    end_us: int
    nodes: tuple[int, ...]
    tenant: str = ""


@dataclass(frozen=True)
class RecoveryRules:
    """What is done about what breaks.

    Attributes:
        interval_us: Useful work between two checkpoints; 0: there are none, and a job begins again.
        stall_us: How long the job stands still for one.
        intervals_us: The same of jobs of so many nodes, in place of `interval_us`.
        restart_us: From the moment that nodes are there until work goes on: processes, connections, loading.
        resume_us: The same where a spare takes over and the others keep their processes.
        spares: Nodes that are kept out of the queue, to take over.
        survives: Whether checkpoints outlive the loss of a node.
        grace: Whether a job that is preempted writes a checkpoint before it goes.
        elastic: Whether a job that may be smaller goes on without a node that broke.
    """

    interval_us: int = HOUR
    stall_us: int = 0
    restart_us: int = 0
    resume_us: int = 0
    spares: int = 0
    survives: bool = True
    grace: bool = True
    elastic: bool = False
    intervals_us: Mapping[int, int] = field(default_factory=dict)

    def interval(self, nodes: int) -> int:
        """Work between two checkpoints of a job."""
        return self.intervals_us.get(nodes, self.interval_us)

    def pace_ppm(self, nodes: int) -> int:
        """Share of the time that is not spent on checkpoints, in millionths."""
        interval = self.interval(nodes)
        return PPM if not interval else interval * PPM // (interval + self.stall_us)

    def kept(self, done_us: int, nodes: int) -> int:
        """What is left of so much work after a loss."""
        interval = self.interval(nodes)
        return done_us // interval * interval if interval else 0


@dataclass(frozen=True)
class Turnaround:
    """What is done to nodes before a job uses them.

    Attributes:
        erase_us: Of a node that somebody else had before: its memories and drives, all nodes of a job at once.
        between: Who is somebody else: another of the `tenants`, or of the `jobs`.
        attest_us: From asking a verifier about an accelerator to its answer; at every start and of every new node.
        verifier_per_s: Accelerators that the verifier judges a second; 0: any number.
    """

    erase_us: int = 0
    between: str = "tenants"
    attest_us: int = 0
    verifier_per_s: float = 0.0

    def attested_us(self, accelerators: int) -> int:
        """Time until so many accelerators are attested, asked for at once."""
        if not self.attest_us or not accelerators:
            return 0
        queued = (accelerators - 1) / self.verifier_per_s if self.verifier_per_s else 0.0
        return self.attest_us + round(queued * SECOND)


@dataclass(frozen=True)
class Rules:
    """How jobs are chosen and placed.

    Attributes:
        depth: Jobs behind the first that waits which a pass looks at (Slurm: `bf_max_job_test`, 500).
        renew_us: How often keys of disciplines that move are taken anew (Slurm: PriorityCalcPeriod, 5 minutes).
        half_life_us: Of usage, for fair share (Slurm: PriorityDecayHalfLife, 7 days).
        attained_us: Accelerator time up to which a job counts as new (`least-attained`).
        shares: Of tenants, for fair share; 1 for others.
        quotas: Accelerators of tenants at most at once; others have no limit.
        borrow: Whether a tenant may have more while nobody needs it; who needs what is its quota's preempts those.
        within: Level in whose groups jobs of several nodes must lie; empty: anywhere.
        setup_us: From placement until a job's work begins, each time that it starts.
    """

    discipline: str = "fifo"
    backfill: str = "easy"
    policy: str = "first-fit"
    depth: int = 500
    renew_us: int = 300 * SECOND
    half_life_us: int = 7 * DAY
    attained_us: int = 8 * HOUR
    shares: Mapping[str, float] = field(default_factory=dict)
    quotas: Mapping[str, int] = field(default_factory=dict)
    borrow: bool = False
    windows: tuple[NodeWindow, ...] = ()
    within: str = ""
    setup_us: int = 0
    recovery: RecoveryRules = field(default_factory=RecoveryRules)
    turnaround: Turnaround = field(default_factory=Turnaround)
    seed: int = 0

    def share_of(self, tenant: str) -> float:
        """Share of a tenant."""
        return self.shares.get(tenant, 1.0)
