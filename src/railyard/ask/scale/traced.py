"""The step of a job as its traces say it, and the model that trains, recognized by the shapes they recorded.

    output projection     rows x hidden x vocabulary of a rank      once a micro-batch
    MLP                   rows x hidden x width of a rank           once a dense layer, twice if recomputed
    router                rows x hidden x experts                   once a layer with experts, twice if recomputed
    grouped products      rows x hidden x width of an expert        with the experts of a rank as a dimension

A model has all shapes that it must have, as often as it must; of several the first by name is taken.
"""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import dataclass
from itertools import islice
from math import prod
from typing import TYPE_CHECKING, Any

import numpy as np

from railyard.ask.observe.gather import gather
from railyard.ask.observe.kernels import COMPUTE, PHASES
from railyard.ask.observe.reader import sources
from railyard.ask.observe.readers import chakra, kineto
from railyard.ask.scale.buckets import UNCUT, framework_of
from railyard.ask.scale.layout import EXPERTS_ONCE, GRADIENTS, GROWS, ODD, grid_of
from railyard.ask.scale.rescale import why_kept
from railyard.ask.scale.shapes import Shapes, shapes_of, with_sizes
from railyard.ask.scale.steps import ASSUMED, EXACT, SEEN, CommCall, covered, measured_steps, spread_of, union_of
from railyard.kit.errors import InputError, Problem
from railyard.kit.schema import yaml
from railyard.measure.result.measured import SlowedKernelRow, TracedFigures, UnrecognizedRow

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from pathlib import Path

    from railyard.ask.observe.gather import Gathered
    from railyard.ask.scale.layout import Grid
    from railyard.ask.scale.rescale import Unscaled
    from railyard.ask.scale.steps import TracedStep
    from railyard.catalog import Catalog, Model


RECORD = (
    "record with torch.profiler of PyTorch 2.4 or later, which writes groups and sizes into NCCL's kernels; --world N"
    " says that communications without a group are among all N traced ranks"
)
_MOST_UNSCALED = 0.5
"""Share of measured communication that may keep its measured time if the number of accelerators changes."""


_LEAST, _SLOWER, _SHOWN = 3, 1.02, 12
"""Kernels of each kind, and the factor, from which a kernel counts as slowed; and rows of these."""
_SHORTEST_NS = 5_000
"""Older profilers note whole microseconds: shorter kernels are not judged."""


@dataclass(frozen=True)
class Traced:
    """What was read.

    Attributes:
        steps: The chosen step of every traced rank.
        spread: Own time of the other steps over it.
        grid: Ranks of the job.
        shapes: Recorded shapes of operators in the first trace.
        recorded: The same of every trace.
        framework: That made the process groups; empty: not known.
    """

    found: Gathered
    number: int
    every: Mapping[int, Mapping[int, TracedStep]]
    steps: dict[int, TracedStep]
    spread: tuple[float, float]
    grid: Grid
    shapes: Shapes
    recorded: tuple[Shapes, ...]
    framework: str


def read_traced(path: Path, *, gradients: int = 0, world: int | None = None) -> Traced:
    """Reads the traces of one job.

    Args:
        path: File, folder or archive.
        gradients: Bytes of an all-reduce over replicas that a trace of one replica lacks; 0: none.
        world: Ranks of the traced job, among all of which communications are whose group the trace does not list.

    Raises:
        InputError: There is no trace of a step, or a trace is damaged or contradicts itself or another one.
    """
    found, shapes = gather(path), shapes_of(path)
    _refuse_faulty(path, found)
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
    first = next(iter(shapes.values()), Shapes())
    first.reserved_bytes = max((one.reserved_bytes for one in shapes.values()), default=0)
    framework = framework_of(purposes.values())
    return Traced(found, number, every, steps, spread_of(every, number), grid, first, tuple(shapes.values()), framework)


