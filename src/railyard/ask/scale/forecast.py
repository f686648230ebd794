"""From traces and a cluster to the forecast: step, network tax, cost, and a band that names its sources."""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import dataclass, replace
from threading import Event
from typing import TYPE_CHECKING

import numpy as np

import railyard
from railyard.ask.observe.gather import gather
from railyard.ask.scale.layout import GRADIENTS, ODD, grid_of
from railyard.ask.scale.rescale import rescaled, why_kept
from railyard.ask.scale.shapes import Shapes, shapes_of, with_sizes
from railyard.ask.scale.steps import ASSUMED, EXACT, SEEN, CommCall, measured_steps, spread_of
from railyard.cluster.bill import bill_of
from railyard.collective.policy import kind_word
from railyard.engine import Jitter
from railyard.graph import CollectiveKind, Kind
from railyard.kit.errors import InputError
from railyard.kit.schema import yaml
from railyard.measure.cost.assumptions import Assumptions
from railyard.measure.cost.capital import parts_of_rows
from railyard.measure.cost.cost import hourly
from railyard.measure.decompose import decompose
from railyard.measure.result.scale import (
    AxisRow,
    BandPart,
    ScaleAnswer,
    ScaledBand,
    ScaledStep,
    TracedFigures,
    UnrecognizedRow,
)
from railyard.measure.result.step import TimeShare
from railyard.work.scenario import load, override
from railyard.work.scenario.model import Scenario
from railyard.work.scenario.variants import Variant
from railyard.work.study import compose
from railyard.work.trace.builder import Trace
from railyard.work.trace.prepare import PreparedTrace, placement_of
from railyard.work.trace.simulate import TraceBench, trace_tax
from railyard.work.training.collectives import collective_rows
from railyard.work.training.conditions import engine_of, policy_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence
    from pathlib import Path

    from railyard.ask.observe.gather import Gathered
    from railyard.ask.scale.layout import Grid
    from railyard.ask.scale.rescale import Rescaled
    from railyard.ask.scale.steps import TracedStep
    from railyard.catalog import Catalog
    from railyard.cluster import Cluster
    from railyard.graph import Record, TaskGraph
    from railyard.measure.result.network import CollectiveRow
    from railyard.work.scenario.load import Draft

_KEPT = ("name", "catalog", "cluster", "collectives", "economics", "packet", "seed", "engine")
"""Keys of a scenario that a forecast reads."""

LEFT_OUT = (
    "kernels keep their measured times: how communication slows them, clocks and stragglers are those of the trace",
    "the host's idle time stays what it was, also where it hid behind communication or would come to light",
    "which ranks are slow repeats: more ranks have rarer stragglers than a few traced ones show",
    "memory: whether the job fits is not checked",
)
RECORD = (
    "record with torch.profiler of PyTorch 2.4 or later, which writes groups and sizes into NCCL's kernels; --world N"
    " says that communications without a group are among all N traced ranks"
)
_MOST_UNSCALED = 0.5
"""Share of measured communication that may keep its measured time if the number of accelerators changes."""


@dataclass(frozen=True)
class Traced:
    """What was read.

    Attributes:
        steps: The chosen step of every traced rank.
        spread: Own time of the other steps over it.
        grid: Ranks of the job.
        shapes: Of the first trace.
    """

    found: Gathered
    number: int
    every: Mapping[int, Mapping[int, TracedStep]]
    steps: dict[int, TracedStep]
    spread: tuple[float, float]
    grid: Grid
    shapes: Shapes


