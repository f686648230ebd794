"""What a worker does: points of a plan on an engine. All that it needs is in the task, its answer is plain values."""

from __future__ import annotations

import statistics
from dataclasses import dataclass, replace
from pathlib import Path
from threading import Event
from typing import TYPE_CHECKING, Any

import numpy as np

from railyard.ask.plan import service  # noqa: F401 - registers its kind of plans
from railyard.ask.plan.build import DesignBench
from railyard.ask.plan.objectives import figures_of
from railyard.ask.plan.outcome import DesignOutcome, layout_of, layout_values
from railyard.ask.plan.price import priced
from railyard.ask.plan.space import space_of
from railyard.ask.plan.uncertainty import PlanKind, missed_of_step, plan_kinds
from railyard.engine.packet.slices import hops_in
from railyard.kit.errors import InputError, SimulationError
from railyard.kit.schema.yaml import Mark, from_plain
from railyard.measure.decompose import decompose
from railyard.model.machine import Machine, StorageRates, distinct
from railyard.work.scenario import load
from railyard.work.scenario.load import Variant
from railyard.work.study.deaths import words
from railyard.work.training import stored
from railyard.work.training.collectives import packets_of
from railyard.work.training.designs import estimate, evaluate_fastest, steady_step_s
from railyard.work.training.faults import JobFaults, sorted_out
from railyard.work.training.graphs import redrawn
from railyard.work.training.losses import Losses, unsaved_s
from railyard.work.training.prepare import prepared
from railyard.work.training.step_runs import StepRuns
from railyard.work.training.storing import loading_of
from railyard.work.training.trust import software_known

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from numpy.typing import NDArray

    from railyard.ask.plan.build import CandidateDesign, PlannedHardware
    from railyard.ask.plan.price import DesignPrice
    from railyard.ask.plan.uncertainty import TimeError
    from railyard.measure.result.network import PacketFigures
    from railyard.work.training.designs import Estimate
    from railyard.work.training.prepare import Prepared
    from railyard.work.training.spec import Training


AT_ONCE = 65_536
"""Layouts that are evaluated together: what networks share of them is worked out once, in half a gigabyte."""

KINDS = 24
"""Layouts of a point that are kept."""

_EXPOSED = {
    "tensor_s": "tp",
    "context_s": "cp",
    "expert_s": "ep",
    "pipeline_s": "pp",
    "gradient_s": "dp",
    "parameter_s": "dp",
    "outer_s": "dp",
}
_OTHER = {
    "compute_s": ("compute", "", "forward"),
    "encoding_s": ("compute", "", "encoding"),
    "optimizer_s": ("compute", "", "optimizer"),
    "host_s": ("dependency", "", "host"),
    "fixed_s": ("dependency", "", "host"),
    "bubble_s": ("bubble", "pp", ""),
    "data_s": ("data", "", ""),
}


def sweep(bench: DesignBench, points: Sequence[tuple[int, int]], exclude: frozenset[str]) -> Iterator[DesignOutcome]:
    """Points in closed form; those that cannot be come last."""
    waiting: list[CandidateDesign] = []
    failed: dict[tuple[int, int], DesignOutcome] = {}
    count = 0
    for point, demand in points:
        try:
            design = bench.design(point, demand)
        except InputError as error:
            failed[point, demand] = DesignOutcome(point, demand, "analytic", error=error.reason)
            continue
        waiting.append(design)
        count += len(design.jobs)
        if count >= AT_ONCE:
            yield from _evaluated(bench, waiting, exclude)
            waiting, count = [], 0
    if waiting:
        yield from _evaluated(bench, waiting, exclude)
    yield from failed.values()


def _evaluated(
    bench: DesignBench, designs: Sequence[CandidateDesign], exclude: frozenset[str]
) -> Iterator[DesignOutcome]:
    """Some designs, those without a closed form of their network without its contention."""
    for known in (True, False):
        some = [design for design in designs if (design.hardware.site is not None) is known]
        if some:
            yield from _ranked(bench, some, exclude, contended=known)


