"""A wrong setting of a switch, in terms that packets can be played with."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

What = Literal["pause", "mark", "headroom"]


@dataclass(frozen=True)
class Setting:
    """Ports of a switch that do otherwise than the fabric needs.

    Attributes:
        device: Name of the switch.
        ports: Its wrong ports, by name; empty: all.
        what: `pause`: they neither pause nor obey; `mark`: their queues mark nothing; `headroom`: of what may still
            come after a pause they hold `kept`.
        kept: 0 to 1.
        leaf: Whether servers are joined to it.
        below, above: Shares of its ports to what is below it, and to what is above it, that are wrong.
    """

    device: str
    ports: tuple[str, ...]
    what: What
    kept: float
    leaf: bool
    below: float = 1.0
    above: float = 1.0