def read_traced(path: Path, *, gradients: int = 0, world: int | None = None) -> Traced:
    """Reads the traces of one job.

    Args:
        path: File, folder or archive.
        gradients: Bytes of an all-reduce over replicas that a trace of one replica lacks; 0: none.
        world: Ranks of the traced job, among all of which communications are whose group the trace does not list.

    Raises:
        InputError: There is no trace of a step.
    """
    found, shapes = gather(path), shapes_of(path)
    found.pieces = [with_sizes(piece, shapes.get(piece.source)) for piece in found.pieces]
    number, every = measured_steps(found.pieces)
    steps = {rank: those[number] for rank, those in every.items()}
    members: dict[str, Sequence[int]] = {}
    for piece in found.pieces:
        members |= {name: ranks for name, ranks in piece.groups.items() if ranks}
    if not found.missing_ranks:
        callers: dict[str, list[int]] = {}
        for rank, step in sorted(steps.items()):
            for name in {call.group for call in step.calls if call is not None} - {*members}:
                callers.setdefault(name, []).append(rank)
        members |= {name: ranks for name, ranks in callers.items() if len(ranks) > 1}
    if world is not None:
        names = {call.group for step in steps.values() for call in step.calls if call is not None}
        members |= {name: range(world) for name in names - {*members}}
    purposes = {name: words for piece in found.pieces for name, words in piece.purposes.items()}
    grid = grid_of(world or max(found.world, 1), members, purposes, steps.values())
    if gradients:
        grid = grid.with_replicas(steps)
        call = CommCall(GRADIENTS, "all_reduce", gradients, 0)
        steps = {rank: step.with_last(call) for rank, step in steps.items()}
    return Traced(found, number, every, steps, spread_of(every, number), grid, next(iter(shapes.values()), Shapes()))


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
    _refuse_unknown(traced, draft.scenario.cluster.accelerators)
    target = traced.grid.grown(draft.scenario.cluster.accelerators)
    scaled = rescaled(traced.steps, traced.grid, target)
    job = _prepared(draft, catalog, machine, scaled.graph)
    simulations = iter(range(1, 9))
    bench = TraceBench(job, Event(), lambda _name: report("simulating", next(simulations, 8) / 9))
    record = bench.run(job.cluster, draft.scenario.seed)
    shares = decompose(record)
    tax = trace_tax(replace(bench, seed=draft.scenario.seed), record, shares)
    rows = collective_rows(record, job.cluster, job.policy)
    step_s = record.makespan_ps * 1e-12
    parts = tuple(_band(traced, scaled, bench, rows, step_s))
    if any(step.assumed for step in traced.steps.values()):
        free = rescaled({rank: step.without_assumed() for rank, step in traced.steps.items()}, traced.grid, target)
        without_s = _run(bench, free.graph).makespan_ps * 1e-12
        words = "waits that nothing in the trace shows: the step without them"
        parts = (*parts, BandPart(source=words, low_s=max(step_s - without_s, 0.0), high_s=0.0))
    if traced.grid.ranks <= target.ranks:
        parts = (*parts, _itself(traced, bench))
    low, high = (math.sqrt(math.fsum(getattr(part, end) ** 2 for part in parts)) for end in ("low_s", "high_s"))
    cost = hourly(shares, job.cluster.accelerator, parts_of_rows(bill_of(job.cluster)), job.assumptions)
    kernels_s, own_s = _times(traced, scaled)
    gemms = traced.shapes.in_words()
    return ScaleAnswer(
        format="railyard-scale/1",
        name=draft.title,
        version=railyard.__version__,
        engine=job.engine.name,
        accelerators=target.ranks,
        step=ScaledStep(
            seconds=step_s,
            kernels_s=kernels_s,
            host_s=max(own_s - kernels_s, 0.0),
            time=tuple(
                TimeShare(cause=row.cause, group=row.group, phase=row.phase, seconds=row.seconds, share=row.share)
                for row in shares.rows
            ),
        ),
        band=ScaledBand(low=max(step_s - low, 0.0), high=step_s + high, parts=parts),
        measured_share=1.0,
        traced=_traced(traced, gemms),
        layout=tuple(
            AxisRow(role=old.role or "?", traced=old.size, target=new.size, stride=old.stride, known_by=old.how)
            for old, new in zip(traced.grid.axes, target.axes, strict=True)
        ),
        tax=tax,
        cost=cost.section(),
        collectives=rows,
        unrecognized=tuple(_unrecognized(traced, scaled, gemms)),
        left_out=(*LEFT_OUT, *record.meta["left_out"]),
    )


def _refuse_unknown(traced: Traced, ranks: int) -> None:
    """Refuses to change the number of ranks if most communication cannot be run on the network.

    Raises:
        InputError: Says what is not known.
    """
    rows = [
        (call, why_kept(traced.grid, step.rank, call))
        for step in traced.steps.values()
        for call in step.calls
        if call is not None
    ]
    kept_ns, all_ns = sum(call.measured_ns for call, why in rows if why), sum(call.measured_ns for call, _ in rows)
    if ranks != traced.grid.ranks and kept_ns > _MOST_UNSCALED * all_ns:
        counts = Counter(f"{call.kind or 'unknown'}: {why}" for call, why in rows if why)
        raise InputError(
            f"{kept_ns / all_ns:.0%} of the communication in the trace cannot be moved to {ranks:,} ranks",
            file=traced.found.pieces[0].source,
            found="; ".join(f"{times} {words}" for words, times in counts.most_common(4)),
            hint=RECORD,
        )


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


def _times(traced: Traced, scaled: Rescaled) -> tuple[float, float]:
    """Seconds of kernels, and of kernels and idle time of the host, mean over ranks of the target."""
    kernels, own = (
        {rank: getattr(step, name) for rank, step in traced.steps.items()} for name in ("kernels_ns", "own_ns")
    )
    return (
        float(np.mean([kernels[rank] for rank in scaled.stands_for.tolist()])) * 1e-9,
        float(np.mean([own[rank] for rank in scaled.stands_for.tolist()])) * 1e-9,
    )


