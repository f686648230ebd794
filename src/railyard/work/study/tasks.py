"""What is to be done, and what became of it: plain values, wherever they run."""

from __future__ import annotations

import importlib
import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

from railyard.kit.errors import InputError, RailyardError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence


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
