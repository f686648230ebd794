"""From traces and a cluster to the forecast: step, network tax, cost, and a band that names its sources."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from threading import Event
from typing import TYPE_CHECKING

import numpy as np

import railyard
from railyard.ask.observe.gather import gather
from railyard.ask.scale import shapes
from railyard.ask.scale.layout import GRADIENTS, grid_of
from railyard.ask.scale.rescale import rescaled
from railyard.ask.scale.steps import ASSUMED, EXACT, SEEN, Call, measured_steps, spread
from railyard.cluster.bill import bill_of
from railyard.engine import Jitter
from railyard.graph import Kind
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
from railyard.work.trace.simulate import TraceBench, taxed
from railyard.work.training.collectives import collective_rows
from railyard.work.training.conditions import engine_of, policy_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence
    from pathlib import Path

    from railyard.ask.observe.gather import Gathered
    from railyard.ask.scale.layout import Grid
    from railyard.ask.scale.rescale import Rescaled
    from railyard.ask.scale.steps import RankStep
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
RECORD = "record with torch.profiler of PyTorch 2.2 or later, which writes groups and sizes into NCCL's kernels"
_MOST_UNSCALED = 0.5
"""Share of measured communication that may keep its measured time if the number of accelerators changes."""


@dataclass(frozen=True)
class Traced:
    """What was read.

    Attributes:
        steps: The chosen step of every traced rank.
        spread: Own time of the other steps over it.
        grid: Ranks of the job.
    """

    found: Gathered
    number: int
    every: Mapping[int, Mapping[int, RankStep]]
    steps: dict[int, RankStep]
    spread: tuple[float, float]
    grid: Grid


def read(path: Path, gradients: int = 0) -> Traced:
    """Reads the traces of one job.

    Args:
        path: File, folder or archive.
        gradients: Bytes of an all-reduce over replicas that a trace of one replica lacks; 0: none.

    Raises:
        InputError: There is no trace of a step.
    """
    found = gather(path)
    number, every = measured_steps(found.pieces)
    steps = {rank: those[number] for rank, those in every.items()}
    members: dict[str, Sequence[int]] = {}
    for piece in found.pieces:
        members |= {name: ranks for name, ranks in piece.groups.items() if ranks}
    if not found.missing_ranks:
        for name in {call.group for step in steps.values() for call in step.calls if call is not None} - {*members}:
            callers = [rank for rank, step in steps.items() if any(c is not None and c.group == name for c in step.calls)]
            members[name] = callers if len(callers) > 1 else ()
    purposes = {name: words for piece in found.pieces for name, words in piece.purposes.items()}
    grid = grid_of(max(found.world, 1), members, purposes, steps.values())
    if gradients:
        grid = grid.with_replicas(steps)
        call = Call(GRADIENTS, "all_reduce", gradients, 0)
        steps = {rank: step.with_last(call) for rank, step in steps.items()}
    return Traced(found, number, every, steps, spread(every, number), grid)


def draft_of(path: Path, trace: Path, accelerators: int | None, engine: str | None) -> Draft:
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


def scale(
    path: Path,
    cluster: Path,
    *,
    accelerators: int | None = None,
    gradients: int = 0,
    engine: str | None = None,
    report: Callable[[str, float], None] = lambda _what, _share: None,
) -> ScaleAnswer:
    """Forecasts a step.

    Args:
        path: Traces.
        cluster: A scenario, of which cluster, collectives and prices are read.
        accelerators: Of the target; None: as many as the cluster has.
        gradients: See `read`.
        engine: That runs communications; None: the scenario's.
        report: Called with the current activity and the share done.

    Raises:
        InputError: Trace and cluster do not fit, or too little of the trace was recognized.
        SimulationError: The run cannot finish.
    """
    report("reading", 0.0)
    draft = draft_of(cluster, path, accelerators, engine)
    traced = read(path, gradients)
    target = traced.grid.grown(draft.scenario.cluster.accelerators)
    scaled = rescaled(traced.steps, traced.grid, target)
    _refuse_unknown(traced, scaled, target.ranks)
    job = _prepared(draft, scaled.graph)
    simulations = iter(range(1, 7))
    bench = TraceBench(job, Event(), lambda _name: report("simulating", next(simulations, 6) / 7))
    record = bench.run(job.cluster, draft.scenario.seed)
    shares = decompose(record)
    tax = taxed(replace(bench, seed=draft.scenario.seed), record, shares)
    rows = collective_rows(record, job.cluster, job.policy)
    step_s = record.makespan_ps * 1e-12
    parts = tuple(_band(traced, scaled, bench, rows, step_s))
    low, high = (math.sqrt(math.fsum(getattr(part, end) ** 2 for part in parts)) for end in ("low_s", "high_s"))
    cost = hourly(shares, job.cluster.accelerator, parts_of_rows(bill_of(job.cluster)), job.assumptions)
    kernels_s, own_s = _times(traced, scaled)
    gemms = shapes.gemms(path)
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


def _refuse_unknown(traced: Traced, scaled: Rescaled, ranks: int) -> None:
    """Refuses to change the number of ranks if most communication could not be run on the network.

    Raises:
        InputError: Says what is not known.
    """
    kept_s = math.fsum(one.seconds for one in scaled.unscaled)
    calls = [call for step in traced.steps.values() for call in step.calls if call is not None]
    all_s = math.fsum(call.measured_ns for call in calls) * 1e-9 / len(traced.steps)
    if ranks != traced.grid.ranks and kept_s > _MOST_UNSCALED * all_s:
        rows = "; ".join(f"{one.times} {one.kind} ({one.why})" for one in scaled.unscaled[:4])
        raise InputError(
            f"{kept_s / all_s:.0%} of the communication in the trace cannot be moved to {ranks:,} ranks",
            file=traced.found.pieces[0].source,
            found=rows,
            hint=RECORD,
        )


def _prepared(draft: Draft, graph: TaskGraph) -> PreparedTrace:
    scenario = draft.scenario
    catalog = compose.catalog_of(draft)
    cluster = compose.cluster_of(draft, catalog)
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
        source=f"measured steps and ranks: own time of eight of ten is {low:.3f} to {high:.3f} of the step that is used",
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
    from railyard.collective.policy import kind_word
    from railyard.graph import CollectiveKind

    times = [
        factor.get((str(names[group]), kind_word(CollectiveKind(kind)), size), middle)
        for group, kind, size in unique.tolist()
    ]
    sizes[moves] = np.rint(sizes[moves] * np.array(times)[place.ravel()]).astype(np.int64)
    other = replace(bench, job=replace(job, trace=replace(job.trace, graph=replace(graph, size_bytes=sizes))))
    record: Record = other.run(job.cluster, job.variant.draft.scenario.seed)
    return record.makespan_ps * 1e-12


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
        yield UnrecognizedRow(
            what=f"{one.times} {one.kind}{group}: they keep their measured time", why=one.why, seconds=one.seconds
        )
    for axis in traced.grid.axes:
        if not axis.role and axis.size > 1:
            what = f"the {axis.size} ranks {axis.stride} apart: they keep their number"
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
