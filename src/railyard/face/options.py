"""Arguments that several verbs share."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

Scenario = Annotated[Path, typer.Argument(metavar="SCENARIO", help="The scenario, a YAML file.")]
Json = Annotated[bool, typer.Option("--json", help="Print the result as JSON.")]
Engine = Annotated[str | None, typer.Option("--engine", metavar="NAME", help="Engine, in place of the scenario's.")]
Set = Annotated[
    list[str] | None, typer.Option("--set", metavar="KEY=VALUE", help="Set one dotted key; may be repeated.")
]
Vary = Annotated[
    list[str] | None,
    typer.Option("--vary", metavar="KEY=A,B,C", help="Compare these values of a key; may be repeated."),
]
Ray = Annotated[
    str | None, typer.Option("--ray", metavar="ADDRESS", help="Run on a Ray cluster: auto, local, HOST:6379.")
]
Out = Annotated[Path, typer.Option("--out", metavar="FOLDER", help="Folder in which the run's folder is written.")]
Keep = Annotated[
    Path | None,
    typer.Option(
        "--out",
        metavar="FOLDER",
        help="Keep the answer and its page in this folder; `railyard ui` shows those in runs/.",
    ),
]
Quiet = Annotated[bool, typer.Option("--quiet", "-q", help="Print only data and errors.")]
Details = Annotated[bool, typer.Option("--details", help="Print every column and table.")]
Force = Annotated[bool, typer.Option("--force", help="Replace the file if it exists.")]
Extra = Annotated[
    Path | None, typer.Option("--catalog", metavar="FILE", help="Your catalogue, on top of the built-in one.")
]

Names = Annotated[Path | None, typer.Option("--names", metavar="FILE", help="Names of a scenario's servers, in order.")]
Cluster = Annotated[
    Path | None, typer.Option("--cluster", metavar="FILE", help="A scenario, of which only `cluster` is read.")
]
Junit = Annotated[
    Path | None, typer.Option("--junit", metavar="FILE.xml", help="Write a JUnit report, for build systems.")
]
System = Annotated[str, typer.Option("--os", metavar="NAME", help="Of Ethernet switches: frr, sonic, eos or junos.")]
