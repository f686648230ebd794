"""What a diagnosis says."""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass, field
from typing import Any


@dataclass(frozen=True)
class Suspect:
    """A part that is named.

    Attributes:
        part: As faults of scenarios write it: `rank 17`, `server 3`, `server 3 nic 2`, `leaf 0 - spine 1`.
        kind: accelerator, host, nic, link, rank or software.
        confidence: 0 to 1.
        evidence: In words, with figures.
        usd_per_hour: What it costs; None where no price is known.
    """

    part: str
    kind: str
    confidence: float
    evidence: str
    usd_per_hour: float | None = None


@dataclass(frozen=True)
class Price:
    """What the cluster costs.

    Attributes:
        usd_per_hour: All of it; None where no price is known.
    """

    usd_per_hour: float | None = None

    def of(self, share: float) -> float | None:
        """What a share of the time of all accelerators costs an hour."""
        return None if self.usd_per_hour is None else self.usd_per_hour * max(share, 0.0)


UNPRICED = Price()


@dataclass
class Diagnosis:
    """The answer.

    Attributes:
        verdict: Parts, the surest first; empty where nothing is wrong, or nothing can be named.
        unknown: Whether something is wrong that could not be laid to one part.
        what_if: S and the like, where there is a replay; else empty.
        notes: What stands between and a surer answer.
    """

    verdict: list[Suspect] = field(default_factory=list)
    unknown: bool = False
    what_if: dict[str, Any] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)

    def plain(self) -> dict[str, Any]:
        """The answer as JSON values: numbers that are not there are null."""
        return {
            "verdict": [asdict(suspect) for suspect in self.verdict],
            "unknown": self.unknown,
            "what_if": _finite(self.what_if),
        }


def _finite(value: Any) -> Any:
    if isinstance(value, dict):
        return {str(key): _finite(one) for key, one in value.items()}
    if isinstance(value, list | tuple):
        return [_finite(one) for one in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value
