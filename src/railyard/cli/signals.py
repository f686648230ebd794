"""Ctrl-C and SIGTERM: the first one raises `Interrupted`, at once or when the command is ready for it."""

from __future__ import annotations

import signal
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from types import FrameType

CTRL_C = signal.SIGINT


class Interrupted(KeyboardInterrupt):
    """The process was asked to end."""


@dataclass
class _Ears:
    """What was heard so far.

    Attributes:
        first: The first signal; 0: none came.
        waits: Whether a signal waits until the command is ready.
        once: Whether only the first one counts, so that nothing disturbs what a command does because of it.
    """

    first: int = 0
    waits: bool = False
    once: bool = False

    def hear(self, number: int, frame: FrameType | None) -> None:
        del frame
        repeated, self.first = bool(self.first), self.first or number
        if not self.waits and not (repeated and self.once):
            raise Interrupted


_ears = _Ears()


def listen(*, waits: bool = False) -> None:
    """Begins to listen; for the main thread, once a process.

    Args:
        waits: Whether the first signal waits for `ready`.
    """
    _ears.waits = waits
    for number in (CTRL_C, signal.SIGTERM):
        signal.signal(number, _ears.hear)


def ready(*, once: bool = False) -> None:
    """The command is ready for signals.

    Args:
        once: Whether signals after the first are ignored.

    Raises:
        Interrupted: One has come meanwhile.
    """
    _ears.waits, _ears.once = False, once
    if _ears.first:
        raise Interrupted


def heard(number: int) -> None:
    """A signal arrived that the main thread has not seen."""
    _ears.first = _ears.first or number


def code() -> int:
    """The exit code of a process that a signal ended: 128 and its number, as shells have it."""
    return 128 + (_ears.first or CTRL_C)


def name() -> str:
    """What ended the process, in words."""
    return "SIGTERM" if _ears.first == signal.SIGTERM else "Ctrl-C"
