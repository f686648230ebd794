"""Commands over what was measured."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from railyard.face.cli.completion import Json, Keep
from railyard.face.cli.installed import app


@app.command(short_help="What traces of a cluster say: utilization, exposed communication, stragglers.")
def observe(
    path: Annotated[
        Path, typer.Argument(metavar="PATH", help="Traces (files, a folder, an archive), or the folder of a run.")
    ],
    *,
    out: Annotated[
        Path | None, typer.Option("--out", metavar="FILE.parquet", help="Write the record, for `railyard export`.")
    ] = None,
    cluster: Annotated[
        Path | None, typer.Option("--cluster", metavar="FILE", help="A scenario: what its cluster should have reached.")
    ] = None,
    json: Json = False,
) -> None:
    """Read what a cluster did and print where its time went, in the measures of a simulated run."""
    from railyard.face.cli import observe as observing

    observing.observe(path, out=out, cluster=cluster, as_json=json)


@app.command(short_help="A running cluster by its Prometheus: measured against expected, alerts.")
def watch(
    *,
    prometheus: Annotated[
        str | None, typer.Option("--prometheus", metavar="URL", help="Such as http://localhost:9090.")
    ] = None,
    rehearse: Annotated[
        Path | None,
        typer.Option("--rehearse", metavar="RUN", help="A run with a fault: write its telemetry for promtool and end."),
    ] = None,
    cluster: Annotated[
        Path | None, typer.Option("--cluster", metavar="FILE", help="A scenario: what its cluster should reach.")
    ] = None,
    out: Annotated[
        Path | None,
        typer.Option("--out", metavar="FOLDER", help="Write rules, alerts, a Grafana dashboard and expected values."),
    ] = None,
    every: Annotated[
        float, typer.Option("--every", metavar="SECONDS", min=1.0, help="From one look to the next.")
    ] = 30,
    export: Annotated[
        str | None,
        typer.Option("--export", metavar="PORT", help="Serve expected values to Prometheus; ADDRESS:PORT for others."),
    ] = None,
    once: Annotated[bool, typer.Option("--once", help="Look once and end.")] = False,
    json: Json = False,
) -> None:
    """Ask a Prometheus what collectives reach, compare it with what the model expects, and show its alerts."""
    from railyard.face.cli import watch as watching

    if rehearse is not None:
        watching.rehearse(rehearse, cluster=cluster, out=out)
    else:
        watching.watch(prometheus, cluster=cluster, out=out, export=export, every_s=every, once=once, as_json=json)


@app.command(short_help="Which part of a cluster is to blame, if any.")
def diagnose(
    path: Annotated[
        Path | None,
        typer.Argument(metavar="PATH", help="The folder of a run, a record, operations, flight recorder dumps."),
    ] = None,
    *,
    cluster: Annotated[
        Path | None, typer.Option("--cluster", metavar="FILE", help="A scenario, of which only `cluster` is read.")
    ] = None,
    symptom: Annotated[
        str | None,
        typer.Option("--symptom", metavar="NAME", help="Instead of a path: slow, flapping, hang; the tests to run."),
    ] = None,
    out: Keep = None,
    json: Json = False,
) -> None:
    """Name the link, NIC, accelerator, host or rank that makes a cluster slow or hang, or none where none is sure.

    Then the tests that would settle it, in order, with what the model expects of each.
    """
    from railyard.face.cli import observe as observing
    from railyard.kit.errors import InputError

    if symptom is not None and path is None:
        observing.symptom(symptom, cluster=cluster, as_json=json)
    elif path is not None and symptom is None:
        observing.diagnose(path, cluster=cluster, out=out, as_json=json)
    else:
        raise InputError("either a path or a symptom", key="PATH", allowed="a path, or --symptom alone")
