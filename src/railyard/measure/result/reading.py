"""Reads a result of this or an earlier format, and says of one that cannot be read what is wrong and where."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any

from pydantic import ValidationError

from railyard.kit.errors import InputError, Problem, causes
from railyard.measure.result.result import FORMAT, Result

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from pydantic_core import ErrorDetails

Document = dict[str, Any]

STEPS: dict[str, Callable[[Document], Document]] = {
    # 0.1.0: scenarios, results and plans had one name.
    "railyard/1": lambda document: {**document, "format": "railyard/result-1"},
}
"""From each earlier format to the next one."""


def result_from(text: str | bytes) -> Result:
    """The result that a JSON text holds; one of an earlier format is brought to today's.

    Raises:
        InputError: The text is no JSON or no result, or a newer Railyard wrote it; or names every key that is missing,
            unknown, of the wrong type or in disagreement with others.
    """
    try:
        return Result.model_validate_json(text)
    except ValidationError as error:
        rows = causes(error.errors(include_url=False))
    for row in rows:
        if row["loc"] == ("format",) and (step := STEPS.get(str(row["input"]))):
            return result_from(json.dumps(step(json.loads(text))))
    raise _other_document(rows, text) or InputError.many([_problem(row) for row in rows])


def _other_document(rows: Sequence[ErrorDetails], text: str | bytes) -> InputError | None:
    """The error where this is no result at all, or one of a newer format."""
    for row in rows:
        if row["type"] == "json_invalid":
            hint = "the file was cut off or edited; run the scenario again"
            return InputError(f"this is no complete JSON: {row['ctx']['error']}", hint=hint)
        if row["loc"] in {(), ("format",)}:
            found = type(row["input"]).__name__ if row["type"] == "model_type" else row["input"]
            if re.fullmatch(r"railyard/result-\d+", str(found)):
                return _newer(json.loads(text))
            return InputError("this is not the result of a run", key="format", found=found, allowed=FORMAT)
    return None


def _newer(document: Document) -> InputError:
    about = document.get("provenance")
    writer = f"{about.get('version')} or newer" if isinstance(about, dict) else "of a later version"
    return InputError(
        "a newer Railyard wrote this result",
        key="format",
        found=document["format"],
        allowed=f"{FORMAT} and earlier",
        hint=f"read it with Railyard {writer}",
    )


_MESSAGES = {"missing": "the key is missing", "extra_forbidden": "there is no such key"}


def _problem(row: ErrorDetails) -> Problem:
    message = _MESSAGES.get(row["type"], row["msg"].removeprefix("Value error, "))
    found = None if row["type"] in {"missing", "value_error"} else f"{row['input']!r}"[:80]
    return Problem(message[:1].lower() + message[1:], key="".join(_steps(row["loc"])), found=found)


_TYPES = {"int", "float", "str", "ModelReplicaRow", "ReplicaRow"}
"""Pydantic names the type that it tried behind a key that may hold one of several; no key of a result is called so."""


def _steps(place: tuple[int | str, ...]) -> Iterator[str]:
    """`result.variants[0].power.total_w`; the kind, which follows the number of a variant, is no key."""
    yield "result"
    for number, step in enumerate(place):
        if isinstance(step, int):
            yield f"[{step}]"
        elif step not in _TYPES and not (number == 2 and place[0] == "variants"):
            yield f".{step}"
