"""Which nodes jobs get by a scheduler's rule: what `placement.json` holds."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from railyard.measure.result.section import Count, Figures


class PlacedRow(Figures):
    """A job and its nodes."""

    job: str = Field(description="its name")
    state: str = Field(description="placed, waits; of Kueue also admitted, runs, preempted, moved, has quota")
    wanted: Count | None = Field(description="nodes that it asks; null where it asks pods")
    nodes: tuple[str, ...] = Field(description="names in the order of ranks; empty where it waits")
    groups: tuple[Count, ...] = Field(description="how many groups of each level it touches; empty where it waits")
    remarks: tuple[str, ...] = Field(description="why it waits, what of its wishes is not met")


class PolicyRow(Figures):
    """What a policy makes of the job that is placed."""

    policy: str = Field(description="its name")
    bound: bool = Field(description="whether it only shows how bad it can get")
    nodes: tuple[str, ...] = Field(description="names in the order of ranks; empty where the job waits")
    groups: tuple[Count, ...] = Field(description="how many groups of each level it touches")
    least: tuple[Count, ...] = Field(description="how few would do with what is free")
    step_s: float | None = Field(description="mean step there, s; null where the job waits")
    usd_per_1000_steps: float | None = Field(description="as the job's part of the cluster; null where it waits")


class PlacementAnswer(Figures):
    """Which nodes jobs get, and what other rules would have made of it."""

    format: Literal["railyard-placement/1"] = Field(description="of this document")
    name: str = Field(description="of the table of jobs")
    version: str = Field(description="of Railyard")
    rule: str = Field(description="by which jobs are placed")
    levels: tuple[str, ...] = Field(description="of the cluster, from the innermost; empty where the rule has its own")
    total: Count | None = Field(description="nodes of the cluster; null where queues share it out")
    idle: Count | None = Field(description="nodes that are left; null where queues share it out")
    jobs: tuple[PlacedRow, ...] = Field(description="in the order of the table")
    policies: tuple[PolicyRow, ...] = Field(description="of a scenario's job, the chosen one first; else empty")

    def sentence(self) -> str:
        """The answer in one sentence."""
        waiting = sum(not row.nodes for row in self.jobs)
        placed = f"{len(self.jobs) - waiting} of {len(self.jobs)} jobs placed by {self.rule}"
        best = self.best()
        if best is None or best is self.policies[0]:
            return placed
        return f"{placed}; {best.policy} is {self.gain(best):.1%} faster"

    def best(self) -> PolicyRow | None:
        """The policy with the shortest step, bounds left out; None where nothing was compared."""
        steps = [row for row in self.policies if not row.bound and row.step_s is not None]
        return min(steps, key=lambda row: row.step_s or 0.0, default=None)

    def gain(self, row: PolicyRow) -> float:
        """By which share of its own step another policy is faster than the chosen one."""
        first = self.policies[0].step_s
        return 0.0 if first is None or not row.step_s else first / row.step_s - 1.0
