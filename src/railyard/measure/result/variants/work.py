"""Work that was recorded or written elsewhere, run again."""

from __future__ import annotations

from typing import ClassVar

from pydantic import Field

from railyard.measure.result.money import ErrorRow, HourlyCost, TrainingCost
from railyard.measure.result.network import PacketFigures
from railyard.measure.result.operate import OperateFigures
from railyard.measure.result.section import Count, Figures
from railyard.measure.result.serving import ModelServing, PipelineServing, ServingFigures
from railyard.measure.result.step import ServingTax
from railyard.measure.result.training import CommunicationFigures, LayoutFigures, LayoutRow
from railyard.measure.result.variants.variant import BaseVariant, ComparedVariant, StepVariant
from railyard.measure.result.wide import EdgeFigures, FederatedFigures, LocalFigures


class EdgeVariant(BaseVariant):
    """One model answered from several places."""

    kind: ClassVar[str] = "edge"
    edge: EdgeFigures = Field(description="what was found")
    warnings: tuple[str, ...] = Field(description="what to know before the figures are believed")
    digest: str = Field(description="fingerprint of the run")


class FederatedVariant(BaseVariant):
    """Rounds of learning on clients."""

    kind: ClassVar[str] = "federated"
    federated: FederatedFigures = Field(description="what was found")
    warnings: tuple[str, ...] = Field(description="what to know before the figures are believed")
    digest: str = Field(description="fingerprint of the run")


class LocalVariant(BaseVariant):
    """Training on sites that meet now and then."""

    kind: ClassVar[str] = "local"
    local: LocalFigures = Field(description="what was found")
    warnings: tuple[str, ...] = Field(description="what to know before the figures are believed")
    digest: str = Field(description="fingerprint of the run")


class OperateVariant(BaseVariant):
    """A cluster in time, under one set of rules."""

    kind: ClassVar[str] = "operate"
    operate: OperateFigures = Field(description="what it did")
    warnings: tuple[str, ...] = Field(description="what to know before the figures are believed")
    digest: str = Field(description="fingerprint of every allocation")
    stopped: str | None = Field(
        default=None,
        description="where Ctrl-C or SIGTERM ended it: figures are of what was played by then; absent where it ended",
    )


class ServedVariant(ComparedVariant):
    """Requests that were answered, by one model or through stages."""

    serving: ServingFigures = Field(description="what became of the requests")
    warnings: tuple[str, ...] = Field(description="what to know before the figures are believed")
    digest: str = Field(description="fingerprint of the run")


class ServingVariant(ServedVariant):
    """One model that answers requests."""

    kind: ClassVar[str] = "serving"
    model_error: tuple[ErrorRow, ...] = Field(description="bands of the predicted figures, from left-out measurements")
    tax: ServingTax = Field(description="what the scale-out network takes, and next to it scale-up")
    serving: ModelServing = Field(description="what became of the requests")


class PipelineVariant(ServedVariant):
    """Stages that requests go through."""

    kind: ClassVar[str] = "pipeline"
    serving: PipelineServing = Field(description="what became of the requests")


class TraceFigures(Figures):
    """The file that was run."""

    file: str = Field(description="as the scenario names it")
    format: str = Field(description="chakra, goal, ...")
    ranks: Count = Field(description="of the trace")
    computations: Count = Field(description="tasks")
    transfers: Count = Field(description="tasks")
    collectives: Count = Field(description="tasks")
    lacks: tuple[str, ...] = Field(description="what a complete trace would have said")


class TraceVariant(StepVariant):
    """A trace: it says nothing of tokens, so cost is by the hour and by the run."""

    kind: ClassVar[str] = "trace"
    trace: TraceFigures = Field(description="what was run")
    jct: None = Field(description="a trace has no token budget")
    cost: HourlyCost = Field(description="by the hour and by the run")
    cpmt: None = Field(description="a trace makes no tokens")


class TrafficVariant(BaseVariant):
    """Given flows, without a model of training."""

    kind: ClassVar[str] = "traffic"
    packet: PacketFigures = Field(description="what became of the flows")


class TrainingVariant(StepVariant):
    """A training step, what it costs and what would help."""

    kind: ClassVar[str] = "training"
    model_error: tuple[ErrorRow, ...] = Field(description="bands of the predicted figures, from left-out measurements")
    layout: LayoutFigures = Field(description="how the step is spread over the accelerators")
    layouts: tuple[LayoutRow, ...] | None = Field(
        default=None, description="the layout that `auto` chose and its runners-up; absent where one is written out"
    )
    cpmt: TrainingCost = Field(description="cost per million goodput tokens")
    communication: CommunicationFigures | None = Field(
        default=None, description="price of compressing or postponing communication; absent where the job does neither"
    )
