"""Whether the target is what the trace was made on: its accelerator, their number in a server, memory.

On another accelerator kernels take longer or shorter as the cost model of `work/training` says: products by one factor,
kernels that memory bounds by another. No kernel is measured then, and the band has the model's error on both.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from railyard.ask.scale.layout import SHARDED
from railyard.ask.scale.model import traced_job
from railyard.ask.scale.relayout import operators, target_job
from railyard.catalog.index import key_of
from railyard.kit.errors import InputError
from railyard.kit.quantities import format_memory
from railyard.measure.model_error import step_error
from railyard.measure.result.scale import TargetRow

if TYPE_CHECKING:
    from pathlib import Path

    from railyard.ask.scale.layout import Grid
    from railyard.ask.scale.traced import Traced
    from railyard.cluster import Cluster
    from railyard.work.scenario.load import Draft


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
