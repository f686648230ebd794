"""Remedies: what a user can change about a job. `run` and `explain` share this registry.

A remedy is a set of scenario keys with new values, so that a prediction can be typed in and run. It changes one thing:
what is broken, the layout, the precision, the software, the collectives, the fabric, its queue pairs, the topology, the
links, the placement or the checkpoints. Hypothetical hardware (1.25 times the FLOPS) is sensitivity analysis: see
`measure.bottleneck`.
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
        changes: Values by dotted key of the scenario; other layout keys stay as they are.
        assumes: What it assumes, "" for nothing.
        bound: Whether it cannot be bought: it has no price and only bounds what others can gain.
    """

    name: str
    family: Family
    removes: str
    changes: Mapping[str, Any]
    assumes: str = ""
    bound: bool = False


@dataclass(frozen=True)
class Waits:
    """What a job's step waits for.

    Attributes:
        shares: Shares of the step by branch of the tree ("pipeline bubble", "recompute").
        network: Share of its tokens lost to the scale-out network.
        best_interval_steps: Best checkpoint interval; None if checkpoints do not stall the job.
    """

    shares: Mapping[str, float]
    network: float
    best_interval_steps: int | None = None

    def of(self, branch: str) -> float:
        """Share of a branch; 0 if it is absent."""
        return self.shares.get(branch, 0.0)


@dataclass(frozen=True)
class Proposals:
    """Remedies of one kind; creating the record registers it.

    Attributes:
        propose: Remedies for something in the job's waits, without what the job already does.
        in_run: Whether `run` tries them too; `explain` tries all.
        bounded: Whether none can gain more than the bound over all fabrics (`ideal`).
    """

    name: str
    propose: Callable[[Prepared, Waits], Iterator[Remedy]]
    in_run: bool = False
    bounded: bool = False


proposals: Registry[Proposals] = Registry("kind of remedy", package="railyard.work.remedies")
