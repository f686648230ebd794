"""What could be changed about a job: one registry, by which `run` and `explain` try the same.

A remedy changes the software, the layout, the precision, the fabric, its queue pairs or the placement of the job as it
is, one thing at a time; better hardware is tried as in `measure.bottleneck`. One that the job does not allow (it would
not fit in memory, it does not divide, the device has no units for it) raises `InputError` when it is applied.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

from railyard.registry import Registry

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from railyard.study.training.prepare import Prepared

Family = Literal["software", "layout", "precision", "fabric", "queue pairs", "placement"]


@dataclass(frozen=True)
class Remedy:
    """One change of a job.

    Attributes:
        name: In the user's words.
        family: What kind of thing is changed.
        removes: Name of the branch of the tree that it is meant to shorten.
        apply: The job with the change; raises `InputError` where the job does not allow it.
        assumes: What it takes for granted, "" where nothing.
        bound: Whether nobody sells it, so that it has no price and only says what others cannot exceed.
    """

    name: str
    family: Family
    removes: str
    apply: Callable[[], Prepared]
    assumes: str = ""
    bound: bool = False


@dataclass(frozen=True)
class Waits:
    """What remedies are proposed by.

    Attributes:
        shares: Of the step, by branch of the tree ("pipeline bubble", "recompute").
        network: Share that waits for links outside scale-up domains, and for stragglers.
    """

    shares: Mapping[str, float]
    network: float

    def of(self, branch: str) -> float:
        """Share of a branch; 0 where there is none."""
        return self.shares.get(branch, 0.0)


@dataclass(frozen=True)
class Proposals:
    """Remedies of one kind; its record is its registration.

    Attributes:
        name: Of the kind.
        propose: Of a job and its waits: changes that speak to something in them; what is done already is left out.
        in_run: Whether `run` tries them too, where the network costs something; `explain` tries all.
        bounded: Whether none can give more than the bound of its family or of `fabric` does.
    """

    name: str
    propose: Callable[[Any, Waits], Iterator[Remedy]]
    in_run: bool = False
    bounded: bool = False


proposals: Registry[Proposals] = Registry("kind of remedy", package="railyard.study.remedies")