def _refuse_faulty(path: Path, found: Gathered) -> None:
    """Refuses traces of which a part was left out: a diagnosis may rest on the rest, a forecast may not.

    Raises:
        InputError: Says what is wrong, with file, line and key.
    """
    doubtful = {piece.source for piece in found.pieces if piece.faulty} | found.skipped.keys()
    for source in sources(path):
        why, head = found.skipped.get(source.name), source.head() if source.name in doubtful else b""
        if not head.strip():
            continue
        problems: list[Problem] = []
        if kineto.recognises(source.name, head):
            problems = list(islice(kineto.trace_faults(source), _SHOWN))
        if not problems and why is not None and any(one.recognises(source.name, head) for one in (kineto, chakra)):
            problems = [Problem(why, file=source.name)]
        if problems:
            raise InputError.many(problems)


def refuse_unknown(traced: Traced, ranks: int) -> None:
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


def slowed_kernels(traced: Traced) -> tuple[tuple[SlowedKernelRow, ...], float]:
    """Kernels that take longer during communications than at other times, and s that all would lose if always so.

    Kernels are alike by name and thread blocks; both medians need `_LEAST` kernels in all steps of all ranks.
    """
    rows, more_s = [], 0.0
    for piece in traced.found.pieces:
        kernels = piece.kernels
        if kernels is None:
            continue
        end = kernels.start_ns + kernels.duration_ns
        moves = np.flatnonzero(kernels.communicates)
        moves = moves[np.argsort(kernels.start_ns[moves], kind="stable")]
        begins, ends = union_of(kernels.start_ns[moves], end[moves])
        computes = np.flatnonzero(kernels.phase == PHASES.index(COMPUTE))
        inside = covered(begins, ends, kernels.start_ns[computes], end[computes])
        took = kernels.duration_ns[computes]
        code = kernels.name[computes].astype(np.int64) << 32 | kernels.blocks[computes] & 0xFFFFFFFF
        for one in np.unique(code):
            mine = code == one
            during, alone = mine & (2 * inside > took), mine & (inside == 0)
            if min(during.sum(), alone.sum()) < _LEAST:
                continue
            usual = float(np.median(took[alone]))
            factor = float(np.median(took[during])) / max(usual, 1.0)
            if usual >= _SHORTEST_NS and factor > _SLOWER:
                name = kernels.words[int(one >> 32)]
                lost_s = (factor - 1) * usual * int(during.sum()) * 1e-9 / max(len(piece.steps), 1)
                rows.append(SlowedKernelRow(rank=piece.rank or 0, kernel=name, factor=factor, lost_s=lost_s))
                more_s += (factor - 1) * float(took[alone].sum()) * 1e-9 / max(len(piece.steps), 1)
    rows.sort(key=lambda row: -row.lost_s)
    return tuple(rows[:_SHOWN]), more_s / len(traced.steps)


def traced_figures(traced: Traced, job: Mapping[str, Any] | None) -> TracedFigures:
    """The section `traced` of the answer; `job` is the recognized training section."""
    known = job or {}
    keys = known.get("parallelism", {})
    steps = list(traced.steps.values())
    return TracedFigures(
        ranks=tuple(sorted(traced.steps)),
        world=traced.grid.ranks,
        step=traced.number,
        steps=max(len(those) for those in traced.every.values()),
        step_s=mean_s([step.period_ns for step in steps]),
        replayed_s=mean_s([step.replayed_ns for step in steps]),
        overlapped_share=sum(step.overlapped_ns for step in steps) / max(sum(step.kernels_ns for step in steps), 1),
        slowed=slowed_kernels(traced)[0],
        exact_waits=sum(step.known[EXACT] for step in steps),
        seen_waits=sum(step.known[SEEN] for step in steps),
        assumed_waits=sum(step.known[ASSUMED] for step in steps),
        framework=traced.framework or None,
        gemms=traced.shapes.in_words(),
        model=known.get("model"),
        sequence=known.get("sequence"),
        micro_batch=keys.get("micro_batch"),
        micro_batches=known["global_batch"] // keys["micro_batch"] // keys["dp"] if known else None,
    )


