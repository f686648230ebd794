"""Verbs to start with: a scenario, schemas, completion of a shell."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from typer import completion as shells

from railyard.face.terminal import emit, say
from railyard.face.verb import verb
from railyard.kit.errors import InputError, did_you_mean

if TYPE_CHECKING:
    from pydantic import BaseModel


def template() -> str:
    """The commented scenario."""
    from importlib.resources import files

    return files("railyard.work.scenario").joinpath("template.yaml").read_text(encoding="utf-8")


@verb(
    "init",
    "Write a commented scenario to start from.",
    example="railyard init mine.yaml",
    group="build",
    first=1,
    order=45,
)
def init(file: Annotated[Path | None, typer.Argument(metavar="FILE", help="The file to write.")] = None) -> None:
    """Write a commented scenario to start from, to stdout without FILE."""
    if file is None:
        emit(template().rstrip("\n"))
        return
    try:
        with file.open("x", encoding="utf-8") as handle:
            handle.write(template())
    except FileExistsError:
        raise InputError(
            "the file exists already and is left as it is", file=file, hint="choose another name"
        ) from None
    except OSError as error:
        raise InputError(f"the file cannot be written: {error.strerror}", file=file) from None
    say(f"wrote {file}\n\nhint: `railyard run {file}`")


@verb(
    "schema",
    "Print the JSON schema of a scenario or a result.",
    example="railyard schema scenario",
    group="build",
    order=46,
)
def schema(
    document: Annotated[str, typer.Argument(metavar="[scenario|result]", help="Which document.")] = "scenario",
) -> None:
    """Print the JSON schema of a scenario, for completion and checks in an editor, or of a result."""
    emit(json.dumps(_model(document).model_json_schema(), indent=2, ensure_ascii=False))


def _model(document: str) -> type[BaseModel]:
    if document == "scenario":
        from railyard.work.scenario.model import Scenario

        return Scenario
    if document == "result":
        from railyard.measure.result.reading import Result

        return Result
    raise InputError("there is no such document", found=document, allowed=["scenario", "result"])


SHELLS = ("bash", "zsh", "fish", "powershell")


@verb("completion", "Print completions for a shell.", example="railyard completion bash", group="build", order=47)
def completion(
    shell: Annotated[str, typer.Argument(metavar="bash|zsh|fish|powershell", help="Which shell.")],
) -> None:
    """Print the script with which a shell completes commands, options and names of the catalogue.

    bash: `railyard completion bash > ~/.local/share/bash-completion/completions/railyard`
    """
    if shell not in SHELLS:
        raise InputError(
            "there is no completion for this shell", found=shell, allowed=SHELLS, hint=did_you_mean(shell, SHELLS)
        )
    emit(shells.get_completion_script(prog_name="railyard", complete_var="_RAILYARD_COMPLETE", shell=shell))
