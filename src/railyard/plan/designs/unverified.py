"""What may be better than all that ran on an engine, and did not run itself."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Unverified:
    """A family that may hold the best design, of which no design ran on the engine.

    Attributes:
        family: What its designs have in common.
        variant: Its best by closed form.
        point: Number of that.
        value: Of the first objective, in closed form.
        ahead: By which share of the best that ran it may be better, at the good end of the closed form's error.
    """

    family: str
    variant: str
    point: int
    value: float
    ahead: float
