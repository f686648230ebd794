"""The scenario's `tune`: which settings `railyard tune` may change, and what they are tried and judged on."""

from typing import Annotated, Any

from pydantic import Field

from railyard.kit.schema.bounds import Bounds, limits
from railyard.work.scenario.quantity import Positive, Ratio, Text, Whole
from railyard.work.scenario.section import Section


class TuneSection(Section):
    """The search for settings."""

    space: dict[Text, Annotated[tuple[Any, ...], Field(min_length=1)]] = Field(
        default_factory=dict,
        description="Dotted keys and values to try; those of the collective library and the fabric when left out.",
        examples=[{"qps": [2, 4], "collectives.selector": ["best"]}],
    )
    seeds: Positive = Field(default=2, description="Draws of the hashes that settings are tried on.")
    unseen_seeds: Annotated[Whole, limits(2, 1000)] = Field(
        default=4, description="Further draws that the outcome is judged on, at each load."
    )
    unseen_loads: tuple[Annotated[Ratio, Bounds(below=1.0, low=0.0)], ...] = Field(
        default=(0.0, 0.2), description="Traffic of others on the back-end that it is judged under, none in the search."
    )
    unseen_jobs: Annotated[Whole, limits(0, 1000)] = Field(
        default=4,
        description="Other jobs that it is judged on, each with a neighbour: drawn for the same cluster, of another"
        " size, parallelism and traffic beside.",
    )
    steps: Positive | None = Field(
        default=None, description="Steps that the search may run; left out: two a value and draw of the search."
    )
    twins: Annotated[Whole, limits(1, 1000)] = Field(
        default=4, description="With `--online`: runs of every draw and load, which are compared by their means."
    )
