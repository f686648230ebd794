"""How a job that shares a cluster gets its accelerators."""

from typing import Literal

from pydantic import Field

from railyard.cluster.placement import policies
from railyard.cluster.spec import Placement
from railyard.work.scenario.quantity import Natural
from railyard.work.scenario.section import Section

_WORDS = " ".join(f"`{name}`: {policy.summary[0].lower()}{policy.summary[1:]}" for name, policy in policies.items())


class PlacementSection(Section):
    """Which of the free accelerators a job gets, in the order of its ranks."""

    policy: Literal[tuple(policies.names())] = Field(default="packed", description=_WORDS)  # type: ignore[valid-type]
    seed: Natural = Field(default=0, description="Of what the policy draws.")

    def record(self) -> Placement:
        """The record that the cluster room takes."""
        return Placement(self.policy, self.seed)
