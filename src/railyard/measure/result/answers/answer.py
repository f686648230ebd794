"""An answer of any command, and how it is read."""

from __future__ import annotations

from typing import Annotated

from pydantic import Discriminator, TypeAdapter, ValidationError

from railyard.kit.errors import InputError, Problem
from railyard.measure.result.answers.check import AuditAnswer, CheckAnswer, DiagnosisAnswer
from railyard.measure.result.answers.placement import PlacementAnswer, TuneAnswer
from railyard.measure.result.answers.plan import PlanAnswer

Answer = PlanAnswer | DiagnosisAnswer | TuneAnswer | AuditAnswer | CheckAnswer | PlacementAnswer

NAMES: dict[type[Answer], str] = {
    PlanAnswer: "plan",
    DiagnosisAnswer: "diagnosis",
    TuneAnswer: "tune",
    AuditAnswer: "audit",
    CheckAnswer: "check",
    PlacementAnswer: "placement",
}
"""What the files of each are called: `plan.json`, and `plan.html`, its page."""

_ANY: TypeAdapter[Answer] = TypeAdapter(Annotated[Answer, Discriminator("format")])


def answer_from(text: str | bytes) -> Answer:
    """The answer that a JSON text holds.

    Raises:
        InputError: It is none.
    """
    try:
        return _ANY.validate_json(text)
    except ValidationError as error:
        rows = error.errors(include_url=False, include_input=False)[:20]
        problems = [Problem(row["msg"], key=".".join(map(str, row["loc"]))) for row in rows]
        raise InputError.many(problems) from None
