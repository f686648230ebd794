"""The scenario's `plan`: which servers, layouts and routers each stage of a pipeline may have."""

from typing import Annotated, Literal

from pydantic import Field

from railyard.scenario.quantity import Positive, Rate, Text
from railyard.scenario.section import Section

Layout = Literal["together", "apart", "hybrid"]
RouterName = Literal["round-robin", "random", "least-loaded", "two-choices", "prefix", "session"]


class SideSection(Section):
    """Candidates of one side of a model whose prompts and answers are apart."""

    servers: tuple[Text, ...] = Field(default=(), description="Servers; those of the stage when left out.")
    tp: tuple[Positive, ...] = Field(default=(), description="Tensor parallel ranks; those of the stage.")


class ChoicesSection(Section):
    """What one stage may be. What is left out stays as it is written."""

    servers: tuple[Text, ...] = Field(default=(), description="Servers of the catalogue.")
    tp: tuple[Positive, ...] = Field(default=(), description="Tensor parallel ranks of a replica.")
    layouts: Annotated[tuple[Layout, ...], Field(min_length=1)] = Field(
        default=("together",),
        description="Of a model: prompts and answers on the same replicas (`together`), on their own (`apart`), or some"
        " replicas for both beside those (`hybrid`).",
    )
    prefill: SideSection = Field(default_factory=SideSection, description="Prompts, where they are apart.")
    decode: SideSection = Field(default_factory=SideSection, description="Answers, where they are apart.")
    routers: tuple[RouterName, ...] = Field(default=(), description="Routers of a model.")
    most: Positive = Field(default=32, description="Replicas of a pool at most.")


class PlanSection(Section):
    """The search for the cheapest deployment within the objective."""

    stages: dict[Text, ChoicesSection] = Field(description="By stage; stages that are left out stay as they are.")
    simulations: Positive = Field(default=1000, description="Trials at most.")
    link_rates: tuple[Rate, ...] = Field(
        default=(), description="Rates of the network between pools at which the best plans are tried again."
    )