def _kept(net_s: NDArray[np.float64], kinds: NDArray[np.int64], these: range) -> list[int]:
    """The fastest layout of each kind, the fastest kind first: within a kind the closed form errs alike."""
    order = these.start + np.argsort(net_s[these.start : these.stop], kind="stable")
    _, first = np.unique(kinds[order], return_index=True)
    return [int(at) for at in order[np.sort(first)][:KINDS]]


def _kinds(jobs: Sequence[Training]) -> NDArray[np.int64]:
    """int64[jobs], the kind of each job's layout."""
    found: dict[tuple[int, ...], int] = {}
    known, of_job = distinct(jobs)
    layouts = (job.layout for job in known)
    numbers = [
        found.setdefault((one.tp, one.pp, one.cp, one.ep, one.zero == 3, one.recompute == "full"), len(found))
        for one in layouts
    ]
    return np.array(numbers, np.int64)[of_job]


@dataclass(frozen=True)
class _Steps:
    step: Estimate
    alone: Estimate


def _steps(
    jobs: Sequence[Training], designs: Sequence[CandidateDesign], kinds: NDArray[np.int64], *, contended: bool
) -> _Steps:
    """Steps of designs with their jobs; with contention endless where a layout is none of the fastest kinds'."""
    if contended:
        sites = [design.hardware.site for design in designs]
        _, place = distinct(designs)
        families = place * (int(kinds.max()) + 1) + kinds
        return _Steps(*evaluate_fastest(jobs, [site for site in sites if site is not None], families, place, KINDS))
    machines = [Machine.of(design.hardware.faulty.cluster) for design in designs]
    plain = estimate(jobs, machines)
    return _Steps(plain, plain)


def _ranked(
    bench: DesignBench, designs: Sequence[CandidateDesign], exclude: frozenset[str], *, contended: bool
) -> Iterator[DesignOutcome]:
    jobs = [job for design in designs for job in design.jobs]
    owners = [design for design in designs for _ in design.jobs]
    kinds = _kinds(jobs)
    steps = _steps(jobs, owners, kinds, contended=contended)
    net_s = steady_step_s(steps.step)
    begin = 0
    for design in designs:
        end = begin + len(design.jobs)
        order = _kept(net_s, kinds, range(begin, end))
        found = _outcome(bench, design, jobs, steps, order)
        hardware = design.hardware
        yield hardware.marked(found, exclude)
        begin = end


def _outcome(
    bench: DesignBench, design: CandidateDesign, jobs: Sequence[Training], steps: _Steps, order: Sequence[int]
) -> DesignOutcome:
    first = order[0]
    steps_s = tuple(_net_s(steps.step, at) for at in order)
    training = jobs[first]
    seated = bench.seated(design.point, design.demand, training.layout)
    if seated is not design.hardware:
        design = replace(design, hardware=seated, jobs=(training,))
        steps, first = _steps([training], [design], np.zeros(1, np.int64), contended=seated.site is not None), 0
    outcome = DesignOutcome(
        design.point,
        design.demand,
        "analytic",
        step_s=_net_s(steps.step, first),
        time=_time(steps, first),
        layouts=tuple(layout_values(jobs[at].layout) for at in order),
        steps_s=steps_s,
        tried=len(design.jobs),
        checkpoint_s=_saved(design, training),
    )
    if seated.faulty.ended:
        lost_s = seated.faulty.lost_s + unsaved_s(training, outcome.step_s)
        outcome = replace(outcome, ended=seated.faulty.ended, lost_s=lost_s)
    try:
        found = priced(
            *(seated.cluster, training, outcome, seated.parts, design.assumptions), delivery_s=bench.delivery_s(seated)
        )
    except InputError as error:
        return DesignOutcome(design.point, design.demand, "analytic", error=error.reason)
    return replace(outcome, figures=figures_of(found))


