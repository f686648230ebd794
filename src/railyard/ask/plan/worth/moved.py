"""A scenario with and without one thing moved, on the same draws: what the difference costs a year."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, cast

from railyard.catalog.types import Range
from railyard.kit.errors import InputError
from railyard.measure.cost.assumptions import HOURS_PER_YEAR
from railyard.work.remedies.changed import PARALLELISM
from railyard.work.study import study

if TYPE_CHECKING:
    from collections.abc import Mapping

    from railyard.measure.result.variants.training import TrainingVariant
    from railyard.work.scenario.load import Draft


@dataclass(frozen=True)
class Change:
    """One thing that is moved.

    Attributes:
        name: What it is.
        by: How far, in `unit`.
        unit: Of it.
        without: Keys of the runs that it is compared with.
        moved: Keys that move it.
    """

    name: str
    by: float
    unit: str
    without: Mapping[str, Any]
    moved: Mapping[str, Any]


@dataclass(frozen=True)
class Moved:
    """What one thing is worth.

    Attributes:
        name: What was moved.
        by: How far, in its unit.
        unit: Of `by`, and of what dollars are for.
        steps: Step without and with it, s, by draw.
        usd_per_year: Dollars a year for one unit: what the same tokens cost more. The low end is the least of the draws
            at the low end of all prices, the typical one the middle draw at typical prices.
    """

    name: str
    by: float
    unit: str
    steps: tuple[tuple[float, float], ...]
    usd_per_year: Range


@dataclass(frozen=True)
class Bench:
    """Runs a scenario with some keys otherwise; its layout is found once.

    Attributes:
        draft: The scenario, its first variant.
        fixed: Keys that every run has.
        ranks: Accelerators.
        servers: Of these.
        hop_ps: Latency of a switch of its back-end.
        mtbf_h: Hours between interruptions by one accelerator.
    """

    draft: Draft
    fixed: Mapping[str, Any]
    ranks: int
    servers: int
    hop_ps: int
    mtbf_h: Range

    @staticmethod
    def of(draft: Draft) -> Bench:
        """A scenario whose layout stands.

        Raises:
            InputError: It does not train, or cannot be run.
        """
        if draft.kind != "training":
            raise InputError(
                "what a little more is worth is known of one training job",
                key="workload",
                found=draft.kind,
                allowed="training",
            )
        alone = draft.with_values({"compare": {}, "repeat": 1}, "plan worth")
        job = study.prepare(alone)[0]
        keys = {PARALLELISM: job.training.layout.parallelism()}
        cluster = job.cluster
        hop_ps, mtbf_h = cluster.fabric.hop_latency_ps, job.assumptions.mtbf_h
        return Bench(alone, keys, cluster.ranks, cluster.servers, hop_ps, mtbf_h)

    def run(self, values: Mapping[str, Any]) -> TrainingVariant:
        """One run."""
        draft = self.draft.with_values({**self.fixed, **values}, "plan worth")
        found = study.run(draft, searched=False).result.variants[0]
        return cast("TrainingVariant", found)

    def moved(self, change: Change, draws: int) -> Moved:
        """One thing moved, on so many draws.

        Args:
            change: What is moved.
            draws: Seeds, from the scenario's on.
        """
        by = change.by
        pairs = []
        for draw in range(draws):
            seed = {"seed": self.draft.seed + draw}
            pairs.append((self.run({**change.without, **seed}), self.run({**change.moved, **seed})))
        ends = [sorted(column) for column in zip(*(dearer(*pair, self.ranks) for pair in pairs), strict=True)]
        steps = tuple((one.step.seconds, other.step.seconds) for one, other in pairs)
        typical = ends[1][draws // 2] / by
        edges = (ends[0][0] / by, typical, ends[2][-1] / by)
        return Moved(change.name, by, change.unit, steps, Range(min(edges), typical, max(edges)))


def dearer(one: TrainingVariant, other: TrainingVariant, ranks: int) -> tuple[float, float, float]:
    """Dollars a year by which the tokens of one run cost more in another: low, typical, high prices."""
    found = []
    for end in ("low", "typical", "high"):
        hourly = getattr(one.cpmt.usd_per_gpu_h, end) * ranks
        found.append((getattr(other.cpmt, end) / getattr(one.cpmt, end) - 1) * hourly * HOURS_PER_YEAR)
    return found[0], found[1], found[2]
