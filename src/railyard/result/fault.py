"""What went wrong in a run, and what it cost."""

from __future__ import annotations

from pydantic import Field

from railyard.result.section import Count, Figures


class LostTime(Figures):
    """A part of the time that a fault costs a job."""

    cause: str = Field(description="what it goes into")
    seconds: float = Field(description="s")


class FaultFigures(Figures):
    """One death, and what became of the job."""

    what: str = Field(description="what died, in words")
    at_s: float = Field(description="from the start of the step, s")
    outcome: str = Field(description="rerouted, waited (until it was back), aborted, or unnoticed")
    hosts: Count = Field(description="hosts that it takes away or cuts off")
    detection_s: float = Field(description="from the death until routes keep off it, or until the job is aborted, s")
    stall_s: float = Field(
        description="how much longer the step is in which it happens; of an aborted one all of it, s"
    )
    slower: float = Field(description="a later step over a healthy one, while it lasts; 1 where nothing is lost")
    lost_s: float = Field(description="of the job, all parts, s; without later steps that are slower")
    parts: tuple[LostTime, ...] = Field(description="of that time")


class ReplicaFaultFigures(Figures):
    """One death in a serving run, each time that it comes."""

    what: str = Field(description="what died, in words")
    at_s: float = Field(description="from the start of the run, s")
    replicas: tuple[Count, ...] = Field(description="that it takes away, counted over all pools; none: unnoticed")
    away_s: float = Field(description="until their processes run again, without the loading of their weights, s")
