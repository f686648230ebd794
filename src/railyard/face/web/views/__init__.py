"""Views of runs and clusters on the page: a function with `@view` a file.

A view with a title stands on the page of every run for which `fits` holds. It gives tables (`Sheet`), or columns
(`packed`) that `frontend/src/ui/pages/NAME.tsx` draws.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from railyard.kit.registry import Registry

if TYPE_CHECKING:
    from collections.abc import Callable

    from railyard.measure.result.reading import Result


@dataclass(frozen=True)
class PageView:
    """A view.

    Attributes:
        ask: Given the question, such as the `folder` of a run and the number of its `variant`: tables, JSON values, or
            columns as bytes.
        title: What the page calls it; empty: it has a route and a page of its own.
        fits: Whether a result has it.
    """

    ask: Callable[[dict[str, Any]], Any]
    title: str = ""
    fits: Callable[[Result], bool] = lambda _result: True


views: Registry[PageView] = Registry("view", package="railyard.face.web.views")


def shown_result(question: dict[str, Any]) -> Result:
    """The result of the run that a question is about."""
    from railyard.work.study.folder import read_result  # it reads scenarios, whose sections a user's file may add

    return read_result(Path(question["folder"]) / "result.json")


def view(name: str, title: str = "", **how: Any) -> Callable[[Callable[[dict[str, Any]], Any]], Any]:
    """Registers a function as a view; the arguments are those of `PageView`."""

    def register(ask: Callable[[dict[str, Any]], Any]) -> Any:
        views.add(name, PageView(ask, title, **how))
        return ask

    return register
