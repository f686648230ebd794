"""Remedies tried: those that `run` tries, and any that `explain` asks for, priced as a run of their own would be."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from railyard.kit.errors import InputError, SimulationError
from railyard.measure.bottleneck import NOT_TRIED
from railyard.measure.result.step import ChangeRow
from railyard.work.remedies import Waits, proposals
from railyard.work.remedies.job import changed
from railyard.work.study import compose
from railyard.work.training.collectives import economics
from railyard.work.training.faults import on_flow, sorted_out
from railyard.work.training.graphs import redrawn
from railyard.work.training.likely import PARALLELISM
from railyard.work.training.losses import Losses
from railyard.work.training.step_runs import MeanStep
from railyard.work.training.storing import Saved, checkpoint_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from railyard.measure.bottleneck import Bottleneck
    from railyard.measure.cost.evaluate import Economics
    from railyard.work.remedies import Remedy
    from railyard.work.training.explain_leaf import TimeTree
    from railyard.work.training.faults import JobFaults
    from railyard.work.training.prepare import Prepared
    from railyard.work.training.step_runs import StepRuns

WORTH = 0.02
"""Share of tokens that the scale-out network takes, or of the step that a branch of the tree takes, from which on `run`
tries what would spare it."""

TASKS = 300_000
"""Tasks of a step up to which `run` tries it a dozen times more; `explain` always does."""

_BRANCHES = {"bubble": "pipeline bubble", "straggler": "stragglers", "data": "waiting for data"}


@dataclass(frozen=True)
class Stepped:
    """A job on one step, with what a mean step has beyond it.

    Attributes:
        best_interval_steps: Between the checkpoints that make the job shortest; None where checkpoints do not stall it.
    """

    job: Prepared
    mean: MeanStep
    cost: Economics
    best_interval_steps: int | None

    @property
    def cpmt_usd(self) -> float:
        """Typical, USD per million tokens."""
        return float(self.cost.cpmt.total.typical)

    @property
    def capex_usd(self) -> float:
        """Typical, USD."""
        return float(self.cost.capex.total_usd.typical)


def stepped(job: Prepared, bench: StepRuns, lost_s: float = 0.0) -> Stepped:
    """One step of a job under the seed and on the engine of a bench, measured as `run` measures it.

    Raises:
        InputError: The job would never end.
        SimulationError: The step cannot end.
    """
    # The bench's own cluster has the hashes of this seed already.
    cluster = job.cluster if job.cluster is bench.job.cluster else redrawn(job.cluster, bench.seed)
    on = replace(bench, job=replace(job, cluster=cluster, engine=bench.job.engine))
    record = on.step(on.graphs.of(job.training, cluster), cluster, seed=bench.seed)
    return _priced(on.job, MeanStep.of(replace(on, lost_s=lost_s), record, on.checkpoint(record.makespan_ps * 1e-12)))


def _priced(job: Prepared, mean: MeanStep) -> Stepped:
    cost = economics(job, mean)
    storage = checkpoint_of(job, mean.saved, mean.step_s, cost.jct)
    return Stepped(job, mean, cost, None if storage is None else storage.best_interval_steps)


@dataclass(frozen=True)
class Remedied:
    """Steps of a job with a remedy, under the faults of its scenario.

    Attributes:
        bench: Runs them; of the job in its later steps.
        mean: Its mean step, where the bench's engine has run it already.
    """

    bench: StepRuns
    whole: Prepared
    faults: JobFaults
    mean: MeanStep | None = None

    def plain(self) -> Stepped:
        """Without a remedy.

        Raises:
            InputError: The job would never end.
            SimulationError: The step cannot end.
        """
        job, bench = self.bench.job, self.bench
        return _priced(job, self.mean) if self.mean is not None else stepped(job, bench, bench.lost_s)

    def __call__(self, remedy: Remedy) -> Stepped:
        """Tries a remedy; one that changes the cluster may save a job that dies without it.

        Raises:
            InputError: It does not divide, does not fit or cannot be built then.
            SimulationError: The step cannot end.
        """
        other = changed(self.whole, remedy.changes)
        if not self.whole.faults or "faults" in remedy.changes:
            return stepped(other, self.bench)
        if not any(key.startswith("cluster.") for key in remedy.changes):
            return stepped(self.faults.later(other), self.bench, self.bench.lost_s)
        cluster = redrawn(other.cluster, self.bench.seed)
        bench = on_flow(replace(self.bench, job=replace(other, cluster=cluster)))
        graph = bench.graphs.of(other.training, cluster)
        without_s = bench.step(graph, cluster, seed=bench.seed, faults=()).makespan_ps * 1e-12
        faults = sorted_out(bench, graph, without_s)
        lost_s = Losses(faults, bench, graph, Saved(), without_s, without_s).once_s
        return stepped(faults.later(bench.job), self.bench, lost_s)


def waits_of(tree: TimeTree, tax: float, best_interval_steps: int | None) -> Waits:
    """What remedies are proposed by, of a tree of `explain` and the network tax."""
    return Waits({node.name: tree.share(node) for node in tree.root.children}, tax, best_interval_steps)


def proposed(job: Prepared, waits: Waits) -> Iterator[Remedy]:
    """Every remedy of a job."""
    for kind in map(proposals.get, proposals.names()):
        yield from kind.propose(job, waits)


def row_of(remedy: Remedy, found: Stepped, plain: Stepped) -> ChangeRow:
    """What a remedy gives against the job as it is."""
    return ChangeRow(
        name=remedy.name,
        family=remedy.family,
        settings=settings_of(plain.job, remedy),
        assumes=remedy.assumes,
        step_seconds=found.mean.mean_s,
        gain=1 - found.mean.mean_s / plain.mean.mean_s,
        cpmt_usd=None if remedy.bound else found.cpmt_usd,
        cpmt_gain=None if remedy.bound else 1 - found.cpmt_usd / plain.cpmt_usd,
        capex_change_usd=None if remedy.bound else found.capex_usd - plain.capex_usd,
        bound=remedy.bound,
    )


def settings_of(job: Prepared, remedy: Remedy) -> dict[str, object]:
    """What to set for a remedy: its changes, and the layout too where `auto` would search for another one with them."""
    return {**({PARALLELISM: job.training.layout.parallelism()} if job.layouts else {}), **remedy.changes}


def with_changes(search: Bottleneck, remedied: Remedied, tax: float) -> Bottleneck:
    """A search for the bottleneck with what the user can change; as it is where a step is too large to be tried often.

    Args:
        search: What was found so far.
        remedied: Runs steps of the variant, on the engine that trials are made on.
        tax: Share of its tokens that the scale-out network takes.
    """
    if compose.about_tasks(remedied.bench.job.training) > TASKS:
        return replace(search, headline=NOT_TRIED)
    try:
        plain = remedied.plain()
    except (InputError, SimulationError):  # the run itself says why
        return search
    return replace(search, changes=tuple(_rows(remedied, plain, tax)))


def with_repair(search: Bottleneck, healthy: Stepped, job: Prepared, mean: MeanStep) -> Bottleneck:
    """A search that begins with the repair of the job's faults, whose step is known: what is broken is fixed first."""
    plain = Stepped(job, mean, economics(job, mean), None)
    repairs = proposals.get("repair").propose(job, Waits({}, 0.0))
    rows = tuple(row_of(remedy, healthy, plain) for remedy in repairs)
    return replace(search, changes=(*rows, *(search.changes or ())))


