"""Verbs to start with: a scenario, examples, schemas, completion of a shell."""

from __future__ import annotations

import json
import re
import shutil
import textwrap
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from typer import completion as shells

from railyard.face.terminal import Table, emit, say
from railyard.face.verb import verb
from railyard.kit.errors import InputError, did_you_mean
from railyard.kit.files import read_text

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
        raise InputError("the file already exists", file=file, hint="choose another name") from None
    except OSError as error:
        raise InputError(f"the file cannot be written: {error.strerror}", file=file) from None
    say(f"wrote {file}\n\nhint: `railyard run {file}`")


EXAMPLES = next(
    folder for above in (2, 4) if (folder := Path(__file__).parents[above] / "examples").is_dir() or above == 4
)
"""The examples lie inside the package in a wheel, and at the root of a clone."""


def about(example: Path) -> str:
    """The first sentence of a scenario's comment, without its mark for editors."""
    comment = re.match(r"(?:# yaml-language-server.*\n)?((?:#.*\n)+)", read_text(example))
    words = " ".join(line.lstrip("# ") for line in comment[1].splitlines()) if comment else ""
    return re.split(r"(?<=[.?]) |Run it with", words.strip(), maxsplit=1)[0].rstrip(".:")


@verb("examples", "List the examples, or copy them.", example="railyard examples", group="build", order=45)
def examples(
    copy: Annotated[
        Path | None, typer.Option("--copy", metavar="FOLDER", help="Write copies there, with the files that they read.")
    ] = None,
) -> None:
    """List the examples that Railyard ships, or copy them into a new folder."""
    if copy is not None:
        try:
            shutil.copytree(EXAMPLES, copy, ignore=shutil.ignore_patterns("__pycache__"))
        except FileExistsError:
            raise InputError("the folder exists already", file=copy, hint="choose another name") from None
        except OSError as error:
            raise InputError(f"the examples cannot be copied: {error.strerror}", file=copy) from None
        emit(f"The examples are in {copy}; start with `railyard run {copy}/first.yaml`.")
        return
    found = sorted(EXAMPLES.rglob("*.yaml"), key=lambda path: (len(path.parts), path))
    emit(f"There are {len(found)} examples; `railyard examples --copy examples` copies them into a folder.\n")
    table = Table(["example", "what it shows"])
    for path in found:
        name = str(path.relative_to(EXAMPLES))
        table.add(name, textwrap.shorten(about(path), 50, placeholder=" ...", break_on_hyphens=False))
    table.print()


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
