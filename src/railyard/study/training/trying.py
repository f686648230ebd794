"""Remedies tried: those that `run` tries, where the network costs enough, and any that `explain` asks for."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from railyard.errors import InputError, SimulationError
from railyard.result.bottleneck import ChangeRow
from railyard.study import bounds
from railyard.study.remedies import Waits, proposals
from railyard.study.training.hash_seeds import redrawn

if TYPE_CHECKING:
    from collections.abc import Iterator

    from railyard.graph import Record
    from railyard.measure.bottleneck import Bottleneck
    from railyard.measure.explain import TimeTree
    from railyard.study.remedies import Remedy
    from railyard.study.training.prepare import Prepared
    from railyard.study.training.step_runs import StepRuns

WORTH = 0.02
"""Share of the step that an endless network saves, from which on `run` tries what would spare it."""

TASKS = 300_000
"""Tasks of a step up to which `run` tries it a dozen times more; `explain` always does."""


def waits_of(tree: TimeTree, job: Prepared) -> Waits:
    """What remedies are proposed by, of a tree of `explain`."""
    outside = {tier.name for tier in job.cluster.back_end.tiers}
    shares = {node.name: tree.share(node) for node in tree.root.children}
    network = sum(
        tree.share(node)
        for path, node in tree.root.walk()
        if not node.children and "exposed communication" in path and path[-1] in outside
    )
    return Waits(shares, network + shares.get("stragglers", 0.0))


def proposed(job: Prepared, waits: Waits) -> Iterator[Remedy]:
    """Every remedy of a job."""
    for kind in map(proposals.get, proposals.names()):
        yield from kind.propose(job, waits)


def applied(remedy: Remedy, bench: StepRuns) -> tuple[Prepared, Record]:
    """The job with a remedy and its step, on the engine and under the seed of a bench.

    Raises:
        InputError: The job does not allow it.
        SimulationError: The step cannot end.
    """
    job = remedy.apply()
    changed = replace(bench, job=job)
    # The job's own cluster has the hashes of this seed already.
    cluster = job.cluster if job.cluster is bench.job.cluster else redrawn(job.cluster, bench.seed)
    return job, changed.step(bench.graphs.of(job.training, cluster), cluster, seed=bench.seed)


def with_changes(search: Bottleneck, bench: StepRuns, step_s: float, added_s: float) -> Bottleneck:
    """A search for the bottleneck with what other networks and layouts give, where that is worth its time.

    Args:
        search: What was found so far.
        bench: Runs steps of the variant; of the engine that trials are made on.
        step_s: One step as it is.
        added_s: What the mean step has beyond it.
    """
    gain, job = search.network_gain or 0.0, bench.job
    if gain < WORTH or bounds.about_tasks(job.training) > TASKS:
        return search
    return replace(search, changes=Trying(bench, step_s + added_s, added_s).changes(gain))


@dataclass(frozen=True)
class Trying:
    """Tries in a run what `explain` would: other fabrics, queue pairs, placements, one other layout.

    Attributes:
        bench: Runs steps of the variant; of the engine that trials are made on.
        step_s: Its mean step.
        added_s: What of it lies beyond one step's timeline.
    """

    bench: StepRuns
    step_s: float
    added_s: float

    def changes(self, network_gain: float) -> tuple[ChangeRow, ...]:
        """What they give, the most helpful first. Where the bound of all fabrics gives nothing, none is tried.

        Args:
            network_gain: Share of the step that an endless network saves.
        """
        waits = Waits({"exposed communication": network_gain}, network_gain)
        rows: list[ChangeRow] = []
        kinds = [kind for kind in map(proposals.get, proposals.names()) if kind.in_run]
        for kind in sorted(kinds, key=lambda kind: not kind.bounded):
            for remedy in kind.propose(self.bench.job, waits):
                hopeless = kind.bounded and any(row.bound and row.gain < WORTH for row in rows)
                row = None if hopeless else self._row(remedy)
                rows += [] if row is None else [row]
        return tuple(sorted(rows, key=lambda row: (-row.gain, row.name)))

    def _row(self, remedy: Remedy) -> ChangeRow | None:
        try:
            _, record = applied(remedy, self.bench)
        except (InputError, SimulationError):
            return None
        mean_s = self.bench.scale * record.makespan_ps * 1e-12 + self.added_s
        return ChangeRow(
            name=remedy.name,
            family=remedy.family,
            step_seconds=mean_s,
            gain=1 - mean_s / self.step_s,
            bound=remedy.bound,
        )
