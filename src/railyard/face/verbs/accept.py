"""Verbs about a cluster that is being built."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from railyard.face.options import Json, Quiet, Scenario, Set
from railyard.face.verb import verb


@verb("accept", "Tests that a new cluster has to pass: written from the model, and read back.", order=41)
def accept(
    path: Annotated[
        Path, typer.Argument(metavar="PATH", help="The scenario, a YAML file; or the folder that --out wrote.")
    ],
    *,
    out: Annotated[
        Path | None, typer.Option("--out", metavar="FOLDER", help="Write the tests and their scripts.")
    ] = None,
    results: Annotated[
        Path | None,
        typer.Option("--results", metavar="PATH", help="Judge: logs of nccl-tests and ib_write_bw, CSV `test,value`."),
    ] = None,
    junit: Annotated[
        Path | None, typer.Option("--junit", metavar="FILE.xml", help="Write a JUnit report, for build systems.")
    ] = None,
    pilot: Annotated[
        bool,
        typer.Option("--pilot", help="Of a plan: tests of a pilot pod, and results at which another design is best."),
    ] = False,
    servers: Annotated[
        int | None, typer.Option("--servers", min=1, help="Of the pilot pod; the fewest for the job when left out.")
    ] = None,
    os: Annotated[
        str, typer.Option("--os", metavar="NAME", help="Of Ethernet switches, as in `deploy`: names of their ports.")
    ] = "sonic",
    set_: Set = None,
    json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Write what a cluster has to show, or judge what was measured; exit code 1 where a test failed or is missing."""
    from railyard.face.words import accept as accepting
    from railyard.kit.errors import InputError

    if pilot:
        from railyard.face.words import accept_pilot

        given = {"--out": out, "--junit": junit}
        wrong = next((name for name, value in given.items() if value is not None), None)
        if wrong:
            raise InputError("a pilot's tests are printed, not written", key=wrong, allowed="--results, --json")
        raise typer.Exit(
            accept_pilot.pilot(path, sets=set_ or [], servers=servers, results=results, as_json=json, quiet=quiet)
        )
    if servers is not None:
        raise InputError("only a pilot pod has so many servers", key="--servers", allowed="with --pilot")
    raise typer.Exit(
        accepting.accept(
            path, sets=set_ or [], out=out, results=results, report=junit, system=os, as_json=json, quiet=quiet
        )
    )


@verb("bring-up", "How a cluster is built in time: first job, idle capital, which racks first.", order=43)
def bring_up(scenario: Scenario, *, set_: Set = None, json: Json = False, quiet: Quiet = False) -> None:
    """Play crews, deliveries, wrong cables and burn-in of a cluster that is built; compare orders and measures."""
    from railyard.face.words import accept as bringing

    bringing.bring_up(scenario, sets=set_ or [], as_json=json, quiet=quiet)
