"""The tables of a run as `railyard run` prints them, for work of any kind."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from railyard.face.web.views import shown_result, view, views
from railyard.work.study.presentation import presentation_of, presentations

if TYPE_CHECKING:
    from collections.abc import Iterable

    from railyard.measure.result.reading import Result
    from railyard.work.study.presentation import Sheet


@view("views")
def titles(question: dict[str, Any]) -> list[dict[str, str]]:
    """The views of a run: names and titles."""
    result = shown_result(question)
    return [{"name": name, "title": one.title} for name, one in views.items() if one.title and one.fits(result)]


def _is_presented(result: Result) -> bool:
    return result.variants[0].kind in presentations


@view("tables", "As tables", fits=_is_presented)
def tables(question: dict[str, Any]) -> Iterable[Sheet]:
    """The comparison of a run, and its further tables."""
    result = shown_result(question)
    shown = presentation_of(result)
    return [*shown.sheets(result), *shown.details(result)]