def unrecognized(
    traced: Traced, unscaled: Sequence[Unscaled], job: Mapping[str, Any] | None
) -> Iterator[UnrecognizedRow]:
    """Rows of what was not recognized, and what becomes of it."""
    for one in unscaled:
        group = f" of group `{one.group}`" if one.group else ""
        fate = {ODD: "take no time", UNCUT: "keep their size"}.get(one.why, "keep their measured time")
        what = f"{one.times} {one.kind}{group}: they {fate}"
        yield UnrecognizedRow(what=what, why=one.why, seconds=one.seconds)
    for axis in traced.grid.axes:
        if not axis.role and axis.size > 1:
            what = f"the {axis.size} ranks at a distance of {axis.stride}: they keep their number"
            yield UnrecognizedRow(what=what, why="no process group of the traced ranks lies along them", seconds=0.0)
    if any(axis.how == EXPERTS_ONCE for axis in traced.grid.axes):
        what = "the exchange of experts' gradients between replicas: it is left out"
        yield UnrecognizedRow(what=what, why="the trace has every expert once", seconds=0.0)
    idle = mean_s([step.unexplained_ns for step in traced.steps.values()])
    if idle:
        yield UnrecognizedRow(
            what="idle time of the accelerator during communication: taken for the host's",
            why="no event, and no communication that ended just before the idle time did",
            seconds=idle,
        )
    yield from _unknown(traced, job)
    for remark in traced.found.remarks:
        yield UnrecognizedRow(what=remark, why="a remark of the reader", seconds=0.0)


def _unknown(traced: Traced, job: Mapping[str, Any] | None) -> Iterator[UnrecognizedRow]:
    """What of the job, its framework and its machine is not known."""
    grid = traced.grid
    exchanged = {
        (step.rank, call.group)
        for step in traced.steps.values()
        for call in step.calls
        if call is not None and call.kind == "all_to_all"
    }
    along = [grid.groups[key].axes for key in exchanged if key in grid.groups]
    if any(grid.axes[at].role in GROWS and grid.axes[at].size > 1 for axes in along for at in axes):
        what = "all-to-alls among ranks that grow in number: a rank keeps the bytes that it exchanges"
        why = "whether tables or experts are split over more ranks is not in the trace"
        yield UnrecognizedRow(what=what, why=why, seconds=0.0)
    if not traced.framework:
        why = "its process groups have no names of Megatron-Core or PyTorch"
        yield UnrecognizedRow(what="the framework: gradient buckets keep their size", why=why, seconds=0.0)
    if not traced.shapes.products:
        yield UnrecognizedRow(
            what="the shape of the model", why="no shapes: record with record_shapes=True", seconds=0.0
        )
    elif job is None:
        why = "its layout is not known, or no model of the catalogue has its shapes"
        more = "" if not traced.shapes.grouped else ", with experts"
        yield UnrecognizedRow(what=f"the model{more}", why=why, seconds=0.0)
    if not traced.shapes.device:
        why = "the trace has no deviceProperties"
        yield UnrecognizedRow(what="the traced accelerator: taken for the target's", why=why, seconds=0.0)


def mean_s(nanoseconds: Sequence[int]) -> float:
    """Mean of nanoseconds, in seconds."""
    return math.fsum(nanoseconds) * 1e-9 / len(nanoseconds)


_PADDING = 1024
"""Most rows by which frameworks pad the vocabulary of a tensor-parallel rank."""
_UNEVEN = 2.0
"""Factor by which a rank's experts may get more or fewer tokens than its share."""
_RECORD = "record with record_shapes=True, or describe the traced job in `workload.training` of the file"


def traced_job(traced: Traced, file: Path, catalog: Catalog) -> dict[str, Any]:
    """The section `training` of the traced job.

    Raises:
        InputError: Neither the file nor the trace describes it, or they contradict each other.
    """
    workload = yaml.read(file).plain().get("workload")
    written = workload.get("training") if isinstance(workload, dict) else None
    found = _layout(traced)
    if found is None:
        raise InputError("the layout of the trace is not known: some ranks are in no process group", hint=_RECORD)
    if not isinstance(written, dict):
        job = recognized(traced, catalog)
        if job is None:
            shapes = traced.shapes.products and traced.shapes.attention
            why = "no model of the catalogue has its shapes" if shapes else "no shapes were recorded"
            raise InputError(f"the model of the trace is not recognized: {why}", hint=_RECORD)
        return job
    said = written.get("parallelism") or {}
    for name, size in found.items():
        if isinstance(said, dict) and said.get(name, size) != size:
            raise InputError(
                "the trace has another layout", file=file, key=f"workload.training.parallelism.{name}",
                found=said[name], allowed=size,
            )  # fmt: skip
    return {**written, "parallelism": {**said, **found}}


