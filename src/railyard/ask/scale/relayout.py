"""The traced job on another target: traced shapes keep their measured time, the rest is modelled.

    r = measured time of the traced step's kernels / its computation by the cost model of `work/training`
    time of an operator in the new layout = r x its modelled time

An operator with the shape that it has in the trace keeps its measured time so; the share of these in the new step is
`measured_share`. The host's idle time is as that model has it. What trains comes from `workload.training` of the file,
or is recognized by recorded shapes.

On another accelerator kernels take longer or shorter as the cost model of `work/training` says: products by one factor,
kernels that memory bounds by another. No kernel is measured then, and the band has the model's error on both.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from railyard.ask.scale.layout import SHARDED
from railyard.ask.scale.traced import mean_s, traced_job
from railyard.catalog.index import key_of
from railyard.graph import Kind
from railyard.kit.errors import InputError
from railyard.kit.quantities import format_memory
from railyard.kit.schema import yaml
from railyard.measure.model_error import step_error
from railyard.measure.result.measured import AxisRow, BandPart, TargetRow
from railyard.work.scenario import load, override
from railyard.work.scenario.load import Variant
from railyard.work.scenario.model import Scenario
from railyard.work.training import blocks, compute, graphs
from railyard.work.training.columns import Columns
from railyard.work.training.prepare import prepare

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from railyard.ask.scale.layout import Grid
    from railyard.ask.scale.rescale import Unscaled
    from railyard.ask.scale.traced import Traced
    from railyard.catalog import Accelerator, Catalog
    from railyard.cluster import Cluster
    from railyard.graph import TaskGraph
    from railyard.work.scenario.load import Draft
    from railyard.work.training.compute import StageTimes
    from railyard.work.training.prepare import Prepared
    from railyard.work.training.spec import Training
    from railyard.work.training.stages import VirtualStage


_ORDER = ("tp", "cp", "ep", "dp", "pp")


@dataclass(frozen=True)
class ScaledTarget:
    """What runs on the target.

    Attributes:
        kernels_s, own_s: Kernels of a rank, and these with the host's idle time, mean, s.
        measured_share: Share of compute time in operators of traced shapes.
        free: The graph without waits that nothing shows; None if there are none.
        buckets: What the number of ranks makes of gradient buckets.
        idle_s: The host's idle time in the trace, where that of the model is in the graph; None: it is in `own_s`.
        same: Whether the traced step would take as long on as many ranks of it, but for the network.
    """

    graph: TaskGraph
    cluster: Cluster
    kernels_s: float
    own_s: float
    layout: tuple[AxisRow, ...]
    measured_share: float = 1.0
    unscaled: tuple[Unscaled, ...] = ()
    free: TaskGraph | None = None
    parts: tuple[BandPart, ...] = ()
    same: bool = True
    buckets: str = ""
    idle_s: float | None = None


def other_layout(
    traced: Traced, file: Path, draft: load.Draft, catalog: Catalog, given: Mapping[str, Any]
) -> ScaledTarget:
    """The traced job with other values of `parallelism`; each accelerator has as many tokens a step as in the trace.

    Args:
        traced: The traces that were read.
        file: Of the cluster, whose `workload.training` may describe the traced job.
        draft: The target.
        catalog: Its catalog, in which a recognized model is looked for.
        given: Keys of `parallelism`.

    Raises:
        InputError: The traced job is not known well enough, or the new layout does not fit.
    """
    job = traced_job(traced, file, catalog)
    ranks, world = draft.scenario.cluster.accelerators, traced.grid.ranks
    batch = job["global_batch"] * ranks
    if batch % world:
        raise InputError("the global batch does not grow to so many accelerators", key="--accelerators", found=ranks)
    wanted = {**{key: value for key, value in job["parallelism"].items() if key != "dp"}, **given}
    old = target_job(draft, job, world)
    new = target_job(draft, {**job, "global_batch": batch // world, "parallelism": wanted}, ranks)
    modelled_s = _computing_s(graphs.build(old.training, old.cluster))
    kernels_s, own_s = (
        mean_s([getattr(step, name) for step in traced.steps.values()]) for name in ("kernels_ns", "own_ns")
    )
    ratio = kernels_s / modelled_s

    def times_of(training: Training, accelerator: Accelerator, stage: VirtualStage) -> StageTimes:
        found = compute.stage_times(training, accelerator, stage)
        names = ("forward_ps", "backward_input_ps", "backward_weight_ps", "recompute_ps")
        return replace(found, **{name: round(getattr(found, name) * ratio) for name in names})

    graph = graphs.build(new.training, new.cluster, times_of=times_of)
    share = _equal_share(old, new)
    now_s = _computing_s(graph)
    error = step_error(experts=new.training.model.experts > 0, precision=new.training.precision)
    before, after = old.training.layout, new.training.layout
    words = f"modelled operators ({1 - share:.0%} of compute time): errors of steps that the model had not seen"
    part = BandPart(source=words, low_s=-error.low * (1 - share) * now_s, high_s=error.high * (1 - share) * now_s)
    layout = tuple(
        AxisRow(role=name, traced=getattr(before, name), target=getattr(after, name), stride=0, known_by=how)
        for name in _ORDER
        for how in ["--parallelism" if name in given else "as traced" if name != "dp" else "what is left"]
    )
    idle_s = max(own_s - kernels_s, 0.0)
    return ScaledTarget(graph, new.cluster, now_s, now_s, layout, share, parts=(part,), idle_s=idle_s)


def target_job(draft: load.Draft, training: Mapping[str, Any], ranks: int) -> Prepared:
    """A job on so many ranks of the target.

    Args:
        draft: The target, without work.
        training: The section `training`.
        ranks: Number of ranks of the job.

    Raises:
        InputError: It does not fit.
    """
    tree, mark = draft.tree, yaml.Mark("railyard scale")
    tree = replace(tree, value={key: node for key, node in tree.value.items() if key != "workload"})
    for key, value in (("workload", {"training": dict(training)}), ("cluster.accelerators", ranks)):
        tree = override.put(tree, key, yaml.from_plain(value, mark))
    return prepare([Variant("scale", {}, load.Draft(load.check(tree, Scenario), tree, draft.folder))])[0]


def _computing_s(graph: TaskGraph) -> float:
    """Computation of a rank, mean."""
    chosen = (graph.kind == Kind.COMPUTE) & graph.on_accelerator
    return float(graph.duration_ps[chosen].sum()) * 1e-12 / graph.ranks


def _equal_share(old: Prepared, new: Prepared) -> float:
    """Share of the new layout's compute time in operators whose work on a rank is that of the old one."""
    before, after = (operators(job.training, job.cluster.accelerator) for job in (old, new))
    known = {one.key for one in before}
    return sum(one.seconds for one in after if one.key in known) / sum(one.seconds for one in after)


