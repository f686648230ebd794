"""What trains, recognized by shapes that the trace recorded: a model of the catalogue, its batches, recomputation.

    output projection     rows x hidden x vocabulary of a rank      once a micro-batch
    MLP                   rows x hidden x width of a rank           once a dense layer, twice if recomputed
    router                rows x hidden x experts                   once a layer with experts, twice if recomputed
    grouped products      rows x hidden x width of an expert        with the experts of a rank as a dimension

A model has all shapes that it must have, as often as it must; of several the first by name is taken.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import prod
from typing import TYPE_CHECKING, Any

from railyard.ask.scale.layout import GROWS
from railyard.kit.errors import InputError
from railyard.kit.schema import yaml

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from railyard.ask.scale.shapes import Shapes
    from railyard.ask.scale.traced import Traced
    from railyard.catalog import Catalog, Model

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
