"""From traces and a cluster to the forecast: step, network tax, cost, and a band that names its sources."""

from __future__ import annotations

import math
from dataclasses import replace
from threading import Event
from typing import TYPE_CHECKING, Any

import numpy as np

import railyard
from railyard.ask.scale.buckets import rebucketed
from railyard.ask.scale.relayout import ScaledTarget, checked_target, other_layout
from railyard.ask.scale.rescale import rescaled
from railyard.ask.scale.traced import (
    mean_s,
    read_traced,
    recognized,
    refuse_unknown,
    slowed_kernels,
    traced_figures,
    unrecognized,
)
from railyard.cluster.bill import bill_of
from railyard.collective.policy import kind_word
from railyard.engine import Jitter
from railyard.graph import HOST, CollectiveKind, Kind
from railyard.kit.errors import InputError
from railyard.kit.schema import yaml
from railyard.measure.cost.assumptions import Assumptions
from railyard.measure.cost.capital import parts_of_rows
from railyard.measure.cost.cost import hourly
from railyard.measure.decompose import decompose
from railyard.measure.result.measured import (
    AxisRow,
    BandPart,
    ScaleAnswer,
    ScaledBand,
    ScaledStep,
)
from railyard.measure.result.step import TimeShare
from railyard.work.scenario import load, override
from railyard.work.scenario.load import Variant
from railyard.work.scenario.model import Scenario
from railyard.work.study import compose
from railyard.work.trace.builder import Trace
from railyard.work.trace.prepare import PreparedTrace, placement_of
from railyard.work.trace.simulate import TraceBench, trace_tax
from railyard.work.training.collectives import collective_rows
from railyard.work.training.prepare import engine_of, policy_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence
    from pathlib import Path

    from railyard.ask.scale.layout import Grid
    from railyard.ask.scale.relayout import Target
    from railyard.ask.scale.traced import Traced
    from railyard.catalog import Catalog
    from railyard.cluster import Cluster
    from railyard.graph import Record, TaskGraph
    from railyard.measure.result.network import CollectiveRow
    from railyard.work.scenario.load import Draft

_KEPT = ("name", "catalog", "cluster", "collectives", "economics", "packet", "seed", "engine")
"""Keys of a scenario that a forecast reads."""

LEFT_OUT = (
    "kernels keep their measured times: how communication slows them, clocks and stragglers come from the trace",
    "the host's idle time is unchanged, even where communication hid it",
    "stragglers repeat those of the trace: more ranks would show rarer ones",
)


def target_draft(path: Path, trace: Path, accelerators: int | None, engine: str | None) -> Draft:
    """The scenario of a forecast: cluster, collectives and prices of a file.

    Raises:
        InputError: The file has no cluster, or an invalid one.
    """
    tree = yaml.read(path, if_empty="it has a section `cluster`, as a scenario")
    if "cluster" not in tree.value:
        raise InputError("the file has no section `cluster`", file=path, found=", ".join(tree.value))
    kept = {key: node for key, node in tree.value.items() if key in _KEPT}
    tree = replace(tree, value=kept)
    values = {"workload": {"trace": {"file": str(trace)}}, "name": kept["name"].value if "name" in kept else path.stem}
    values |= {"engine": engine} if engine else {}
    values |= {"cluster.accelerators": accelerators} if accelerators else {}
    for key, value in values.items():
        tree = override.put(tree, key, yaml.from_plain(value, yaml.Mark("railyard scale")))
    return load.Draft(load.check(tree, Scenario), tree, path.parent)