@dataclass(frozen=True)
class OperatorTime:
    """An operator of a kind of block.

    Attributes:
        key: Its name, FLOPs and times of one, as far as they tell it from others.
        seconds: Of a micro-batch over all layers.
    """

    key: tuple[object, ...]
    flops: float
    seconds: float


def operators(training: Training, accelerator: Accelerator) -> list[OperatorTime]:
    """Operators of all blocks on a rank."""
    columns, model = Columns.of([training], [accelerator]), training.model
    routed = sum(model.has_experts(layer) for layer in range(model.layers))
    parts = ((blocks.attention_block, model.layers), (blocks.mlp_block, model.layers - routed),
             (blocks.moe_block, routed), (blocks.embedding, 1), (blocks.head, 1))  # fmt: skip
    found = []
    for block, count in parts:
        for one in block(columns) if count else ():
            columns_of = (one.flops, one.forward, one.backward_input, one.backward_weight)
            flops, *times = (float(np.ravel(column)[0]) for column in columns_of)
            key = (one.name, *(f"{number:.9g}" for number in (flops, *times)))
            found.append(OperatorTime(key, flops, count * sum(times)))
    return found


@dataclass(frozen=True)
class Target:
    """The checked target.

    Attributes:
        traced: The traces, with kernels as they run on the target.
        error: Low and high end of what that leaves unknown, as shares of kernels' time; 0: the same accelerator.
    """

    traced: Traced
    rows: tuple[TargetRow, ...]
    error: tuple[float, float] = (0.0, 0.0)


