"""Operating rules of a cluster: queue, backfill, placement, quotas, windows, checkpoints, spares."""

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
"""90th percentile of the standard normal distribution."""


def microseconds(seconds: float) -> int:
    """Seconds on the clock of a run, which counts whole microseconds."""
    return round(seconds * SECOND)


def sigma(median: float, p90: float) -> float:
    """Sigma of a log-normal distribution with these percentiles; 0 if they do not increase."""
    return math.log(p90 / median) / _P90 if p90 > median else 0.0


@dataclass(frozen=True)
class NodeWindow:
    """Nodes kept free for a time: maintenance, or a tenant's reservation.

    Attributes:
        start_us: Start of the window.
        end_us: End of the window.
        tenant: Tenant that may use them in the window; empty: none.
    """

    start_us: int
    end_us: int
    nodes: tuple[int, ...]
    tenant: str = ""


@dataclass(frozen=True)
class RecoveryRules:
    """Checkpoints, restarts and spares.

    Attributes:
        interval_us: Useful work between two checkpoints; 0: no checkpoints, so a job starts over.
        stall_us: How long a checkpoint pauses the job.
        intervals_us: Intervals by number of nodes, in place of `interval_us`.
        restart_us: From the time nodes are available until work resumes: processes, connections, loading.
        resume_us: The same if a spare takes over and the other nodes keep their processes.
        spares: Nodes kept out of the queue as spares.
        survives: Whether checkpoints survive the loss of a node.
        grace: Whether a preempted job writes a checkpoint before it leaves.
        elastic: Whether a job that can shrink continues without a broken node.
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
        """Work between two checkpoints of a job on this many nodes."""
        return self.intervals_us.get(nodes, self.interval_us)

    def pace_ppm(self, nodes: int) -> int:
        """Share of the time not spent on checkpoints, in millionths."""
        interval = self.interval(nodes)
        return PPM if not interval else interval * PPM // (interval + self.stall_us)

    def kept(self, done_us: int, nodes: int) -> int:
        """Work kept after a loss, rounded down to the last checkpoint."""
        interval = self.interval(nodes)
        return done_us // interval * interval if interval else 0


@dataclass(frozen=True)
class Turnaround:
    """How nodes are prepared before a job uses them.

    Attributes:
        erase_us: Time to erase memories and drives of nodes last used by another user; a job's nodes are erased in
            parallel.
        between: Who counts as another user: another of the `tenants`, or of the `jobs`.
        attest_us: Time for a verifier to attest an accelerator; at every start and for every new node.
        verifier_per_s: Accelerators that the verifier attests per second; 0: no limit.
    """

    erase_us: int = 0
    between: str = "tenants"
    attest_us: int = 0
    verifier_per_s: float = 0.0

    def attested_us(self, accelerators: int) -> int:
        """Time until this many accelerators are attested if all are submitted at once."""
        if not self.attest_us or not accelerators:
            return 0
        queued = (accelerators - 1) / self.verifier_per_s if self.verifier_per_s else 0.0
        return self.attest_us + round(queued * SECOND)


@dataclass(frozen=True)
class Rules:
    """How jobs are chosen and placed.

    Attributes:
        depth: Jobs behind the first waiting one that a pass considers (Slurm: `bf_max_job_test`, 500).
        renew_us: How often the changing keys of disciplines are recomputed (Slurm: PriorityCalcPeriod, 5 minutes).
        half_life_us: Half-life of usage, for fair share (Slurm: PriorityDecayHalfLife, 7 days).
        attained_us: Accelerator time up to which a job counts as new (`least-attained`).
        shares: Shares of tenants, for fair share; 1 for others.
        quotas: Maximum accelerators of a tenant at a time; others have no limit.
        borrow: Whether a tenant may exceed its quota while the rest is idle; tenants within their quota preempt such
            jobs.
        within: Level at which one group must contain a job of several nodes; empty: any.
        setup_us: From placement until a job's work begins, at every start.
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
