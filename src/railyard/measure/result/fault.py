"""What went wrong in a run, and what it cost."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from railyard.measure.result.section import Count, Figures, Share


class LostTime(Figures):
    """A part of the time that a fault costs a job."""

    cause: str = Field(description="what it goes into")
    seconds: float = Field(description="s")


class TierHit(Figures):
    """Links of one tier that a fault is about; both directions of a cable are one link."""

    tier: str = Field(description="name of the tier")
    links: Count = Field(description="links that are hit")
    of: Count = Field(description="links of the tier")
    share: Share = Field(description="of the tier, each direction by itself, 0 to 1")


class FaultFigures(Figures):
    """One fault, what it hit, and what became of the job."""

    what: str = Field(description="the fault in words")
    at_s: float = Field(description="from the start of the job, s")
    outcome: Literal["rerouted", "waited", "aborted", "slowed", "stalled", "unnoticed"] = Field(
        description="rerouted: traffic has other paths; waited: until it was back; aborted: the job ended; slowed; "
        "stalled: traffic stood still though nothing was dead, until the job was aborted; unnoticed"
    )
    links: Count = Field(description="links of all tiers that are hit; both directions of a cable are one link")
    share: Share = Field(description="of the links of their tier; of several tiers, of the one that loses most")
    tiers: tuple[TierHit, ...] = Field(description="the same by tier, the one that loses most first")
    hosts: Count = Field(description="hosts that it takes away or cuts off")
    detection_s: float = Field(description="from a death until routes keep off it, or until the job is aborted, s")
    stall_s: float = Field(
        description="how much longer the step is in which it happens; of an aborted one all of it, s"
    )
    slower: float = Field(description="a later step over one without the fault, while it lasts; 1 where it costs none")
    lost_s: float = Field(description="of the job, all parts, s; without steps that are slower for good")
    parts: tuple[LostTime, ...] = Field(description="of that time")


class FaultCost(Figures):
    """What the faults of a scenario cost its job: as it is, against the same scenario without any of them."""

    what: str = Field(description="the faults in words")
    step_s: float = Field(description="how much longer a mean step is, s")
    tokens_lost: float | None = Field(
        description="share of the tokens a second that the job would make without them; null where it makes none"
    )
    job_s: float | None = Field(description="how much longer the job takes, s; null without a token budget")
    cpmt_usd: float | None = Field(description="how much more a million tokens costs, typical, USD; null without any")
    job_usd: float | None = Field(description="the same of all tokens of the job, USD; null without a token budget")


class ReplicaFaultFigures(Figures):
    """One death in a serving run, each time that it comes."""

    what: str = Field(description="what died, in words")
    at_s: float = Field(description="from the start of the run, s")
    replicas: tuple[Count, ...] = Field(description="that it takes away, counted over all pools; none: unnoticed")
    away_s: float = Field(description="until their processes run again, without the loading of their weights, s")
