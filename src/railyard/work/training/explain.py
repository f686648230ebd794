"""Explains a stored run: its time tree, from the stored timeline, and the effect of each remedy on its step."""

from __future__ import annotations

import math
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass, replace
from threading import Event
from typing import TYPE_CHECKING, Any

from railyard.engine import Jitter
from railyard.graph.parquet import read_record
from railyard.kit.errors import InputError, SimulationError
from railyard.measure import bottleneck
from railyard.measure.decompose import OUTAGE
from railyard.measure.result.variants import TrainingVariant
from railyard.work.study.folder import of_variant
from railyard.work.study.study import prepared_of
from railyard.work.training.explain_tree import MEETINGS, STALL, VARIATION, tree_of
from railyard.work.training.faults import JobFaults, sorted_out
from railyard.work.training.graphs import Graphs, redrawn
from railyard.work.training.step_runs import StepRuns
from railyard.work.training.trying import Remedied, proposed, row_of, waits_of

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from pathlib import Path

    from railyard.graph import Record
    from railyard.measure.bottleneck import Resource
    from railyard.measure.result.reading import Result
    from railyard.work.remedies import Remedy
    from railyard.work.training.explain_leaf import TimeTree
    from railyard.work.training.prepare import Prepared
    from railyard.work.training.trying import Stepped

    Progress = Callable[[str, float], None]

FORMAT = "railyard/explain-1"
_SAME = 1e-9
_PART_OF: Mapping[str, str] = {
    "compute": "computation",
    "network": "exposed communication",
    "storage": "waiting for data",
    "software": "stragglers",
}


@dataclass(frozen=True)
class TriedRemedy:
    """Effect of one remedy.

    Attributes:
        name, family, removes, assumes: As in `Remedy`.
        step_s: Step with it; None if the job does not allow it.
        gain: Share of the step saved; negative if the step got longer.
        cpmt_usd: Typical cost per million tokens with it; None if no price is known.
    """

    name: str
    family: str
    removes: str
    assumes: str = ""
    step_s: float | None = None
    gain: float | None = None
    cpmt_usd: float | None = None
    reason: str = ""

    def to_json(self) -> dict[str, object]:
        """One row of `remedies`."""
        return asdict(self)


@dataclass(frozen=True)
class Explanation:
    """One variant of a run, explained.

    Attributes:
        remedies: Effect of each change that a user can make, the most helpful first; impossible ones at the end.
        sensitivity: Effect of hypothetical hardware (1.25 times the FLOPS), the most helpful first.
    """

    name: str
    source: Path
    variant: TrainingVariant
    engine: str
    variants: tuple[str, ...]
    tree: TimeTree
    remedies: tuple[TriedRemedy, ...]
    sensitivity: tuple[TriedRemedy, ...]

    def to_json(self, *, depth: int | None = None) -> dict[str, object]:
        """Format `railyard/explain-1`.

        Args:
            depth: Levels of the tree below the step; None keeps all.
        """
        return {
            "format": FORMAT,
            "name": self.name,
            "run": str(self.source),
            "engine": self.engine,
            "variants": list(self.variants),
            **self.tree.to_json(depth=depth),
            "tax": self.variant.tax.plain(),
            "cpmt_usd": self.variant.cpmt.typical,
            "remedies": [tried.to_json() for tried in self.remedies],
            "sensitivity": [tried.to_json() for tried in self.sensitivity],
        }

    def to_frame(self) -> Any:
        """The tree as a polars table, one row a node: see `Tree.rows`."""
        import polars as pl

        return pl.DataFrame(self.tree.rows(), infer_schema_length=None)


def explain(
    file: Path, result: Result, variant: str | None, *, with_remedies: bool = True, progress: Progress | None = None
) -> Explanation:
    """Explains a step.

    Args:
        file: Of the result.
        result: As it was read.
        variant: Name of the variant; None takes the first.
        with_remedies: Whether remedies are simulated; each costs about as much as the run's own step.
        progress: Called with the current activity and the share done, from 0 to 1.

    Raises:
        InputError: There is no such run or variant, or its files cannot be read.
    """
    notify: Progress = progress or (lambda _what, _share: None)
    notify("reading the run", 0.0)
    steps = result.of(TrainingVariant)
    number = result.numbered(variant)
    stored = steps[number]
    whole: Prepared = prepared_of(file, result, number, engine=result.provenance.engine)
    faults = _faults_of(whole)
    job = faults.later(whole)
    timeline, notes = _timeline(file.parent, job, number, stored)
    job = replace(job, cluster=redrawn(job.cluster, int(str(timeline.meta.get("seed", 0)))))
    added = _added(stored, timeline.makespan_ps * 1e-12)
    tree = tree_of(timeline, job.cluster, job.training, job.policy, variant=stored.name, added_ps=added)
    remedies: tuple[TriedRemedy, ...] = ()
    sensitivity: tuple[TriedRemedy, ...] = ()
    if with_remedies:
        lost_s = sum(fault.lost_s for fault in stored.faults or ())
        bench = replace(_bench(job), lost_s=lost_s, seed=int(str(timeline.meta.get("seed", 0))))
        remedied = Remedied(bench, whole, faults)
        trials = _Trials(remedied, timeline, tree, stored.tax.tokens_lost, notify, sum(added.values()) * 1e-12)
        remedies, sensitivity, more = trials.all()
        notes += more
    return Explanation(
        name=result.name,
        source=file,
        variant=stored,
        engine=str(timeline.meta.get("engine", job.engine.name)),
        variants=tuple(one.name for one in steps),
        tree=replace(tree, notes=(*tree.notes, *notes)),
        remedies=remedies,
        sensitivity=sensitivity,
    )


