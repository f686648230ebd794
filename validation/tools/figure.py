"""What a figure of `docs/validation/packet-figures.md` is."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

    from railyard_validation.plot import Plot

MB = 1_000_000


@dataclass(frozen=True)
class Found:
    """What a figure's run gave: the picture, and a table of its numbers."""

    plot: Plot
    head: list[str]
    rows: list[list[str]]


@dataclass(frozen=True)
class Figure:
    """A figure of the page."""

    title: str
    shows: str
    run: Callable[[], Found]


FIGURES: dict[str, Figure] = {}


def figure(name: str, title: str, shows: str) -> Callable[[Callable[[], Found]], Callable[[], Found]]:
    """Registers the function that draws a figure."""

    def add(draw: Callable[[], Found]) -> Callable[[], Found]:
        FIGURES[name] = Figure(title, shows, draw)
        return draw

    return add
