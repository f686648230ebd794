"""`railyard completion`: what a shell needs to complete commands, options and names of the catalogue."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer
from typer import completion

from railyard.face.cli.terminal import emit
from railyard.kit.errors import InputError, did_you_mean

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
Out = Annotated[Path, typer.Option("--out", metavar="FOLDER", help="Where the folder of the run is put.")]
Keep = Annotated[
    Path | None,
    typer.Option("--out", metavar="FOLDER", help="Keep the answer and its page there, such as in runs/ for the page."),
]
Quiet = Annotated[bool, typer.Option("--quiet", "-q", help="No words and no progress, only data and errors.")]
Force = Annotated[bool, typer.Option("--force", help="Replace the file if it exists.")]
Extra = Annotated[
    Path | None, typer.Option("--catalog", metavar="FILE", help="A catalogue of your own over the built-in one.")
]

RUNS = Path("runs")
"""Where folders of runs are put."""


COMPLETING = "_RAILYARD_COMPLETE"
"""Set by the script of a shell while it asks for what may follow."""

SHELLS = ("bash", "zsh", "fish", "powershell")


def script(shell: str) -> None:
    """Prints the script for a shell.

    Raises:
        InputError: There is none for it.
    """
    if shell not in SHELLS:
        raise InputError(
            "there is no completion for this shell", found=shell, allowed=SHELLS, hint=did_you_mean(shell, SHELLS)
        )
    emit(completion.get_completion_script(prog_name="railyard", complete_var=COMPLETING, shell=shell))


def prepare() -> None:
    """Lets the command line answer a shell that asks."""
    completion.completion_init()


def entries(incomplete: str) -> list[str]:
    """Names of the catalogue that begin so."""
    from railyard import catalog

    shelf = catalog.load(None)
    return sorted({name for kind in catalog.KINDS for name in shelf.names(kind) if name.startswith(incomplete)})
