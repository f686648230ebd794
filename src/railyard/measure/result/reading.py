"""Reads a result of this or an earlier format, and says of one that cannot be read what is wrong and where."""

from __future__ import annotations

import functools
import json
import operator
import re
from typing import TYPE_CHECKING, Annotated, Any, Literal, TypeVar

from pydantic import Discriminator, Field, Tag, ValidationError

from railyard.kit.errors import InputError, Problem, causes, did_you_mean
from railyard.measure.result.money import Verdict
from railyard.measure.result.section import Figures, ProvenanceFigures, Values
from railyard.measure.result.variants import BaseVariant, variants

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from pydantic_core import ErrorDetails


FORMAT: Literal["railyard/result-1"] = "railyard/result-1"


def kind_of(variant: object) -> str | None:
    """The kind of work of a variant; of a mapping, by the section that only this kind has."""
    if isinstance(variant, BaseVariant):
        return variant.kind
    if not isinstance(variant, dict):
        return None
    if "serving" in variant:
        return "pipeline" if isinstance(variant["serving"], dict) and "stages" in variant["serving"] else "serving"
    form = next((key for key in variants if key in variant), None)
    if form is not None:
        return form
    return "training" if "step" in variant or "packet" not in variant else "traffic"


if TYPE_CHECKING:
    Variant = BaseVariant
else:
    Variant = Annotated[
        functools.reduce(operator.or_, (Annotated[record, Tag(name)] for name, record in variants.items())),
        Discriminator(kind_of),
    ]
"""A variant of any kind of work."""

V = TypeVar("V", bound=BaseVariant)


class FailedVariant(Figures):
    """A variant of a comparison without figures."""

    name: str = Field(description="of the variant")
    settings: Values = Field(description="the keys in which it differs, and their values")
    error: str = Field(description="why")


class Result(Figures):
    """Result of a study, with its provenance."""

    format: Literal["railyard/result-1"] = Field(description="of this document")
    name: str = Field(description="of the study")
    scenario: Values = Field(description="what was studied, defaults written out")
    provenance: ProvenanceFigures = Field(description="where the numbers come from")
    variants: tuple[Variant, ...] = Field(min_length=1, description="in the order of the comparison")
    verdict: Verdict | None = Field(
        default=None, description="which variant is best and which are equal within error; absent without a comparison"
    )
    failed: tuple[FailedVariant, ...] | None = Field(
        default=None, description="variants that failed; absent where none did"
    )
    impossible: tuple[FailedVariant, ...] | None = Field(
        default=None, description="combinations that cannot be built or run and were left out; absent where all can"
    )

    @property
    def absent(self) -> frozenset[str]:
        """Names of variants of the scenario without figures."""
        return frozenset(one.name for one in (*(self.failed or ()), *(self.impossible or ())))

    def of(self, kind: type[V]) -> tuple[V, ...]:
        """The variants of a class, such as `StepVariant` or `JobsVariant`."""
        return tuple(variant for variant in self.variants if isinstance(variant, kind))

    def numbered(self, name: str | None) -> int:
        """The index of a variant; the first if the name is None.

        Raises:
            InputError: The name is unknown.
        """
        names = [variant.name for variant in self.variants]
        if name is not None and name not in names:
            hint = did_you_mean(name, names)
            raise InputError(f"the run has no variant `{name}`", key="variant", found=name, allowed=names, hint=hint)
        return 0 if name is None else names.index(name)


Document = dict[str, Any]

STEPS: dict[str, Callable[[Document], Document]] = {
    # 0.1.0: scenarios, results and plans had one name.
    "railyard/1": lambda document: {**document, "format": "railyard/result-1"},
}
"""Conversions from each earlier format to the next one."""


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
            return InputError(f"this is not complete JSON: {row['ctx']['error']}", hint=hint)
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