def _net_s(step: Estimate, at: int) -> float:
    return float(step.step_s[at] - step.jitter_s[at] - step.checkpoint_s[at])


def _time(steps: _Steps, at: int) -> tuple[tuple[str, str, str, float], ...]:
    """How the step is spent: what communications take alone, and what they lose to one another."""
    total, rows = _net_s(steps.step, at), []
    for name, (cause, group, phase) in _OTHER.items():
        rows.append((cause, group, phase, float(getattr(steps.step, name)[at]) / total))
    for name, group in _EXPOSED.items():
        step_s, alone_s = (float(getattr(each, name)[at]) for each in (steps.step, steps.alone))
        rows.append(("bandwidth", group, "", min(alone_s, step_s) / total))
        rows.append(("contention", group, "", max(step_s - alone_s, 0.0) / total))
    return tuple(row for row in rows if row[3] > 0.0)


def _saved(design: CandidateDesign, training: Training) -> tuple[float, float, float]:
    rates = None if training.checkpoint is None else StorageRates.of(design.hardware.cluster)
    return (0.0, 0.0, 0.0) if rates is None else (stored.stall_s(training, rates), 0.0, 0.0)


def simulated(
    bench: DesignBench, point: int, demand: int, engine: str, layout: Mapping[str, Any], *, budget_hops: float = 0.0
) -> DesignOutcome:
    """A point under a demand on an engine; with its error where it cannot run."""
    try:
        return plan_kinds.get(bench.space.base.kind).run(bench, (point, demand), engine, layout, budget_hops)
    except InputError as error:
        text = error.reason
    except SimulationError as error:
        text = str(error).splitlines()[0]
    return DesignOutcome(point, demand, engine, error=text, layouts=(dict(layout),))


def _run(
    bench: DesignBench, place: tuple[int, int], engine: str, values: Mapping[str, Any], budget_hops: float
) -> DesignOutcome:
    (point, demand), layout = place, layout_of(values)
    design = bench.design(point, demand)
    training = next((job for job in design.jobs if job.layout == layout), design.jobs[0].replace(layout=layout))
    hardware = bench.seated(point, demand, layout)
    draft = bench.space.draft(point, demand)
    if budget_hops:
        draft = draft.changed(
            {"packet.budget_hops": from_plain(f"{budget_hops / 1e6:.6f} M", Mark("plan.effort.verify"))}
        )
    variant = Variant(bench.space.name(point), bench.space.settings(point), draft)
    job = prepared(variant, bench.catalog(point, demand), hardware.cluster, engine, training=training)
    outcome = replace(_stepped(job), point=point, demand=demand, engine=engine, layouts=(dict(values),), tried=1)
    money = priced(
        *(hardware.cluster, training, outcome, hardware.parts, design.assumptions),
        delivery_s=bench.delivery_s(hardware),
    )
    return replace(outcome, figures=figures_of(money))