def _band(
    traced: Traced, scaled: Rescaled, bench: TraceBench, rows: Sequence[CollectiveRow], step_s: float
) -> Iterator[BandPart]:
    _, own_s = _times(traced, scaled)
    low, high = traced.spread
    yield BandPart(
        source=f"measured steps and ranks: own time of eight of ten is {low:.3f} to {high:.3f} of the step in use",
        low_s=max(own_s * (1 - low), 0.0),
        high_s=max(own_s * (high - 1), 0.0),
    )
    if len(rows):
        ends = [_with_error(bench, rows, end) - step_s for end in ("low_s", "high_s")]
        yield BandPart(
            source="collectives: eight of ten measured ones, published after all that the model rests on (all of them"
            " off in the same direction)",
            low_s=max(-ends[0], 0.0),
            high_s=max(ends[1], 0.0),
        )
    replayed = _mean([abs(step.replayed_ns - step.period_ns) for step in traced.steps.values()])
    idle = _mean([step.unexplained_ns for step in traced.steps.values()])
    yield BandPart(
        source="waits: the traced step replayed with measured communication, and idle time during communication that"
        " may have been a wait for it",
        low_s=replayed + idle,
        high_s=replayed,
    )
    kept_s = math.fsum(one.seconds for one in scaled.unscaled)
    if kept_s:
        yield BandPart(source="communications that keep their measured time", low_s=kept_s, high_s=kept_s)


def _mean(nanoseconds: Sequence[int]) -> float:
    return math.fsum(nanoseconds) * 1e-9 / len(nanoseconds)


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
    longer_s = _mean([step.period_ns for step in traced.steps.values()]) - _run(bench, graph).makespan_ps * 1e-12
    words = "the traced step over its forecast on as many ranks of this cluster: waits for ranks without a trace"
    return BandPart(source=f"{words}, or a slower network", low_s=0.0, high_s=max(longer_s, 0.0))


def _run(bench: TraceBench, graph: TaskGraph) -> Record:
    """Another graph on the first ranks of the cluster."""
    job = bench.job
    trace, placement = Trace(graph, np.zeros(len(graph), np.int32)), placement_of(graph.ranks, job.cluster, None)
    return replace(bench, job=replace(job, trace=trace, placement=placement)).run(
        job.cluster, job.variant.draft.scenario.seed
    )


def _traced(traced: Traced, gemms: Sequence[str]) -> TracedFigures:
    steps = list(traced.steps.values())
    return TracedFigures(
        ranks=tuple(sorted(traced.steps)),
        world=traced.grid.ranks,
        step=traced.number,
        steps=max(len(those) for those in traced.every.values()),
        step_s=_mean([step.period_ns for step in steps]),
        replayed_s=_mean([step.replayed_ns for step in steps]),
        overlapped_share=sum(step.overlapped_ns for step in steps) / max(sum(step.kernels_ns for step in steps), 1),
        exact_waits=sum(step.known[EXACT] for step in steps),
        seen_waits=sum(step.known[SEEN] for step in steps),
        assumed_waits=sum(step.known[ASSUMED] for step in steps),
        gemms=tuple(gemms),
        micro_batches=None,
    )


def _unrecognized(traced: Traced, scaled: Rescaled, gemms: Sequence[str]) -> Iterator[UnrecognizedRow]:
    for one in scaled.unscaled:
        group = f" of group `{one.group}`" if one.group else ""
        fate = "take no time" if one.why == ODD else "keep their measured time"
        what = f"{one.times} {one.kind}{group}: they {fate}"
        yield UnrecognizedRow(what=what, why=one.why, seconds=one.seconds)
    for axis in traced.grid.axes:
        if not axis.role and axis.size > 1:
            what = f"the {axis.size} ranks at a distance of {axis.stride}: they keep their number"
            yield UnrecognizedRow(what=what, why="no process group of the traced ranks lies along them", seconds=0.0)
    idle = _mean([step.unexplained_ns for step in traced.steps.values()])
    if idle:
        yield UnrecognizedRow(
            what="idle time of the accelerator during communication: taken for the host's",
            why="no event, and no communication that ended just before the idle time did",
            seconds=idle,
        )
    if not gemms:
        yield UnrecognizedRow(
            what="the shape of the model", why="no shapes: record with record_shapes=True", seconds=0.0
        )
    for remark in traced.found.remarks:
        yield UnrecognizedRow(what=remark, why="a remark of the reader", seconds=0.0)
