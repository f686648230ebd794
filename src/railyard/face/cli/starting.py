"""`railyard init` and `railyard schema`: what a user starts from."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from railyard.face.cli.terminal import emit, say
from railyard.kit.errors import InputError

if TYPE_CHECKING:
    from pathlib import Path

    from pydantic import BaseModel


def template() -> str:
    """The commented scenario."""
    from importlib.resources import files

    return files("railyard.work.scenario").joinpath("template.yaml").read_text(encoding="utf-8")


def init(file: Path | None) -> None:
    """Writes the commented scenario to a new file, or to stdout.

    Raises:
        InputError: The file exists already or cannot be written.
    """
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


def schema(document: str) -> None:
    """Prints the JSON schema of a document.

    Raises:
        InputError: There is no such document.
    """
    emit(json.dumps(_model(document).model_json_schema(), indent=2, ensure_ascii=False))


def _model(document: str) -> type[BaseModel]:
    if document == "scenario":
        from railyard.work.scenario.model import Scenario

        return Scenario
    if document == "result":
        from railyard.measure.result.reading import Result

        return Result
    raise InputError("there is no such document", found=document, allowed=["scenario", "result"])
