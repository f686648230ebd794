"""What a step is given besides its work: where progress goes, when to stop, how many threads it may use."""

from __future__ import annotations

from dataclasses import dataclass, field
from threading import Event, Lock
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

    Progress = Callable[[str, float], None]

_MOST_SHARE = 0.99
"""Shown while anything still runs."""


@dataclass(frozen=True)
class Control:
    """For the steps of one variant.

    Attributes:
        progress: Called with what is being done, and its share of the variant from 0 to 1.
        stop: Ends the run when it is set.
        workers: Simulations at a time.
        recorded: Whether files will be written, so that a run keeps what goes into them.
        searched: Whether it is tried what would help; a rough answer goes without.
    """

    progress: Progress
    stop: Event
    workers: int = 1
    recorded: bool = False
    searched: bool = True

    def counted(self, total: int) -> Callable[[str], None]:
        """Progress by simulations that have ended; may be called from several threads.

        Args:
            total: About so many simulations of the variant.
        """
        lock, done = Lock(), 0

        def count(what: str) -> None:
            nonlocal done
            with lock:
                done += 1
                share = done / total
            self.progress(what, share)

        return count


@dataclass
class Meter:
    """The share of all variants together; called from several threads.

    Attributes:
        progress: Called with what is being done, and its share from 0 to 1.
        shares: Of each variant, what is done.
    """

    progress: Progress
    shares: list[float]
    _lock: Lock = field(default_factory=Lock)

    def of(self, number: int) -> Progress:
        """Progress of one variant as its part of all."""

        def report(what: str, share: float) -> None:
            with self._lock:
                self.shares[number] = min(share, 1.0)
                self.progress(what, min(sum(self.shares) / len(self.shares), _MOST_SHARE))

        return report

    def done(self, number: int) -> None:
        """A variant has ended."""
        with self._lock:
            self.shares[number] = 1.0
