"""What variants of every kind have, and what those have whose ranks go through a step."""

from __future__ import annotations

import math
from typing import ClassVar, Literal, Self

from pydantic import Field, model_validator

from railyard.measure.result.money import CapexFigures, ErrorRow, StepPower, TrainingCost
from railyard.measure.result.network import (
    CollectiveRow,
    FaultCost,
    FaultFigures,
    NetworkFigures,
    PacketFigures,
    TopologyFigures,
)
from railyard.measure.result.section import Figures, Values, require_equal
from railyard.measure.result.step import (
    BottleneckFigures,
    JobTimeFigures,
    LockstepFigures,
    StepFigures,
    TaxFigures,
    TimeShare,
    UtilizationFigures,
)
from railyard.measure.result.training import MemoryFigures, StorageFigures, TimelineFigures


class BaseVariant(Figures):
    """One variant of a study."""

    kind: ClassVar[str]
    """Kind of work."""

    name: str = Field(description="how it is called in tables")
    settings: Values = Field(description="what sets it apart")
    model_error: tuple[ErrorRow, ...] | None = Field(
        default=None,
        description="bands of the predicted figures, from left-out measurements; absent where none was validated",
    )


class ComparedVariant(BaseVariant):
    """A variant that can be ranked."""

    bound: bool = Field(description="whether nobody sells its network (`ideal`): a bound of what products reach")


class StepVariant(ComparedVariant):
    """Ranks that compute and communicate: a training step, or a trace."""

    outcome: Literal["finished", "died", "stalled"] = Field(
        description="died: a fault ended the job, which starts again after the repair; stalled: a fault stopped its "
        "traffic, though nothing is dead, until the job was aborted",
    )
    step: StepFigures = Field(description="how long it takes")
    utilization: UtilizationFigures = Field(description="how busy accelerators are")
    tax: TaxFigures = Field(description="tokens lost to the scale-out network, and next to it to scale-up")
    time: tuple[TimeShare, ...] = Field(min_length=1, description="where the step goes; shares add up to 1")
    lockstep: LockstepFigures = Field(description="what lateness costs")
    jct: JobTimeFigures | None = Field(description="null where the scenario names no token budget")
    power: StepPower = Field(description="what the cluster draws")
    capex: CapexFigures = Field(description="what the cluster costs to buy")
    cpmt: TrainingCost | None = Field(description="cost per million goodput tokens; null where the work makes none")
    bottleneck: BottleneckFigures = Field(description="what would help most")
    network: NetworkFigures = Field(description="what scale-up and scale-out links carried")
    memory: MemoryFigures = Field(description="of a rank, by pipeline stage")
    timeline: TimelineFigures = Field(description="of a few ranks")
    topology: TopologyFigures = Field(description="of the back-end network")
    storage: StorageFigures = Field(description="what storage does to the step")
    collectives: tuple[CollectiveRow, ...] = Field(description="the most time-consuming first")
    packet: PacketFigures | None = Field(default=None, description="absent where another engine ran")
    faults: tuple[FaultFigures, ...] | None = Field(
        default=None, description="each fault and what it cost; absent without faults, and for traces"
    )
    fault_cost: FaultCost | None = Field(
        default=None, description="what all faults cost together; absent without faults"
    )
    warnings: tuple[str, ...] = Field(description="what to know before the figures are believed")
    digest: str = Field(description="fingerprint of the timeline")

    @model_validator(mode="after")
    def _sums(self) -> Self:
        require_equal("time: the shares do not add up to the step", math.fsum(row.share for row in self.time), 1.0)
        if len(self.step.samples) == 1:
            seconds = math.fsum(row.seconds for row in self.time)
            require_equal("time: the seconds do not add up to the step", seconds, self.step.seconds)
        labels = len(self.timeline.labels)
        outside = sorted({task[2] for track in self.timeline.tracks for task in track.tasks if task[2] >= labels})
        if outside:
            raise ValueError(f"timeline: a track names label {outside[0]}; allowed 0 to {labels - 1}")
        return self
