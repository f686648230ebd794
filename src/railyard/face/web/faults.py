"""Errors of other rooms in the words of the API; nothing of the machine's paths goes out."""

from __future__ import annotations

from typing import TYPE_CHECKING

from railyard.face.web.documents import TextFault
from railyard.kit.errors import InputError

if TYPE_CHECKING:
    from railyard.kit.errors import Problem, RailyardError

_MOST = 100
"""Faults that are listed: nobody reads more."""


def faults_of(error: RailyardError) -> list[TextFault]:
    """Each thing that the error says is wrong, with its place."""
    if not isinstance(error, InputError):
        return [TextFault(message=str(error)[:2000])]
    return [_fault(problem) for problem in error.problems[:_MOST]]


def _fault(problem: Problem) -> TextFault:
    return TextFault(
        message=problem.message[:2000],
        line=problem.line,
        column=problem.column,
        key=problem.key,
        found=_cut(problem.found),
        allowed=_cut(problem.allowed),
        hint=_cut(problem.hint),
    )


def _cut(text: str | None) -> str | None:
    return None if text is None else text[:1000]
