"""Verdicts of a diagnosis."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any, Literal

from railyard.measure.result.answers import SuspectRow


def suspect(  # noqa: PLR0917 - a row of the verdict
    part: str,
    kind: str,
    confidence: float,
    evidence: str,
    usd_per_hour: float | None = None,
    pattern: Literal["constant", "intermittent"] = "constant",
    slow_steps: tuple[int, ...] = (),
) -> SuspectRow:
    """A part that is named: `rank 17`, `server 3`, `server 3 nic 2`, `leaf 0 - spine 1`."""
    return SuspectRow(
        part=part,
        kind=kind,
        confidence=float(confidence),
        pattern=pattern,
        slow_steps=slow_steps,
        evidence=evidence,
        usd_per_hour=None if usd_per_hour is None else float(usd_per_hour),
    )


MOST_SURE = 0.99


def sure(spreads: float, least: float) -> float:
    """Confidence in a part by how far it is from its peers: one half at the least that is named, more beyond."""
    return min(1 - 0.5 * least / max(spreads, least), MOST_SURE)


@dataclass(frozen=True)
class HourlyPrice:
    """Price of the cluster.

    Attributes:
        usd_per_hour: All of it; None where no price is known.
    """

    usd_per_hour: float | None = None

    def of(self, share: float) -> float | None:
        """Price an hour of a share of the time of all accelerators."""
        return None if self.usd_per_hour is None else self.usd_per_hour * max(share, 0.0)


UNPRICED = HourlyPrice()


@dataclass
class Diagnosis:
    """The answer.

    Attributes:
        verdict: Parts, the surest first; empty where nothing is wrong, or nothing can be named.
        unknown: Whether something is wrong that no single part explains, or too little was measured to say that
            nothing is wrong.
        what_if: S and similar figures if there is a replay; else empty.
        notes: What stands between this and a surer answer, the weightiest first.
    """

    verdict: list[SuspectRow] = field(default_factory=list)
    unknown: bool = False
    missing_ranks: list[int] = field(default_factory=list)
    short: bool = False
    what_if: dict[str, Any] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)

    def plain(self) -> dict[str, Any]:
        """The answer as JSON values: numbers that are not there are null."""
        return {
            "verdict": [one.plain() for one in self.verdict],
            "unknown": self.unknown,
            "missing_ranks": self.missing_ranks,
            "what_if": _finite(self.what_if),
        }


def _finite(value: Any) -> Any:
    if isinstance(value, dict):
        return {str(key): _finite(one) for key, one in value.items()}
    if isinstance(value, list | tuple):
        return [_finite(one) for one in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value
