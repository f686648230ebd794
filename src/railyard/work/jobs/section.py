"""Section of the scenario for several jobs on one cluster."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Literal

from pydantic import AfterValidator, BeforeValidator, Field, model_validator
from pydantic_core import PydanticCustomError

from railyard.cluster.placement import policies
from railyard.cluster.spec import Placement
from railyard.kit.schema.quantity import limits
from railyard.work.scenario.quantity import Natural, Span, Text, Whole
from railyard.work.scenario.section import Section, WorkKey, works
from railyard.work.serving.section import ServingSection
from railyard.work.trace.section import TraceKey
from railyard.work.training.section import TrainingSection

if TYPE_CHECKING:
    from pathlib import Path

_WORDS = " ".join(f"`{name}`: {policy.summary[0].lower()}{policy.summary[1:]}" for name, policy in policies.items())


class PlacementSection(Section):
    """Which of the free accelerators a job gets, in the order of its ranks."""

    policy: Literal[tuple(policies.names())] = Field(default="packed", description=_WORDS)  # type: ignore[valid-type]
    seed: Natural = Field(default=0, description="Of what the policy draws.")

    def record(self) -> Placement:
        """The record that the cluster room takes."""
        return Placement(self.policy, self.seed)


def _policy(value: object) -> object:
    return {"policy": value} if isinstance(value, str) else value


class JobSection(Section):
    """One of several jobs; one of `training`, `serving` and `trace` says what it is."""

    name: Text = Field(description="How it is called in tables; each job has a name of its own.")
    accelerators: Annotated[Whole, limits(1, 1 << 20)] = Field(
        description="Accelerators that it has for itself, one rank each.", examples=[32]
    )
    placement: Annotated[PlacementSection, BeforeValidator(_policy)] = Field(
        default_factory=PlacementSection,
        description="Which accelerators; jobs choose in the order in which they stand.",
    )
    tenant: Text | None = Field(
        default=None, description="Tenant of `cluster.tenancy` whose ports it gets; left out: ports of nobody."
    )
    start: Span = Field(default=0.0, description="Start time: the phase of its steps relative to others.")
    training: TrainingSection | None = Field(default=None, description="A training job, step after step.")
    serving: ServingSection | None = Field(default=None, description="A model that answers requests.")
    trace: TraceKey | None = Field(
        default=None, description="A trace, schedule or matrix that is run again and again: a file, or its section."
    )

    @property
    def kind(self) -> Literal["training", "serving", "trace"]:
        """The key that says what it is."""
        if self.training is not None:
            return "training"
        return "serving" if self.serving is not None else "trace"

    @model_validator(mode="after")
    def _one(self) -> JobSection:
        if sum(part is not None for part in (self.training, self.serving, self.trace)) != 1:
            raise PydanticCustomError("job", "one of `training`, `serving` and `trace` says what a job is")
        return self

    def files_in(self, folder: Path) -> dict[str, Path]:
        """Files that the section of its kind of work names."""
        section: Section = getattr(self, self.kind)
        return section.files_in(folder)


def _told_apart(jobs: tuple[JobSection, ...]) -> tuple[JobSection, ...]:
    if not jobs:
        raise PydanticCustomError("workload", "there is no job in `jobs`")
    names = [job.name for job in jobs]
    twice = next((name for number, name in enumerate(names) if name in names[:number]), None)
    if twice is not None:
        raise PydanticCustomError("workload", "two jobs are called `{name}`", {"name": twice})
    return jobs


works.add(
    "jobs",
    WorkKey(Annotated[tuple[JobSection, ...], AfterValidator(_told_apart)], "Jobs that share the cluster.", order=40),
)
