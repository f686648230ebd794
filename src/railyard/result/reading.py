"""Reads a result, and says of one that cannot be read what is wrong and where."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pydantic import ValidationError

from railyard.errors import InputError, Problem, causes
from railyard.result.result import FORMAT, Result

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from pydantic_core import ErrorDetails


def result_from(text: str | bytes) -> Result:
    """The result that a JSON text holds.

    Raises:
        InputError: The text is no JSON or no result; or names every key that is missing, unknown, of the wrong type or
            in disagreement with others.
    """
    try:
        return Result.model_validate_json(text)
    except ValidationError as error:
        rows = causes(error.errors(include_url=False))
        raise _other_document(rows) or InputError.many([_problem(row) for row in rows]) from None


def _other_document(rows: Sequence[ErrorDetails]) -> InputError | None:
    """The error where this is no result at all."""
    for row in rows:
        if row["type"] == "json_invalid":
            hint = "the file was cut off or edited; run the scenario again"
            return InputError(f"this is no complete JSON: {row['ctx']['error']}", hint=hint)
        if row["loc"] in {(), ("format",)}:
            found = type(row["input"]).__name__ if row["type"] == "model_type" else row["input"]
            return InputError("this is not the result of a run", key="format", found=found, allowed=FORMAT)
    return None


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