def scaled_step(
    path: Path,
    cluster: Path,
    *,
    accelerators: int | None = None,
    gradients: int = 0,
    world: int | None = None,
    parallelism: Mapping[str, Any] | None = None,
    engine: str | None = None,
    report: Callable[[str, float], None] = lambda _what, _share: None,
) -> ScaleAnswer:
    """Forecasts a step.

    Args:
        path: Traces.
        cluster: A scenario, of which cluster, collectives and prices are read.
        accelerators: Of the target; None: as many as the cluster has.
        gradients: See `read_traced`.
        world: See `read_traced`.
        parallelism: Keys of `parallelism` for another layout than the traced one, see `relayout`.
        engine: That runs communications; None: the scenario's.
        report: Called with the current activity and the share done.

    Raises:
        InputError: Trace and cluster do not fit, or too little of the trace was recognized.
        SimulationError: The run cannot finish.
    """
    report("reading", 0.0)
    draft = target_draft(cluster, path, accelerators, engine)
    catalog = compose.catalog_of(draft)
    machine = compose.cluster_of(draft, catalog)
    traced = read_traced(path, gradients=gradients, world=world)
    known = recognized(traced, catalog)
    refuse_unknown(traced, draft.scenario.cluster.accelerators)
    grid = None if parallelism else traced.grid.grown(machine.ranks)
    target = checked_target(traced, grid, machine, cluster, draft)
    if grid is None:
        found = other_layout(traced, cluster, draft, catalog, parallelism or {})
    else:
        found = _grown(target, grid, machine)
    job = _prepared(draft, catalog, found.cluster, found.graph)
    simulations = iter(range(1, 9))
    bench = TraceBench(job, Event(), lambda _name: report("simulating", next(simulations, 8) / 9))
    record = bench.run(job.cluster, draft.scenario.seed)
    shares = decompose(record)
    tax = trace_tax(replace(bench, seed=draft.scenario.seed), record, shares)
    rows = collective_rows(record, job.cluster, job.policy)
    step_s = record.makespan_ps * 1e-12
    waits_s = math.fsum(row.seconds for row in shares.rows if row.phase == HOST)
    parts = tuple(_band(traced, found, bench, rows, step_s))
    if found.idle_s is not None:
        words = "the host's idle time: as the model of launches has it, or as in the trace"
        parts += (BandPart(source=words, low_s=0.0, high_s=max(found.idle_s - waits_s, 0.0)),)
    low, high = (math.sqrt(math.fsum(getattr(part, end) ** 2 for part in parts)) for end in ("low_s", "high_s"))
    cost = hourly(shares, job.cluster.accelerator, parts_of_rows(bill_of(job.cluster)), job.assumptions)
    return ScaleAnswer(
        format="railyard-scale/1",
        name=draft.title,
        version=railyard.__version__,
        engine=job.engine.name,
        accelerators=found.graph.ranks,
        step=ScaledStep(
            seconds=step_s,
            kernels_s=found.kernels_s,
            host_s=max(found.own_s - found.kernels_s, 0.0) if found.idle_s is None else waits_s,
            time=tuple(
                TimeShare(cause=row.cause, group=row.group, phase=row.phase, seconds=row.seconds, share=row.share)
                for row in shares.rows
            ),
        ),
        band=ScaledBand(low=max(step_s - low, 0.0), high=step_s + high, parts=parts),
        measured_share=found.measured_share,
        traced=traced_figures(traced, known),
        target=target.rows,
        layout=found.layout,
        buckets=found.buckets,
        tax=tax,
        cost=cost.section(),
        collectives=rows,
        unrecognized=tuple(unrecognized(traced, found.unscaled, known)),
        left_out=(*LEFT_OUT, *record.meta["left_out"]),
    )


def _grown(on: Target, target: Grid, cluster: Cluster) -> ScaledTarget:
    """The traced layout with more or fewer replicas."""
    traced = on.traced
    made = rebucketed(traced.steps, traced.grid, target, traced.framework, cluster.accelerator)
    scaled = rescaled(made.steps, traced.grid, target)
    free = None
    if any(step.assumed for step in made.steps.values()):
        steps = {rank: step.without_assumed() for rank, step in made.steps.items()}
        free = rescaled(steps, traced.grid, target).graph
    ranks, times = np.unique(scaled.stands_for, return_counts=True)
    kernels_s, own_s = (
        float(np.average([getattr(traced.steps[rank], name) for rank in ranks.tolist()], weights=times)) * 1e-9
        for name in ("kernels_ns", "own_ns")
    )
    layout = tuple(
        AxisRow(role=old.role or "?", traced=old.size, target=new.size, stride=old.stride, known_by=old.how)
        for old, new in zip(traced.grid.axes, target.axes, strict=True)
    )
    low, high = on.error
    words = "kernels of another accelerator: errors of steps that the model had not seen, on both"
    part = BandPart(source=words, low_s=low * kernels_s, high_s=high * kernels_s)
    return ScaledTarget(
        scaled.graph, cluster, kernels_s, own_s, layout, measured_share=0.0 if high else 1.0,
        unscaled=(*scaled.unscaled, *made.kept), free=free, parts=(part,) if high else (), same=not high,
        buckets=made.words,
    )  # fmt: skip


def _prepared(draft: Draft, catalog: Catalog, cluster: Cluster, graph: TaskGraph) -> PreparedTrace:
    scenario = draft.scenario
    with load.blaming(draft, "collectives"):
        policy = policy_of(scenario.collectives, draft.folder, cluster)
    with load.blaming(draft, "economics"):
        assumptions = Assumptions.from_catalog(catalog, scenario.economics.given())
    return PreparedTrace(
        variant=Variant(draft.title, {}, draft),
        cluster=cluster,
        trace=Trace(graph, np.zeros(len(graph), np.int32)),
        format="scale",
        placement=placement_of(graph.ranks, cluster, None),
        engine=engine_of(draft, cluster, scenario.engine),
        policy=policy,
        faults=(),
        jitter=Jitter(),
        assumptions=assumptions,
    )


