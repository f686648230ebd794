"""What the flow engine takes from packet runs: how a fabric behaves when links differ or others share them.

The values stand in `behavior.json`, which `validation/tools/fabric_behavior.py` writes: packet runs of a composition of
load balancing, flow control and congestion control, and the values with which the flow engine finds the same slowdowns.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from functools import cache
from importlib.resources import files
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping

WIDE = 0.1
"""Spread of slowdowns, flow over packet, from the 10th to the 90th percentile, beyond which packets should be asked."""


@dataclass(frozen=True, kw_only=True)
class Behavior:
    """How a composition of mechanisms behaves.

    Attributes:
        moved_up: Of the load that a slower one of several equal links upwards cannot carry, the share that moves to the
            others: 0, all wait for the slowest, to 1, each carries what it can.
        moved_down: The same of links downwards, which switches below do not see.
        remaining_efficiency: Of the rate that equal links have left when some are gone, what is reached.
        background_weight: As how many flows of a job one flow of other traffic counts.
        withheld: Of a link's rate, what a flow that waits behind it for a crowded receiver takes from others, 0 to 1.
        spread: By situation (`slower link`, `dead spine`, `slow NIC`, `background`, `incast`): slowdowns of the flow
            engine over those of packets, 10th and 90th percentile less 1; of `healthy`, `oversubscription` and
            `distance`: times.
    """

    moved_up: float = 1.0
    moved_down: float = 1.0
    remaining_efficiency: float = 1.0
    background_weight: float = 1.0
    withheld: float = 0.0
    spread: Mapping[str, tuple[float, float]] = field(default_factory=dict, hash=False)

    def uncertain(self, situation: str) -> bool:
        """Whether the flow engine's slowdowns lie further than `WIDE` from those of packets, or were not compared."""
        low, high = self.spread.get(situation, (-1.0, 1.0))
        return max(-low, high) > WIDE


OBLIVIOUS = Behavior(moved_up=0.0, moved_down=0.0)
"""A spray that looks at nothing: every link carries the same, so that all wait for the slowest."""


@cache
def measured() -> Mapping[str, Behavior]:
    """Behaviors by composition, as packet runs gave them."""
    table = json.loads(files("railyard.cluster.fabric").joinpath("behavior.json").read_text(encoding="utf-8"))
    return {name: _behavior(row) for name, row in table["compositions"].items()}


def _behavior(row: dict[str, Any]) -> Behavior:
    spread = {situation: (float(low), float(high)) for situation, (low, high) in row["spread"].items()}
    return Behavior(**{name: float(value) for name, value in row["values"].items()}, spread=spread)
