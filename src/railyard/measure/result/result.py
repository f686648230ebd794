"""The result of a study: what `result.json` holds, format `railyard/result-1`."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Discriminator, Field, Tag

from railyard.measure.result.model_error import Verdict
from railyard.measure.result.provenance import ProvenanceFigures
from railyard.measure.result.section import Figures, Values
from railyard.measure.result.variants.edge import EdgeVariant
from railyard.measure.result.variants.federated import FederatedVariant
from railyard.measure.result.variants.jobs import JobsVariant
from railyard.measure.result.variants.local import LocalVariant
from railyard.measure.result.variants.operate import OperateVariant
from railyard.measure.result.variants.pipeline import PipelineVariant
from railyard.measure.result.variants.serving import ServedVariant, ServingVariant
from railyard.measure.result.variants.trace import TraceVariant
from railyard.measure.result.variants.traffic import TrafficVariant
from railyard.measure.result.variants.training import TrainingVariant
from railyard.measure.result.variants.variant import BaseVariant, StepVariant

FORMAT: Literal["railyard/result-1"] = "railyard/result-1"


def kind_of(variant: object) -> str | None:
    """The kind of work of a variant; of a mapping, by the section that only this kind has."""
    if isinstance(variant, BaseVariant):
        return variant.kind
    if not isinstance(variant, dict):
        return None
    if "serving" in variant:
        return "pipeline" if isinstance(variant["serving"], dict) and "stages" in variant["serving"] else "serving"
    form = next((key for key in ("trace", "jobs", "operate", "federated", "local", "edge") if key in variant), None)
    if form is not None:
        return form
    return "training" if "step" in variant or "packet" not in variant else "traffic"


Variant = Annotated[
    Annotated[TrainingVariant, Tag("training")]
    | Annotated[ServingVariant, Tag("serving")]
    | Annotated[PipelineVariant, Tag("pipeline")]
    | Annotated[JobsVariant, Tag("jobs")]
    | Annotated[TraceVariant, Tag("trace")]
    | Annotated[TrafficVariant, Tag("traffic")]
    | Annotated[OperateVariant, Tag("operate")]
    | Annotated[FederatedVariant, Tag("federated")]
    | Annotated[LocalVariant, Tag("local")]
    | Annotated[EdgeVariant, Tag("edge")],
    Discriminator(kind_of),
]
"""A variant of any kind of work; another kind adds its file in `variants/` and its line here."""


class FailedVariant(Figures):
    """A variant of a comparison that did not end well."""

    name: str = Field(description="of the variant")
    settings: Values = Field(description="the keys in which it differs, and their values")
    error: str = Field(description="why")


class Result(Figures):
    """What a study found, and how."""

    format: Literal["railyard/result-1"] = Field(description="of this document")
    name: str = Field(description="of the study")
    scenario: Values = Field(description="what was studied, defaults written out")
    provenance: ProvenanceFigures = Field(description="where the numbers come from")
    variants: tuple[Variant, ...] = Field(min_length=1, description="in the order of the comparison")
    verdict: Verdict | None = Field(
        default=None, description="which variant is best and which cannot be told from it; absent without a comparison"
    )
    failed: tuple[FailedVariant, ...] | None = Field(
        default=None, description="variants that did not end well; absent where all did"
    )

    @property
    def steps(self) -> tuple[StepVariant, ...]:
        """The variants whose ranks go through a step: training, traces."""
        return tuple(variant for variant in self.variants if isinstance(variant, StepVariant))

    @property
    def jobs(self) -> tuple[JobsVariant, ...]:
        """The variants of several jobs that share a cluster."""
        return tuple(variant for variant in self.variants if isinstance(variant, JobsVariant))

    @property
    def operated(self) -> tuple[OperateVariant, ...]:
        """The variants of many jobs for months."""
        return tuple(variant for variant in self.variants if isinstance(variant, OperateVariant))

    @property
    def wide(self) -> tuple[FederatedVariant | LocalVariant | EdgeVariant, ...]:
        """The variants of work outside one hall: clients, sites, edge."""
        kinds = (FederatedVariant, LocalVariant, EdgeVariant)
        return tuple(variant for variant in self.variants if isinstance(variant, kinds))

    @property
    def served(self) -> tuple[ServedVariant, ...]:
        """The variants that answer requests: services, pipelines."""
        return tuple(variant for variant in self.variants if isinstance(variant, ServedVariant))