def _rows(remedied: Remedied, plain: Stepped, tax: float) -> list[ChangeRow]:
    """What each remedy that `run` tries gives, the one that saves most of a token's cost first, bounds last."""
    waits = Waits(_shares(plain), tax if tax >= WORTH else 0.0, plain.best_interval_steps)
    rows: list[ChangeRow] = []
    kinds = [kind for kind in map(proposals.get, proposals.names()) if kind.in_run]
    for kind in sorted(kinds, key=lambda kind: not kind.bounded):
        for remedy in kind.propose(remedied.bench.job, waits):
            # Where the bound of all fabrics gives nothing, no fabric does.
            if kind.bounded and any(row.bound and row.gain < WORTH for row in rows):
                continue
            try:
                rows.append(row_of(remedy, remedied(remedy), plain))
            except (InputError, SimulationError):
                continue  # it does not divide, does not fit or cannot end
    return sorted(rows, key=lambda row: (row.bound, -(row.cpmt_gain or 0.0), -row.gain, row.name))


def _shares(plain: Stepped) -> Mapping[str, float]:
    """Shares of a step by branch of the tree, as far as a decomposition tells them."""
    shares: dict[str, float] = {}
    for row in plain.mean.shares.rows:
        branch = _BRANCHES.get(row.cause, row.cause)
        shares[branch] = shares.get(branch, 0.0) + row.share
    return shares
