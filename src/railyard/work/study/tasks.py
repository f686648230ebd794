"""Tasks and their results as plain values, wherever they run."""

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
"""Maximum progress shown while anything is running."""


@dataclass(frozen=True)
class Control:
    """Control of the steps of one variant.

    Attributes:
        progress: Called with the current activity and the share of the variant done, from 0 to 1.
        recorded: Whether files will be written, so that a run keeps their contents.
        searched: Whether to search for what would help; rough answers do not.
        state: Path for the state of a long run, to resume after a kill; None: none.
        alone: Whether it is the only variant, so that partial figures of a stopped run are useful.
    """

    progress: Progress
    stop: Event
    workers: int = 1
    recorded: bool = False
    searched: bool = True
    state: Path | None = None
    alone: bool = False

    def counted(self, total: int) -> Callable[[str], None]:
        """Progress by finished simulations; may be called from several threads."""
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
    """Progress of all variants together; called from several threads.

    Attributes:
        progress: Called with the current activity and the share done, from 0 to 1.
    """

    progress: Progress
    shares: list[float]
    _lock: Lock = field(default_factory=Lock)

    def of(self, number: int) -> Progress:
        """Progress of one variant as a part of the total."""

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
"""Error of a task without an answer, which may succeed another time."""


@dataclass(frozen=True)
class Task:
    """A unit of work.

    Attributes:
        function: `module:name` of a function of one argument.
        limit_s: Time limit; 0: none.
    """

    function: str
    argument: Any
    limit_s: float = 0.0


@dataclass(frozen=True)
class Done:
    """Result of a task.

    Attributes:
        error: Why there is no value; empty if there is one.
    """

    number: int
    value: Any = None
    error: str = ""


class Workers(Protocol):
    """Runs tasks."""

    def run(self, tasks: Sequence[Task], until: float = math.inf) -> Iterator[Done]:
        """Runs every task once and yields results as they end.

        Args:
            tasks: The tasks.
            until: Deadline on the monotonic clock; unfinished tasks are dropped then.
        """

    def close(self) -> None:
        """Ends all tasks that are still running."""


def call(function: str, argument: Any) -> Any:
    """Calls a function given by module and name."""
    module, _, name = function.partition(":")
    found: Callable[[Any], Any] = getattr(importlib.import_module(module), name)
    return found(argument)


def failure(error: Exception) -> str:
    """An error of a task in one line."""
    text = str(error).splitlines()[0] if str(error) else ""
    return text if isinstance(error, RailyardError) else f"{type(error).__name__}: {text}"


def need(package: str, extra: str) -> Any:
    """A package of an optional extra.

    Raises:
        InputError: It is not installed.
    """
    try:
        return importlib.import_module(package)
    except ImportError:
        raise InputError(f"this needs {package.partition('.')[0]}: `pip install railyard[{extra}]` adds it") from None
