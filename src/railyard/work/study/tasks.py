"""What is to be done, and what became of it: plain values, wherever they run."""

from __future__ import annotations

import importlib
import math
from dataclasses import dataclass, field
from threading import Event, Lock
from typing import TYPE_CHECKING, Any, Protocol

from railyard.kit.errors import InputError, RailyardError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from pathlib import Path

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
        state: Where a long run may keep its state, to go on from after a kill; None: nowhere.
        alone: Whether there is no other variant, so that figures of a run that a signal stopped are worth having.
    """

    progress: Progress
    stop: Event
    workers: int = 1
    recorded: bool = False
    searched: bool = True
    state: Path | None = None
    alone: bool = False

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


GONE = "its process was killed, by the system where memory ran out"
"""The error of a task that left no answer: another time it may end well."""


@dataclass(frozen=True)
class Task:
    """One piece of work.

    Attributes:
        function: `module:name` of a function of one argument.
        argument: Plain values.
        limit_s: After which it is given up; 0: never.
    """

    function: str
    argument: Any
    limit_s: float = 0.0


@dataclass(frozen=True)
class Done:
    """What became of a task.

    Attributes:
        number: Its place among the tasks.
        value: What the function gave.
        error: Why there is no value; empty where there is.
    """

    number: int
    value: Any = None
    error: str = ""


class Workers(Protocol):
    """Where tasks run."""

    def run(self, tasks: Sequence[Task], until: float = math.inf) -> Iterator[Done]:
        """Every task once, as they end.

        Args:
            tasks: What is to be done.
            until: Of the monotonic clock: what has not ended then is given up and left out.
        """

    def close(self) -> None:
        """Ends all that still runs."""


def call(function: str, argument: Any) -> Any:
    """A function by the name of its module and its own."""
    module, _, name = function.partition(":")
    found: Callable[[Any], Any] = getattr(importlib.import_module(module), name)
    return found(argument)


def failure(error: Exception) -> str:
    """An error of a task in one line."""
    text = str(error).splitlines()[0] if str(error) else ""
    return text if isinstance(error, RailyardError) else f"{type(error).__name__}: {text}"


def need(package: str, extra: str) -> Any:
    """A package of an extra.

    Raises:
        InputError: It is not installed.
    """
    try:
        return importlib.import_module(package)
    except ImportError:
        raise InputError(f"this needs {package.partition('.')[0]}: `pip install railyard[{extra}]` adds it") from None
