"""The traced job in another layout: operators of the traced shapes keep their measured time, the rest is modelled.

    r = measured time of the traced step's kernels / its computation by the cost model of `work/training`
    time of an operator in the new layout = r x its modelled time

An operator with the shape that it has in the trace keeps its measured time so; the share of these in the new step is
`measured_share`. The host's idle time is as that model has it. What trains comes from `workload.training` of the file,
or is recognized by recorded shapes.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from railyard.ask.scale.model import traced_job
from railyard.ask.scale.traced import mean_s
from railyard.graph import Kind
from railyard.kit.errors import InputError
from railyard.kit.schema import yaml
from railyard.measure.model_error import step_error
from railyard.measure.result.scale import AxisRow, BandPart
from railyard.work.scenario import load, override
from railyard.work.scenario.load import Variant
from railyard.work.scenario.model import Scenario
from railyard.work.training import blocks, compute, graphs
from railyard.work.training.columns import Columns
from railyard.work.training.prepare import prepare

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from railyard.ask.scale.rescale import Unscaled
    from railyard.ask.scale.traced import Traced
    from railyard.catalog import Accelerator, Catalog
    from railyard.cluster import Cluster
    from railyard.graph import TaskGraph
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
