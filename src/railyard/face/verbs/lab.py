"""`railyard lab exec`: a program on every rank of a scaled-down cluster."""

from __future__ import annotations

import shutil
from json import dumps
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from railyard.face.terminal import Json, Table, emit, say
from railyard.face.verb import verb
from railyard.kit.errors import InputError, SimulationError

if TYPE_CHECKING:
    from railyard.engine.lab.switches import CommandResult


_SHOWN = 12


@verb(
    "lab exec",
    "Run a program as the ranks of a job, over a lab's links.",
    example="railyard lab exec examples/lab/lab.yaml -- python examples/lab/train.py",
    group="build",
    order=65,
)
def lab_exec(
    scenario: Annotated[
        Path, typer.Argument(metavar="SCENARIO", help="A scenario; only its section `cluster` is used.")
    ],
    command: Annotated[
        list[str], typer.Argument(metavar="COMMAND...", help="Run once for each rank; after two dashes.")
    ],
    *,
    dilation: Annotated[float, typer.Option("--dilation", min=1, help="Links are that many times slower.")] = 1.0,
    routing: Annotated[
        str, typer.Option("--routing", metavar="NAME", help="static, or frr (BGP unnumbered).")
    ] = "static",
    json: Json = False,
) -> None:
    """Run an unmodified program, such as a training script, as every rank, in the network namespace of its server."""
    from railyard.ask.observe.answer import cluster_of
    from railyard.engine.lab.switches import execute

    if not command:
        raise InputError("there is no command", hint="railyard lab exec SCENARIO -- python train.py")
    if shutil.which(command[0]) is None:
        raise InputError("there is no such program", found=command[0])
    if routing not in ("static", "frr"):
        raise InputError("there is no such routing", key="--routing", found=routing, allowed="static, frr")
    done = execute(cluster_of(scenario), command, lambda: None, dilation=dilation, routing=routing)
    _show(done, as_json=json)
    failed = [rank for rank, status in enumerate(done.statuses) if status]
    if failed:
        raise SimulationError(f"rank {failed[0]} ended with status {done.statuses[failed[0]]}")


def _show(done: CommandResult, *, as_json: bool) -> None:
    if as_json:
        links = [
            {"link": link.name, "rate_bps": link.rate_bps, "bytes": link.bytes, "waited_s": link.waited_s}
            for link in done.links
        ]
        emit(dumps({"statuses": list(done.statuses), "links": links}, indent=2))
        return
    failed = sum(map(bool, done.statuses))
    ended = f"{failed} of {len(done.statuses)} ranks failed" if failed else f"All {len(done.statuses)} ranks succeeded"
    busiest = max(done.links, key=lambda link: link.bytes, default=None)
    emit(
        f"{ended}.\n" if busiest is None else f"{ended}; {busiest.name} carried most, {busiest.bytes / 1e6:,.1f} MB.\n"
    )
    table = Table(["link", "Mb/s", "MB on the wire", "packets waited"], right=(1, 2, 3))
    for link in done.links[:_SHOWN]:
        table.add(link.name, f"{link.rate_bps / 1e6:g}", f"{link.bytes / 1e6:,.1f}", f"{link.waited_s:.2f} s")
    table.print()
    if len(done.links) > _SHOWN:
        say(f"{len(done.links) - _SHOWN} more links carried data; --json lists all")