def _band(
    traced: Traced, found: ScaledTarget, bench: TraceBench, rows: Sequence[CollectiveRow], step_s: float
) -> Iterator[BandPart]:
    own_s = found.own_s
    low, high = traced.spread
    yield BandPart(
        source=f"measured steps and ranks: the 80 % interval of own time is {low:.3f} to {high:.3f} of the chosen step",
        low_s=max(own_s * (1 - low), 0.0),
        high_s=max(own_s * (high - 1), 0.0),
    )
    if len(rows):
        ends = [_with_error(bench, rows, end) - step_s for end in ("low_s", "high_s")]
        yield BandPart(
            source="collectives: the 80 % interval of measurements that are newer than the model's data"
            " (all errors in the same direction)",
            low_s=max(0.0, -ends[0]),
            high_s=max(ends[1], 0.0),
        )
    replayed = mean_s([abs(step.replayed_ns - step.period_ns) for step in traced.steps.values()])
    idle = mean_s([step.unexplained_ns for step in traced.steps.values()])
    yield BandPart(
        source="waits: the traced step replayed with measured communication, and idle time during communication that"
        " may have been a wait for it",
        low_s=replayed + idle,
        high_s=replayed,
    )
    kept_s = math.fsum(one.seconds for one in found.unscaled)
    if kept_s:
        yield BandPart(source="communications that keep their measured time", low_s=kept_s, high_s=kept_s)
    rows_s, more_s = slowed_kernels(traced)
    if more_s:
        yield BandPart(
            source="kernels that communications slow: all of them always, or none",
            low_s=math.fsum(row.lost_s for row in rows_s) / len(traced.steps),
            high_s=more_s,
        )
    if found.free is not None:
        without_s = _run(bench, found.free).makespan_ps * 1e-12
        words = "waits that nothing in the trace shows: the step without them"
        yield BandPart(source=words, low_s=max(step_s - without_s, 0.0), high_s=0.0)
    if traced.grid.ranks <= found.graph.ranks and found.same:
        yield _itself(traced, bench)
    yield from found.parts


def _with_error(bench: TraceBench, rows: Sequence[CollectiveRow], end: str) -> float:
    """The step in seconds if every collective is as fast or slow as the end of its band: its size is multiplied."""
    job = bench.job
    graph = job.trace.graph
    factor = {(row.group, row.kind, row.size_bytes): getattr(row, end) / row.alone_s for row in rows if row.alone_s}
    middle = float(np.median(list(factor.values()))) if factor else 1.0
    names = np.array([graph.communicators.group[at] for at in range(len(graph.communicators))])
    sizes = graph.size_bytes.copy()
    moves = np.flatnonzero(graph.kind == Kind.COLLECTIVE)
    keys = np.stack([graph.rank[moves], graph.collective[moves], graph.size_bytes[moves]], axis=1)
    unique, place = np.unique(keys, axis=0, return_inverse=True)
    times = [
        factor.get((str(names[group]), kind_word(CollectiveKind(kind)), size), middle)
        for group, kind, size in unique.tolist()
    ]
    sizes[moves] = np.rint(sizes[moves] * np.array(times)[place.ravel()]).astype(np.int64)
    return _run(bench, replace(graph, size_bytes=sizes)).makespan_ps * 1e-12


def _itself(traced: Traced, bench: TraceBench) -> BandPart:
    """How much longer the traced step is than its forecast on as many ranks of the target."""
    graph = rescaled(traced.steps, traced.grid, traced.grid).graph
    longer_s = mean_s([step.period_ns for step in traced.steps.values()]) - _run(bench, graph).makespan_ps * 1e-12
    words = "the traced step over its forecast on as many ranks of this cluster: waits for ranks without a trace"
    return BandPart(source=f"{words}, or a slower network", low_s=0.0, high_s=max(round(longer_s, 9), 0.0))


def _run(bench: TraceBench, graph: TaskGraph) -> Record:
    """Another graph on the first ranks of the cluster."""
    job = bench.job
    trace, placement = Trace(graph, np.zeros(len(graph), np.int32)), placement_of(graph.ranks, job.cluster, None)
    return replace(bench, job=replace(job, trace=trace, placement=placement)).run(
        job.cluster, job.variant.draft.scenario.seed
    )
