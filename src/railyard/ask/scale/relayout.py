"""The traced job in another layout: operators of the traced shapes keep their measured time, the rest is modelled.

    r = measured time of the traced step without waiting / its computation by the cost model of `work/training`
    time of an operator in the new layout = r x its modelled time

An operator with the shape that it has in the trace keeps its measured time so; the share of these in the new step is
`measured_share`. What trains comes from `workload.training` of the file, or is recognized by recorded shapes.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import prod
from typing import TYPE_CHECKING, Any

import numpy as np

from railyard.ask.scale.layout import GROWS
from railyard.ask.scale.traced import mean_s
from railyard.graph import Kind
from railyard.kit.errors import InputError
from railyard.kit.schema import yaml
from railyard.measure.model_error import step_error
from railyard.measure.result.scale import AxisRow, BandPart
from railyard.work.scenario import load, override
from railyard.work.scenario.model import Scenario
from railyard.work.scenario.variants import Variant
from railyard.work.training import blocks, compute, graphs
from railyard.work.training.columns import Columns
from railyard.work.training.prepare import prepare

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from railyard.ask.scale.traced import Traced
    from railyard.catalog import Accelerator, Catalog
    from railyard.cluster import Cluster
    from railyard.graph import TaskGraph
    from railyard.work.training.compute import StageTimes
    from railyard.work.training.prepare import Prepared
    from railyard.work.training.spec import Training
    from railyard.work.training.stages import VirtualStage

_ORDER = ("tp", "cp", "ep", "dp", "pp")
_PADDING = 1024
"""Most rows by which frameworks pad the vocabulary of a tensor-parallel rank."""
_RECORD = "record with record_shapes=True, or describe the traced job in `workload.training` of the file"


@dataclass(frozen=True)
class OtherLayout:
    """The step in another layout.

    Attributes:
        measured_share: Share of compute time in operators of traced shapes.
        ratio: Measured over modelled time of the traced step.
        own_s: Computation of a rank, mean, s.
    """

    graph: TaskGraph
    cluster: Cluster
    measured_share: float
    ratio: float
    own_s: float
    layout: tuple[AxisRow, ...]
    part: BandPart


def other_layout(
    traced: Traced, file: Path, draft: load.Draft, catalog: Catalog, given: Mapping[str, Any]
) -> OtherLayout:
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
    old = prepared(draft, job, world)
    new = prepared(draft, {**job, "global_batch": batch // world, "parallelism": wanted}, ranks)
    modelled_s = _computing_s(graphs.build(old.training, old.cluster))
    own_s = mean_s([step.own_ns for step in traced.steps.values()])
    ratio = own_s / modelled_s

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
    return OtherLayout(
        graph=graph,
        cluster=new.cluster,
        measured_share=share,
        ratio=ratio,
        own_s=now_s,
        layout=tuple(
            AxisRow(role=name, traced=getattr(before, name), target=getattr(after, name), stride=0, known_by=how)
            for name in _ORDER
            for how in ["--parallelism" if name in given else "as traced" if name != "dp" else "what is left"]
        ),
        part=BandPart(
            source=words, low_s=-error.low * (1 - share) * now_s, high_s=error.high * (1 - share) * now_s
        ),
    )  # fmt: skip


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
            why = "no dense model of the catalogue has its shapes" if shapes else "no shapes were recorded"
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


def recognized(traced: Traced, catalog: Catalog) -> dict[str, Any] | None:
    """The section `training` of the job by its recorded shapes: output projection, MLP and attention; None: unknown."""
    layout = _layout(traced)
    if layout is None:
        return None
    products, attention = traced.shapes.products, traced.shapes.attention
    tp, pp = layout.get("tp", 1), layout.get("pp", 1)
    for name in catalog.names("model") if products and attention else ():
        model = catalog.model(name)
        width = model.ffn // tp * (2 if model.gated_mlp else 1)
        for (m, k, n), heads in products.items():
            vocab = model.vocab / tp
            if k != model.hidden or not vocab <= n < vocab + _PADDING or model.experts:
                continue
            up = products.get((m, k, width), 0) or products.get((m, k, width // 2), 0) // 2
            (batch, sequence), _ = attention.most_common(1)[0]
            if (
                up
                and m == batch * sequence
                and up % heads == 0
                and up // heads * pp in (model.layers, 2 * model.layers)
            ):
                again = up // heads * pp == 2 * model.layers
                calls = [call.kind for step in traced.steps.values() for call in step.calls if call is not None]
                zero = {"zero": 3} if calls.count("all_gather") > 1.5 * calls.count("reduce_scatter") > 0 else {}
                keys = {**layout, "micro_batch": batch, "recompute": "full" if again else "none"}
                size = {"global_batch": batch * heads * layout["dp"], "sequence": sequence * layout.get("cp", 1)}
                return {"model": name, **size, "precision": "bf16", "parallelism": {**keys, **zero}}
    return None


def prepared(draft: load.Draft, training: Mapping[str, Any], ranks: int) -> Prepared:
    """A job on so many ranks of the target.

    Args:
        draft: The target, without work.
        training: The section `training`.
        ranks: Of the job.

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
