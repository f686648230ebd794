"""Commands to start from."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from railyard.face.cli.installed import app


@app.command(short_help="Write a commented scenario to start from.")
def init(file: Annotated[Path | None, typer.Argument(metavar="FILE", help="The file to write.")] = None) -> None:
    """Write a commented scenario to start from, to stdout without FILE."""
    from railyard.face.cli import starting

    starting.init(file)


@app.command(short_help="Print the JSON schema of a scenario or of a result.")
def schema(
    document: Annotated[str, typer.Argument(metavar="[scenario|result]", help="Which document.")] = "scenario",
) -> None:
    """Print the JSON schema of a scenario, for completion and checks in an editor, or of a result."""
    from railyard.face.cli import starting

    starting.schema(document)


@app.command(short_help="The script with which a shell completes commands, options and names.")
def completion(
    shell: Annotated[str, typer.Argument(metavar="bash|zsh|fish|powershell", help="Which shell.")],
) -> None:
    """Print the script with which a shell completes commands, options and names of the catalogue.

    bash: `railyard completion bash > ~/.local/share/bash-completion/completions/railyard`
    """
    from railyard.face.cli import completion as completing

    completing.script(shell)
