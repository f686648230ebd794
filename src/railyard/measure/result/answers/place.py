"""Where on the drawing of a network something is."""

from __future__ import annotations

from pydantic import Field

from railyard.measure.result.section import Count, Figures


class PicturePlace(Figures):
    """Boxes and edges of a `Picture`; both empty where it is not on it."""

    boxes: tuple[tuple[Count, Count], ...] = Field(description="tier and box")
    edges: tuple[Count, ...] = Field(description="numbers of edges")
