"""What a worker does: points of a plan on an engine. All that it needs is in the task, its answer is plain values."""

from __future__ import annotations

import statistics
from dataclasses import replace
from pathlib import Path
from threading import Event
from typing import TYPE_CHECKING, Any

from railyard.ask.plan.designs import service
from railyard.ask.plan.designs.build import Bench
from railyard.ask.plan.designs.objectives import figures_of
from railyard.ask.plan.designs.outcome import Outcome, layout_of
from railyard.ask.plan.designs.price import priced
from railyard.ask.plan.designs.space import space_of
from railyard.ask.plan.designs.sweep import reason, sweep
from railyard.engine.packet.slices import hops_in
from railyard.kit.errors import InputError, SimulationError
from railyard.kit.schema.yaml import Mark, from_plain
from railyard.measure.decompose import decompose
from railyard.work.scenario import load
from railyard.work.scenario.variants import Variant
from railyard.work.study.deaths import words
from railyard.work.training.collectives import packets_of
from railyard.work.training.faults import JobFaults, sorted_out
from railyard.work.training.graphs import redrawn
from railyard.work.training.losses import Losses, Steps
from railyard.work.training.prepare import prepared
from railyard.work.training.step_runs import StepRuns
from railyard.work.training.storing import loading_of

if TYPE_CHECKING:
    from collections.abc import Mapping

    from railyard.measure.result.network import PacketFigures
    from railyard.work.training.prepare import Prepared


def simulated(
    bench: Bench, point: int, demand: int, engine: str, layout: Mapping[str, Any], *, budget_hops: float = 0.0
) -> Outcome:
    """A point under a demand on an engine; with its error where it cannot run.

    Args:
        bench: Builds it.
        point: Its number.
        demand: Of the demand.
        engine: Name of the engine.
        layout: Fields of `Layout`.
        budget_hops: That packets may take; 0: as the scenario says.
    """
    try:
        return _one(bench, (point, demand), engine, layout, budget_hops)
    except InputError as error:
        text = reason(error)
    except SimulationError as error:
        text = str(error).splitlines()[0]
    return Outcome(point, demand, engine, error=text, layouts=(dict(layout),))


def _one(bench: Bench, place: tuple[int, int], engine: str, values: Mapping[str, Any], budget_hops: float) -> Outcome:
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


def _stepped(whole: Prepared) -> Outcome:
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
    losses = Losses(faults, hit, graph, saved, Steps(samples[middle], samples[middle]))
    more_s = bench.meeting_s(job.cluster, drawn, samples[middle]) + (0.0 if loading is None else loading.variation_s)
    step_s = samples[middle] + more_s
    rows = tuple((row.cause, row.group, row.phase, row.seconds / step_s) for row in found.rows)
    section = packets_of(timeline, drawn).get("packet")
    return Outcome(
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


_BENCHES: dict[str, Bench] = {}
"""Of the plan at hand: a worker meets it task after task."""

SWEEP = "railyard.ask.plan.designs.work:swept"
RUN = "railyard.ask.plan.designs.work:ran"


def swept(task: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Points in closed form.

    Args:
        task: `plan`, `points` (numbers of points and demands) and `exclude` (names).
    """
    exclude, bench = frozenset(task["exclude"]), _bench(task["plan"])
    of = service.sweep if bench.space.base.kind == "serving" else sweep
    found = of(bench, [tuple(pair) for pair in task["points"]], exclude)
    return [outcome.plain() for outcome in found]


def ran(task: Mapping[str, Any]) -> dict[str, Any]:
    """A point on an engine.

    Args:
        task: `plan`, `point`, `demand`, `engine`, `layout`, and `budget_hops`, which packets may take (0: as written).
    """
    bench = _bench(task["plan"])
    if task["engine"] == "serving":
        return service.served(bench, task["point"], task["demand"]).plain()
    given = (task["point"], task["demand"], task["engine"], task["layout"])
    return simulated(bench, *given, budget_hops=task.get("budget_hops", 0.0)).plain()


def _bench(plan: Mapping[str, Any]) -> Bench:
    """The plan of a task, read once."""
    digest = str(plan["digest"])
    if digest not in _BENCHES:
        _BENCHES.clear()
        draft = load.from_values(plan["values"])
        _BENCHES[digest] = Bench(space_of(replace(draft, folder=Path(plan["folder"]))))
    return _BENCHES[digest]