def _stepped(whole: Prepared) -> DesignOutcome:
    """The step of the seed whose step is the median, with what meetings and uneven data add to it, under all faults."""
    bench = StepRuns(whole, whole.graphs, Event(), lambda _what: None)
    graph = whole.graphs.of(whole.training, whole.cluster)
    faults = JobFaults()
    if whole.faults:
        cluster = redrawn(whole.cluster, whole.seeds[0])
        without_s = bench.step(graph, cluster, seed=whole.seeds[0], faults=()).makespan_ps * 1e-12
        faults = sorted_out(bench, graph, without_s)
    job = faults.later(whole)
    bench = replace(bench, job=job)
    seeds = job.seeds if bench.random else job.seeds[:1]
    runs = [(bench.step(graph, redrawn(job.cluster, seed), seed=seed), seed) for seed in seeds]
    samples = tuple(run.makespan_ps * 1e-12 for run, _ in runs)
    middle = samples.index(statistics.median_low(samples))
    timeline, seed = runs[middle]
    drawn = redrawn(job.cluster, seed)
    bench = replace(bench, job=replace(job, cluster=drawn), seed=seed)
    found = decompose(timeline)
    waited_s = sum(row.seconds for row in found.rows if row.cause == "data")
    loading = loading_of(bench.job, timeline, samples[middle], waited_s)
    saved = bench.checkpoint(samples[middle])
    hit = replace(bench, job=replace(whole, cluster=redrawn(whole.cluster, seed)))
    losses = Losses(faults, hit, graph, saved, samples[middle], samples[middle])
    more_s = bench.meeting_s(job.cluster, drawn, samples[middle]) + (0.0 if loading is None else loading.variation_s)
    step_s = samples[middle] + more_s
    rows = tuple((row.cause, row.group, row.phase, row.seconds / step_s) for row in found.rows)
    section = packets_of(timeline, drawn).get("packet")
    return DesignOutcome(
        0,
        0,
        "",
        step_s=step_s,
        samples_s=samples if len(samples) > 1 else (),
        time=rows if not more_s else (*rows, ("bandwidth", "dp", "meeting", more_s / step_s)),
        checkpoint_s=(saved.stall_s, saved.write_s, saved.read_s),
        tail=0.0 if section is None else _tail(section),
        ended=words(faults.fatal[0].fault) if faults.fatal else "",
        lost_s=losses.once_s if whole.faults else 0.0,
        hops=hops_in(timeline, drawn) if job.engine.name == "flow" else 0.0,
        sliced=float(timeline.meta.get("slice", 1.0)),
    )


def _tail(section: PacketFigures) -> float:
    """99th percentile of flow completion over its median, 0 where nothing was sent."""
    times = section.fct_us
    return times.p99 / times.p50 if times.p99 and times.p50 else 0.0


_BENCHES: dict[str, DesignBench] = {}
"""Benches of the plan at hand, which a worker meets task after task."""

SWEEP = "railyard.ask.plan.evaluate:swept"
RUN = "railyard.ask.plan.evaluate:ran"


def swept(task: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Points in closed form, in the order asked for: `points` (numbers of points and demands) of a `plan`."""
    exclude, bench = frozenset(task["exclude"]), _bench(task["plan"])
    pairs = [tuple(pair) for pair in task["points"]]
    outcomes = plan_kinds.get(bench.space.base.kind).sweep(bench, pairs, exclude)
    found = {(outcome.point, outcome.demand): outcome.plain() for outcome in outcomes}
    return [found[pair] for pair in pairs]


def ran(task: Mapping[str, Any]) -> dict[str, Any]:
    """A point on an engine.

    Args:
        task: `plan`, `point`, `demand`, `engine`, `layout`, and `budget_hops`, which packets may take (0: as written).
    """
    given = (task["point"], task["demand"], task["engine"], task["layout"])
    return simulated(_bench(task["plan"]), *given, budget_hops=task.get("budget_hops", 0.0)).plain()


def _bench(plan: Mapping[str, Any]) -> DesignBench:
    digest = str(plan["digest"])
    if digest not in _BENCHES:
        _BENCHES.clear()
        draft = load.from_values(plan["values"])
        _BENCHES[digest] = DesignBench(space_of(replace(draft, folder=Path(plan["folder"]))))
    return _BENCHES[digest]


def _look(
    bench: DesignBench, place: tuple[int, int], outcome: DesignOutcome
) -> tuple[PlannedHardware, str, DesignPrice, tuple[TimeError, ...]]:
    layout, design = layout_of(outcome.layouts[0]), bench.design(*place)
    training = design.jobs[0].replace(layout=layout)
    seated = bench.seated(*place, layout)
    price = priced(
        *(seated.cluster, training, outcome, seated.parts, design.assumptions), delivery_s=bench.delivery_s(seated)
    )
    section = bench.space.draft(*place).scenario.training
    known = software_known(section, training.software, seated.cluster.accelerator)
    return seated, str(training.layout), price, missed_of_step(seated, training, outcome, known=known)


plan_kinds.add("training", PlanKind(sweep, _run, _look))
