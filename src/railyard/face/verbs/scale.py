"""`railyard scale`: a forecast of a step on a cluster, from traces of one node or of a few ranks."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from railyard.face.terminal import Table, emit, say
from railyard.face.verb import FormField, Page, Reply, Request, verb
from railyard.measure import numbers

if TYPE_CHECKING:
    from railyard.measure.result.measured import ScaleAnswer

SHOWN, _NOTES = 12, 2


@verb(
    "scale",
    "Forecast a cluster's step from one node's trace.",
    example="railyard scale examples/traces/resnet-ddp.json.gz --cluster examples/traces/scale.yaml",
    group="decide",
    parts=["engine"],
    json=True,
    details=True,
    quiet=True,
    out="keep",
    order=32,
    page=Page(
        "Scale a trace",
        "From one node's trace to a cluster: step, network tax and cost at another scale, with a band.",
        order=9,
    ),
)
def scale(
    request: Request,
    path: Annotated[
        Path,
        typer.Argument(metavar="TRACE", help="Kineto or Chakra traces of some ranks: a file, folder or archive."),
        FormField("Traces", takes="either"),
    ],
    *,
    cluster: Annotated[
        Path,
        typer.Option("--cluster", metavar="FILE", help="A scenario: its cluster, collectives and prices."),
        FormField("The cluster"),
    ],
    accelerators: Annotated[
        int | None,
        typer.Option("--accelerators", min=1, help="Of the target, in place of the cluster's."),
        FormField("Accelerators"),
    ] = None,
    gradients: Annotated[
        str | None,
        typer.Option("--gradients", metavar="SIZE", help="Gradients of a rank, if the trace is of one replica: 4 GB."),
        FormField("Gradients"),
    ] = None,
    world: Annotated[
        int | None,
        typer.Option("--world", min=1, help="Ranks of the traced job; all take part where no group is named."),
        FormField("Ranks traced"),
    ] = None,
    parallelism: Annotated[
        str | None,
        typer.Option("--parallelism", metavar="KEYS", help="Another layout than the traced one: `{tp: 8, pp: 2}`."),
        FormField("Parallelism"),
    ] = None,
) -> Reply:
    """Forecast a step on another cluster: kernels keep their measured times, collectives are simulated."""
    from railyard.ask.scale.forecast import scaled_step
    from railyard.kit.quantities import size
    from railyard.kit.schema.yaml import parse_mapping

    keys = None if parallelism is None else parse_mapping(parallelism, "--parallelism").plain()
    more = 0 if gradients is None else size(gradients)
    answer = scaled_step(
        path, cluster, accelerators=accelerators, gradients=more, world=world, parallelism=keys,
        engine=request.engine, report=request.progress,
    )  # fmt: skip
    return Reply(answer, lambda: _print(answer, details=request.details), keep=answer)


def _print(answer: ScaleAnswer, *, details: bool) -> None:
    where = Table(("where the step goes", "group", "time", "share"), (2, 3))
    for row in answer.step.time[:SHOWN]:
        where.add(row.cause, row.group, numbers.seconds(row.seconds), numbers.percent(row.share))
    where.print()
    kernels, idle = (numbers.seconds(one) for one in (answer.step.kernels_s, answer.step.host_s))
    emit(f"\nComputation of a rank: kernels {kernels}, gaps caused by the host {idle}.")
    if details:
        _details(answer)
    for lack in answer.unrecognized if details else answer.unrecognized[:_NOTES]:
        took = f" ({numbers.seconds(lack.seconds)} a step)" if lack.seconds else ""
        say(f"not recognized: {lack.what}{took}: {lack.why}")
    if not details and len(answer.unrecognized) > _NOTES:
        say(f"more remarks with --details: {len(answer.unrecognized) - _NOTES}")


def _details(answer: ScaleAnswer) -> None:
    """Layout, collectives, what was traced, and the parts of the band."""
    emit("")
    table = Table(("parallelism", "traced", "forecast", "known by"), (1, 2))
    for axis in answer.layout:
        table.add(axis.role, f"{axis.traced:,}", f"{axis.target:,}", axis.known_by)
    table.print()
    emit("")
    heads = ("collective", "group", "ranks", "bytes", "times", "algorithm", "alone", "in the step")
    ran = Table(heads, (2, 3, 4, 6, 7), turn=True)
    for one in answer.collectives[:SHOWN]:
        cells = (f"{one.ranks:,}", f"{one.size_bytes:,}", f"{one.times:,}", one.algorithm)
        ran.add(one.kind, one.group, *cells, numbers.seconds(one.alone_s), numbers.seconds(one.mean_s))
    ran.print()
    emit("")
    traced, cost = answer.traced, answer.cost
    emit(
        f"traced: step {traced.step}, the median of {traced.steps}: {numbers.seconds(traced.step_s)}; replayed with"
        f" the waits that were recognized: {numbers.seconds(traced.replayed_s)}"
    )
    if traced.model is not None:
        batches = f"{traced.micro_batches} micro-batches of {traced.micro_batch} x {traced.sequence:,} tokens"
        emit(f"recognized by its shapes: {traced.model}, {batches}")
    if answer.buckets:
        emit(f"gradient buckets: {answer.buckets}")
    for check in answer.target:
        about = f": {check.means}" if check.means else ""
        emit(f"{check.what}: traced {check.traced}, here {check.target}{about}")
    emit(f"waits: {traced.exact_waits} from events, {traced.seen_waits} from idle time, {traced.assumed_waits} assumed")
    emit(f"kernels during communication: {numbers.percent(traced.overlapped_share)} of kernel time")
    for slow in traced.slowed[:3]:
        emit(f"{slow.factor:.2f} times slower during communication: {slow.kernel[:80]} (rank {slow.rank})")
    emit(f"measured: {numbers.percent(answer.measured_share)} of compute time")
    emit(f"cost: {numbers.dollars(cost.usd_per_h.typical)} an hour, {numbers.dollars(cost.usd_per_run.typical)} a step")
    for part in (one for one in answer.band.parts if one.low_s or one.high_s):
        emit(f"band: -{numbers.seconds(part.low_s)} +{numbers.seconds(part.high_s)}: {part.source}")
