"""What work outside one hall has in common: where time goes, energy, money, bytes."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Self

from pydantic import Field, model_validator

from railyard.measure.result.section import Band, Figures, NamedBand, require_equal, require_sum

if TYPE_CHECKING:
    from collections.abc import Sequence


class CauseRow(Figures):
    """One cause of a time."""

    name: str = Field(description="in words")
    seconds: float = Field(description="mean, s; less than zero where it shortens the time")
    share: float = Field(description="of the time")


class SpreadRow(Figures):
    """How a figure is spread."""

    mean: float = Field(description="mean")
    p50: float = Field(description="median, nearest rank")
    p90: float = Field(description="90th percentile, nearest rank")
    p99: float = Field(description="99th percentile, nearest rank")


class CostFigures(Figures):
    """Dollars or joules, and their parts."""

    parts: tuple[NamedBand, ...] = Field(min_length=1, description="they add up to `total`")
    total: Band = Field(description="of all parts")

    @model_validator(mode="after")
    def _sum(self) -> Self:
        require_sum((row.ends for row in self.parts), self.total)
        return self


def require_causes(causes: Sequence[CauseRow], seconds: float) -> None:
    """Causes add up to the time.

    Raises:
        ValueError: They do not.
    """
    require_equal("the causes do not add up to the time", math.fsum(row.seconds for row in causes), seconds)