def checked_target(traced: Traced, grid: Grid | None, cluster: Cluster, file: Path, draft: Draft) -> Target:
    """The traces as they run on the target.

    Args:
        traced: As they were read.
        grid: The traced layout on the target; None: another layout, which the memory model has checked.
        cluster: The target.
        file: Its scenario, whose `workload.training` may describe the traced job.
        draft: The same without work.

    Raises:
        InputError: The step does not fit into memory, or kernels cannot be taken to the target's accelerator.
    """
    row, old = _accelerator(traced, cluster)
    rows = [row, _server(traced, grid or traced.grid, cluster)]
    rows += [] if grid is None else [_memory(traced, grid, cluster)]
    if old is None:
        return Target(traced, tuple(rows))
    if grid is None:
        raise InputError(
            "another layout and another accelerator cannot be forecast together", key="--parallelism",
            found=f"a trace of {old}, a cluster of {cluster.accelerator.name}",
        )  # fmt: skip
    try:
        job = traced_job(traced, file, cluster.catalog)
        keys = {key: value for key, value in job["parallelism"].items() if key != "dp"}
        batch = job["global_batch"] * grid.ranks // traced.grid.ranks
        training = target_job(draft, {**job, "global_batch": batch, "parallelism": keys}, grid.ranks)
    except InputError as error:
        raise InputError(
            f"the trace is of {old}: its kernels cannot be taken to {cluster.accelerator.name}",
            found=error.problems[0].headline(), hint=error.problems[0].hint,
        ) from None  # fmt: skip
    before, after = (
        operators(training.training, one) for one in (cluster.catalog.accelerator(old), cluster.accelerator)
    )  # fmt: skip
    products, traffic = (
        math.fsum(one.seconds for one in after if bool(one.flops) == product)
        / math.fsum(one.seconds for one in before if bool(one.flops) == product)
        for product in (True, False)
    )
    model = step_error(experts=training.training.model.experts > 0, precision=training.training.precision)
    both = model.erring_too(model.scatter)
    steps = {rank: step.on_other(products, traffic) for rank, step in traced.steps.items()}
    means = f"products take {products:.2f} times as long as in the trace, other kernels {traffic:.2f} times: modelled"
    rows[0] = row.model_copy(update={"means": means})
    return Target(replace(traced, steps=steps), tuple(rows), (-both.low, both.high))


def _accelerator(traced: Traced, cluster: Cluster) -> tuple[TargetRow, str | None]:
    """The check, and the traced accelerator if it is another one.

    Raises:
        InputError: It is one that the catalogue does not know.
    """
    device, name = traced.shapes.device, cluster.accelerator.name
    row = TargetRow(what="accelerator", traced=device or "not recorded", target=name, fits=None, means="")
    if not device:
        return row.model_copy(update={"means": "taken for the target's"}), None
    found = cluster.catalog.accelerator_called(device, traced.shapes.device_bytes / 2**30)
    if found is None:
        if name.split("-")[0] not in key_of(device).split("-"):
            raise InputError(
                "the catalogue does not know the traced accelerator, so its kernels cannot be taken to another one",
                file=traced.found.pieces[0].source, key="deviceProperties[0].name", found=device,
                hint=f"forecast a cluster of that accelerator; this one has {name}",
            )  # fmt: skip
        return row.model_copy(update={"means": "not in the catalogue: taken for the target's, of the same chip"}), None
    row = row.model_copy(update={"fits": found == name})
    return row, None if found == name else found


def _server(traced: Traced, grid: Grid, cluster: Cluster) -> TargetRow:
    """How many accelerators a server has, and which groups are no longer inside one."""
    devices, here, domain = traced.shapes.devices, cluster.ranks_per_server, cluster.scale_up_domain
    recorded = devices > 1
    axes = zip(traced.grid.axes, grid.axes, strict=True) if recorded else ()
    cut = [
        new.role or "?"
        for old, new in axes
        if new.size > 1 and old.stride * old.size <= devices and new.stride * old.size > domain
    ]
    return TargetRow(
        what="accelerators of a server",
        traced=str(devices) if recorded else "not recorded",
        target=str(here),
        fits=devices == here if recorded else None,
        means=f"groups inside a traced host cross servers here: {', '.join(cut)}" if cut else "",
    )


def _memory(traced: Traced, grid: Grid, cluster: Cluster) -> TargetRow:
    """Whether what the trace reserved, or at most had, fits into an accelerator of the target.

    Raises:
        InputError: It does not.
    """
    shapes, have = traced.shapes, cluster.accelerator.memory_bytes
    shards = [new.size / old.size for old, new in zip(traced.grid.axes, grid.axes, strict=True) if old.role == SHARDED]
    need = shapes.reserved_bytes or shapes.device_bytes
    if shapes.reserved_bytes > have and max(shards, default=1) <= 1:
        raise InputError(
            "the step does not fit into the memory of the target's accelerators", key="--cluster",
            found=f"{format_memory(need)} reserved in the trace", allowed=f"up to {format_memory(have)}",
        )  # fmt: skip
    sure = 0 < need <= have and min(shards, default=1) >= 1
    how = "reserved" if shapes.reserved_bytes else "of the accelerator" if need else ""
    open_because = "shards differ in size" if need and shards else "record with profile_memory=True"
    return TargetRow(
        what="memory", traced=f"{format_memory(need)} {how}" if need else "not recorded", target=format_memory(have),
        fits=True if sure else None, means="" if sure else open_because,
    )  # fmt: skip