def _layout(traced: Traced) -> dict[str, int] | None:
    """Degrees of parallelism of the trace; None if some ranks are in no process group."""
    roles = traced.grid.roles()
    found = {str(name): roles[name] for name in ("tp", "cp", "pp", "ep") if name in roles}
    found["dp"] = prod(size for name, size in roles.items() if name in (*GROWS, "ep"))
    return None if "?" in roles else found


@dataclass(frozen=True)
class _Found:
    """A model's shapes in the trace of a rank.

    Attributes:
        heads: Micro-batches of a step, by the output projection.
        tokens: Of a micro-batch on a rank.
        again: Whether forward passes are repeated.
    """

    heads: int
    tokens: int
    again: bool


def recognized(traced: Traced, catalog: Catalog) -> dict[str, Any] | None:
    """The section `training` of the job; None: no model of the catalogue has its shapes, or the layout is not known."""
    layout = _layout(traced)
    for shapes in traced.recorded if layout else ():
        for name in catalog.names("model") if shapes.products and shapes.attention else ():
            found = next(_matches(catalog.model(name), shapes, layout or {}), None)
            if found is not None:
                return _job(name, found, shapes, traced, layout or {})
    return None


def _job(name: str, found: _Found, shapes: Shapes, traced: Traced, layout: dict[str, int]) -> dict[str, Any]:
    (batch, sequence), _ = shapes.attention.most_common(1)[0]
    calls = [call.kind for step in traced.steps.values() for call in step.calls if call is not None]
    zero = {"zero": 3} if calls.count("all_gather") > 1.5 * calls.count("reduce_scatter") > 0 else {}
    keys = {**layout, "micro_batch": batch, "recompute": "full" if found.again else "none"}
    size = {"global_batch": batch * found.heads * layout["dp"], "sequence": sequence * layout.get("cp", 1)}
    return {"model": name, **size, "precision": "bf16", "parallelism": {**keys, **zero}}


def _matches(model: Model, shapes: Shapes, layout: dict[str, int]) -> Iterator[_Found]:
    """Readings of a rank's shapes as that model."""
    tp, pp = layout.get("tp", 1), layout.get("pp", 1)
    (batch, sequence), _ = shapes.attention.most_common(1)[0]
    vocab, tokens = model.vocab / tp, batch * sequence
    for (m, k, n), heads in shapes.products.items():
        if k != model.hidden or not vocab <= n < vocab + _PADDING or m != tokens:
            continue
        routed = _routed(model, shapes, layout, tokens) if model.experts else 0
        dense = model.layers - (model.moe_layers if model.experts else 0)
        width = model.ffn // tp * (2 if model.gated_mlp else 1)
        up = shapes.products.get((m, k, width), 0) or shapes.products.get((m, k, width // 2), 0) // 2
        count, layers = (routed, model.moe_layers) if model.experts else (up, dense)
        if count and count % heads == 0 and count // heads * pp in (layers, 2 * layers):
            yield _Found(heads, tokens, again=count // heads * pp == 2 * layers)


def _routed(model: Model, shapes: Shapes, layout: dict[str, int], tokens: int) -> int:
    """How often a step of a rank routes tokens to experts of that model; 0: it does not."""
    share = model.experts // layout.get("ep", 1)
    widths = (model.moe_ffn, 2 * model.moe_ffn) if model.gated_mlp else (model.moe_ffn,)
    expected = tokens * model.experts_per_token
    depth = model.expert_dim or model.hidden
    grouped = any(
        experts == share and k == depth and n in widths and expected / _UNEVEN <= m <= expected * _UNEVEN
        for (m, k, n, experts) in shapes.grouped
    )
    routers = (
        shapes.products.get((m, model.hidden, model.experts), 0) for m in (tokens, tokens // layout.get("tp", 1))
    )
    return next((times for times in routers if times), 0) if grouped else 0
