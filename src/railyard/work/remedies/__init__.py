"""What a user can change about a job: one registry, from which `run` and `explain` try the same remedies.

A remedy is a set of scenario keys with new values, so that what was promised can be typed and run. It changes one
thing: what is broken, the layout, the precision, the software, the collectives, the fabric, its queue pairs, the
topology, the links, the placement or the checkpoints. Hardware that nobody sells (1.25 times the FLOPS) is sensitivity
analysis: see `measure.bottleneck`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

from railyard.kit.registry import Registry

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from railyard.work.training.prepare import Prepared

Family = Literal[
    "repair",
    "software",
    "layout",
    "precision",
    "fabric",
    "queue pairs",
    "oversubscription",
    "link rate",
    "collectives",
    "placement",
    "checkpoint interval",
]


@dataclass(frozen=True)
class Remedy:
    """One change of a job.

    Attributes:
        removes: Name of the branch of the tree that it is meant to shorten.
        changes: Values by dotted key of the scenario; keys of the layout that are left out stay as they are.
        assumes: What it takes for granted, "" for nothing.
        bound: Whether nobody sells it: it has no price and only says what others cannot exceed.
    """

    name: str
    family: Family
    removes: str
    changes: Mapping[str, Any]
    assumes: str = ""
    bound: bool = False


@dataclass(frozen=True)
class Waits:
    """What the step of a job waits for.

    Attributes:
        shares: Of the step, by branch of the tree ("pipeline bubble", "recompute").
        network: Share of its tokens that the scale-out network takes.
        best_interval_steps: Between the checkpoints that make the job shortest; None where checkpoints do not stall it.
    """

    shares: Mapping[str, float]
    network: float
    best_interval_steps: int | None = None

    def of(self, branch: str) -> float:
        """Share of a branch; 0 where there is none."""
        return self.shares.get(branch, 0.0)


@dataclass(frozen=True)
class Proposals:
    """Remedies of one kind; its record is its registration.

    Attributes:
        propose: Remedies that speak to something in the waits of a job; what the job does already is left out.
        in_run: Whether `run` tries them too; `explain` tries all.
        bounded: Whether none can gain more than the bound of all fabrics (`ideal`) does.
    """

    name: str
    propose: Callable[[Prepared, Waits], Iterator[Remedy]]
    in_run: bool = False
    bounded: bool = False


proposals: Registry[Proposals] = Registry("kind of remedy", package="railyard.work.remedies")
