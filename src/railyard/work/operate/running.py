"""What recovery sees of a run, and a fault that is not over."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from railyard.work.operate.event import Event
    from railyard.work.operate.failures.fault import Effect
    from railyard.work.operate.ledger import Ledger, Outcome
    from railyard.work.operate.rules import Rules
    from railyard.work.operate.scheduler import Scheduler
    from railyard.work.operate.state import State


@dataclass
class Active:
    """A fault that is not over.

    Attributes:
        nodes: Those that were hit and are out of service, or will be.
        effect: What it does.
        mode: Which it is.
        began_us: When it came.
        jobs: Jobs that it hit, with the number of their attempt and the work that they had done.
        repair_us: From detection until the nodes are back.
    """

    nodes: tuple[int, ...]
    effect: Effect
    mode: int
    began_us: int
    repair_us: int
    jobs: list[tuple[int, int, int]] = field(default_factory=list)


class Run(Protocol):
    """What recovery needs of a run."""

    state: State
    ledger: Ledger
    rules: Rules
    scheduler: Scheduler
    active: dict[int, Active]
    known: int
    pending: int
    spares: list[int]

    def push(self, time_us: int, kind: Event, number: int, version: int = 0) -> None:
        """Plans an event."""

    def moved(self, job: int) -> None:
        """Takes note of a job's new nodes."""

    def promise(self, job: int) -> None:
        """Makes a new promise of a job's end."""

    def leave(self, job: int, outcome: Outcome) -> None:
        """Takes a job from its nodes."""

    def over(self, job: int, status: int, outcome: Outcome) -> None:
        """Ends a job for good."""

    def replaced(self, job: int, lost: NDArray[np.int32]) -> NDArray[np.int32]:
        """A job's nodes with spares, of which there are enough, in the place of lost ones."""

    def freed(self) -> None:
        """Has the queue looked at."""

    def service(self, nodes: NDArray[np.int32]) -> None:
        """Puts nodes that are back into service, or among the spares."""
