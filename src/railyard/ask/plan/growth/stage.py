"""A cluster of a plan of growth from a time on."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from railyard.ask.plan.designs.price import Priced
    from railyard.cluster import Cluster


@dataclass(frozen=True, eq=False)
class Stage:
    """The cluster from a time on.

    Attributes:
        name: How it is called.
        at_s: When it begins.
        until_s: When the next begins, or the horizon.
        cluster: The machine.
        layout: Of the job in closed form, in words.
        priced: Money and power at work.
        batch: Sequences of a step.
    """

    name: str
    at_s: float
    until_s: float
    cluster: Cluster
    layout: str
    priced: Priced
    batch: int
