"""What papers report about convergence: quoted beside a gain, never computed."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Finding:
    """One published effect on what is learned.

    Attributes:
        effect: What was measured with the technique and without it.
        scope: Model, data, workers and settings for which it was measured.
        source: The paper.
    """

    effect: str
    scope: str
    source: str

    def __str__(self) -> str:
        return f"{self.effect} ({self.scope}; {self.source})"