def _faults_of(job: Prepared) -> JobFaults:
    """The job's faults, sorted by effect; the result describes the steps after its deaths."""
    if not job.faults:
        return JobFaults()
    bench = _bench(job)
    graph = bench.graphs.of(job.training, job.cluster)
    without_s = bench.step(graph, job.cluster, seed=bench.seed, faults=()).makespan_ps * 1e-12
    return sorted_out(bench, graph, without_s)


def _timeline(folder: Path, job: Prepared, number: int, stored: TrainingVariant) -> tuple[Record, tuple[str, ...]]:
    """The stored timeline; if only the result was kept, the step is simulated again."""
    path = of_variant(folder, number, stored.name) / "timeline.parquet"
    if path.is_file():
        return read_record(path), ()
    bench = _bench(job)
    seed = job.seeds[0]
    cluster = redrawn(job.cluster, seed)
    timeline = replace(bench, seed=seed).step(bench.graphs.of(job.training, cluster), cluster, seed=seed)
    remarks = ["the result has no timeline: the step was simulated again"]
    if timeline.meta.get("digest") != stored.digest:
        remarks.append(
            "it does not come out as the run did, bit by bit (another version, or the median of several seeds)"
        )
    return timeline, tuple(remarks)


def _added(stored: TrainingVariant, step_s: float) -> dict[str, int]:
    """Parts of the result's mean step that are not in its timeline, in ps by name."""
    rows = {(row.cause, row.phase): row.seconds for row in stored.time}
    named = {VARIATION: rows.get(("data", "variation"), 0.0), MEETINGS: rows.get(("outer update", "meeting"), 0.0)}
    rest = stored.step.seconds - step_s - sum(named.values()) - rows.get((OUTAGE, ""), 0.0)
    named[STALL] = rest if rest > _SAME * step_s else 0.0
    return {name: round(seconds * 1e12) for name, seconds in named.items()}


def _bench(job: Prepared) -> StepRuns:
    return StepRuns(job, Graphs(most=2), Event(), lambda _what: None)


@dataclass(frozen=True)
class _Trials:
    """Tries remedies and better hardware on one job.

    Attributes:
        remedied: Runs the job's later steps, with and without a remedy.
        tax: Share of its tokens lost to the scale-out network.
        notify: Called with the current activity and the share done, from 0 to 1.
        added_s: Parts of the mean step beyond one step's timeline.
    """

    remedied: Remedied
    timeline: Record
    tree: TimeTree
    tax: float
    notify: Progress
    added_s: float

    def all(self) -> tuple[tuple[TriedRemedy, ...], tuple[TriedRemedy, ...], tuple[str, ...]]:
        """Every remedy and every improved resource, the most helpful first; and notes for the reader."""
        bench = self.remedied.bench
        job, seed = bench.job, bench.seed
        graph = bench.graphs.of(job.training, job.cluster)
        base = bench.step(graph, job.cluster, seed=seed)
        base_s, stored_s = base.makespan_ps * 1e-12, self.timeline.makespan_ps * 1e-12
        bench = bench.for_trials(graph, base_s)
        remedied = replace(self.remedied, bench=bench)
        plain = remedied.plain()
        wanted = list(proposed(job, waits_of(self.tree, self.tax, plain.best_interval_steps)))
        found = bottleneck.resources(job.cluster, base, jitter=bool(job.faults) or job.jitter != Jitter())
        with ThreadPoolExecutor(max_workers=2) as pool:
            begun = [pool.submit(self._remedy, remedy, remedied, plain) for remedy in wanted]
            begun += [pool.submit(self._resource, bench, resource, base_s) for resource in found]
            tried = []
            for number, future in enumerate(begun, 1):
                tried.append(future.result())
                self.notify(f"trying {tried[-1].name}", number / len(begun))
        notes = ["gains are of simulated steps, one change at a time; they do not add up"]
        if not math.isclose(base_s, stored_s, rel_tol=_SAME):
            notes.append(f"the same step now takes {base_s:.6g} s (stored: {stored_s:.6g} s); gains are against that")
        return _sorted(tried[: len(wanted)]), _sorted(tried[len(wanted) :]), tuple(notes)

    def _remedy(self, remedy: Remedy, remedied: Remedied, plain: Stepped) -> TriedRemedy:
        named = TriedRemedy(remedy.name, remedy.family, remedy.removes, remedy.assumes)
        try:
            row = row_of(remedy, remedied(remedy), plain)
        except (InputError, SimulationError) as error:
            reason = error.problems[0].message if isinstance(error, InputError) else str(error)
            return replace(named, reason=reason.splitlines()[0].partition("; nearest")[0])
        return replace(named, step_s=row.step_seconds, gain=row.gain, cpmt_usd=row.cpmt_usd)

    def _resource(self, bench: StepRuns, resource: Resource, base_s: float) -> TriedRemedy:
        words = f"{bottleneck.FACTOR:g} x {resource.name}"
        if resource.shorter:
            words = f"{resource.name} / {bottleneck.FACTOR:g}"
        if resource.divides_jitter:
            words = f"jitter / {bottleneck.FACTOR:g}"
        mean_s = bench.better(resource, bottleneck.FACTOR) + self.added_s
        gain = 1 - mean_s / (base_s + self.added_s)
        return TriedRemedy(words, "hardware", _PART_OF[resource.family], step_s=mean_s, gain=gain)


def _sorted(tried: Sequence[TriedRemedy]) -> tuple[TriedRemedy, ...]:
    return tuple(sorted(tried, key=lambda one: (one.gain is None, -(one.gain or 0.0), one.name)))
