"""Verbs about a cluster that is being built."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer

from railyard.face.terminal import Junit, Set
from railyard.face.verb import Reply, Request, verb
from railyard.face.verbs.tune import refuse_with
from railyard.kit.errors import InputError
from railyard.kit.files import keep_existing


@verb(
    "accept",
    "Write acceptance tests for a new cluster, and judge them.",
    example="railyard accept examples/first.yaml --out tests",
    group="build",
    json=True,
    quiet=True,
    order=41,
)
def accept(
    request: Request,
    path: Annotated[Path, typer.Argument(metavar="PATH", help="A scenario (YAML), or the folder that --out wrote.")],
    *,
    out: Annotated[
        Path | None, typer.Option("--out", metavar="FOLDER", help="Write the tests and their scripts.")
    ] = None,
    results: Annotated[
        Path | None,
        typer.Option("--results", metavar="PATH", help="Judge: logs of nccl-tests and ib_write_bw, CSV `test,value`."),
    ] = None,
    junit: Junit = None,
    pilot: Annotated[
        bool,
        typer.Option("--pilot", help="For a plan: tests of a pilot pod, and the results that would change the choice."),
    ] = False,
    servers: Annotated[
        int | None, typer.Option("--servers", min=1, help="Servers of the pilot pod; default: the fewest for the job.")
    ] = None,
    os: Annotated[
        str,
        typer.Option("--os", metavar="NAME", help="System of Ethernet switches, as in `deploy`."),
    ] = "sonic",
    set_: Set = None,
) -> Reply:
    """Write acceptance tests of a cluster, or judge their results; exit code 1 if a test failed or is missing."""
    from railyard.ask.accept import folder
    from railyard.ask.accept.planned import planned
    from railyard.ask.accept.tests import FILE
    from railyard.ask.deploy.cabling import plan_of
    from railyard.ask.deploy.files import replaced
    from railyard.ask.deploy.system import system_named
    from railyard.face import terminal
    from railyard.face.words import accept as words
    from railyard.work.study import compose

    if pilot:
        from railyard.face.words import accept_pilot

        refuse_with("--pilot", {"--out": out, "--junit": junit})
        request.progress("reading the plan", 0.0)
        return accept_pilot.pilot(terminal.scenario(path, set_ or []), servers, results, request.progress)
    if servers is not None:
        raise InputError("this option is for a pilot pod", key="--servers", allowed="with --pilot")
    if (out is None) == (results is None):
        raise InputError(
            "give one of two options: write tests, or judge results", allowed="`--out FOLDER` or `--results PATH`"
        )
    system_named(os)
    keep_existing(junit, force=True)
    if path.is_dir():
        if out is not None:
            raise InputError("tests are written from a scenario, not from a folder", file=path, allowed="a YAML file")
        tests, members = folder.folder_of(path)
        return words.judged_by(path.name, tests, members, results, junit)
    request.progress("reading the scenario", 0.0)
    draft = terminal.scenario(path, set_ or [])
    plan = plan_of(compose.cluster_of(draft, compose.catalog_of(draft)))
    tests = planned(plan, request.progress, os)
    if out is not None:
        names = replaced(out, FILE, folder.files(plan, tests, draft.title), request.progress)
        return words.written(tests, out, names, quiet=request.quiet)
    return words.judged_by(draft.title, tests, folder.members_of(plan), results, junit)


@verb(
    "bring-up",
    "Simulate building a cluster: first job, idle capital.",
    example="railyard bring-up examples/bring-up.yaml",
    group="build",
    parts=["scenario"],
    json=True,
    quiet=True,
    details=True,
    order=43,
)
def bring_up(request: Request) -> Reply:
    """Simulate building a cluster: crews, deliveries, wrong cables, burn-in. Compare orders and measures."""
    from railyard.ask.bring_up.study import study
    from railyard.face.words import accept as words

    request.progress("reading the scenario", 0.0)
    found = study(request.draft(), request.progress)
    return Reply(
        found,
        lambda: words.show_bring_up(found, quiet=request.quiet, details=request.details),
        lambda: asdict(found),
        headline=words.bring_up_sentence(found),
    )
