"""What every section of a result is made of: frozen records of finite numbers, shares, counts and bands."""

from __future__ import annotations

import json
import math
from typing import TYPE_CHECKING, Annotated, Any, Self

from pydantic import BaseModel, ConfigDict, Field, model_validator

if TYPE_CHECKING:
    from collections.abc import Iterable

SAME = 1e-6
"""Relative difference of two figures that are the same."""

Share = Annotated[float, Field(ge=-SAME, le=1 + SAME)]
"""From 0 to 1."""
Count = Annotated[int, Field(ge=0)]
Number = int | float
"""A figure that is counted on some paths and computed on others; it is written as it came."""
Values = dict[str, object]
"""Settings and scenarios: whatever the document holds."""


class Figures(BaseModel):
    """A part of a result: exactly these keys. A key with a default is absent where nothing was said for it."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True, allow_inf_nan=False, defer_build=True)

    def plain(self) -> dict[str, Any]:
        """As JSON values: keys that were never set are absent."""
        return self.model_dump(mode="json", by_alias=True, exclude_unset=True)

    def text(self) -> str:
        """As a file of it holds it."""
        return json.dumps(self.plain(), ensure_ascii=False, allow_nan=False)

    def __getitem__(self, key: str) -> Any:
        """What `result.json` holds under a key: a path into the file is the same path into the object.

        Raises:
            KeyError: There is no such key.
        """
        return self.plain()[key]


class Band(Figures):
    """A figure at the cheap end of every assumption, in the middle, and at the dear end."""

    low: float = Field(description="every assumption at its cheap end")
    typical: float = Field(description="every assumption typical")
    high: float = Field(description="every assumption at its dear end")

    @model_validator(mode="after")
    def _ordered(self) -> Self:
        slack = SAME * max(abs(self.high), 1.0)
        if not (self.low <= self.typical + slack and self.typical <= self.high + slack):
            raise ValueError(f"low, typical and high are not in order: {self.low}, {self.typical}, {self.high}")
        return self

    @property
    def ends(self) -> tuple[float, float, float]:
        """Low, typical and high."""
        return self.low, self.typical, self.high


class NamedBand(Figures):
    """One part of a figure that has a band."""

    name: str = Field(description="of the part")
    low: float = Field(description="every assumption at its cheap end")
    typical: float = Field(description="every assumption typical")
    high: float = Field(description="every assumption at its dear end")

    @property
    def ends(self) -> tuple[float, float, float]:
        """Low, typical and high."""
        return self.low, self.typical, self.high


def require_equal(what: str, found: float, expected: float) -> None:
    """Two figures are the same but for rounding.

    Raises:
        ValueError: They are not.
    """
    if abs(found - expected) > SAME * max(abs(expected), abs(found)):
        raise ValueError(f"{what}: expected {expected}, got {found}")


def require_sum(parts: Iterable[tuple[float, float, float]], total: Band) -> None:
    """Parts add up to their total at each end.

    Raises:
        ValueError: They do not.
    """
    columns = list(zip(*parts, strict=True))
    for end, column, expected in zip(("low", "typical", "high"), columns, total.ends, strict=True):
        require_equal(f"the parts do not add up to the total at the {end} end", math.fsum(column), expected)
