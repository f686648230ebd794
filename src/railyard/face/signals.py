"""Ctrl-C and SIGTERM: every command ends within `PATIENCE_S` and what it takes to clear up.

The first signal raises `Interrupted` in the main thread, at once or when the command is ready for it. Python raises it
only at the next line of Python: compiled code that runs long asks for signals by itself (`Beat` in the core). What has
not ended when the patience is over, such as a library's call that asks for nothing or a user's function as machine code
that loops forever, is ended by a thread that gets the signal at once.
"""

from __future__ import annotations

import os
import signal
import sys
import threading
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING

from railyard.kit.errors import InputError, Interrupted

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import FrameType


LEAST_BYTES = 1_100_000_000
"""Least address space: a scenario of 16 accelerators runs in it on two cores (measured; most of it is the stacks and
arenas that threads of libraries reserve and never touch)."""

SIGNS = ("failed to spawn thread", "can't start new thread", "not enough memory", "Cannot allocate memory")
"""Messages of libraries that get no memory and raise errors of their own."""

WORDS = "out of memory"
HINT = "allow more (`ulimit -v`, a container's limit), or reduce the work: fewer accelerators, requests or variants"


def prepare() -> None:
    """Refuses a bound in which nothing runs, and makes libraries that abort end as other endings do.

    Raises:
        InputError: The bound is too small.
    """
    limit = bound()
    if limit is None:
        return
    if limit < LEAST_BYTES:
        raise InputError(
            "this process may have too little memory to begin with",
            key="ulimit -v",
            found=f"{limit / 1e9:.2f} GB",
            allowed=f"{LEAST_BYTES / 1e9:.2f} GB and more",
        )
    import railyard._core as _core

    _core.end_on_abort(f"error: {WORDS}\n\nhint: {HINT}\n", 1)


def bound() -> int | None:
    """Bytes of address space that this process may use, None if unlimited."""
    if sys.platform == "win32":
        return None
    import resource

    limit, _ = resource.getrlimit(resource.RLIMIT_AS)
    return None if limit == resource.RLIM_INFINITY else limit


CTRL_C = signal.SIGINT

PATIENCE_S = 1.5
"""Time from a signal to the end of the process. While it writes results, only its main thread's processor time
counts.
"""

_LONGEST_S = 10.0
"""Limit for such a command on a busy machine."""


@dataclass
class _Ears:
    """Signals received so far.

    Attributes:
        first: The first signal; 0: none.
        waits: Whether a signal waits until the command is ready.
        once: Whether only the first one counts, so that nothing interrupts its handling.
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
    """Starts listening; for the main thread, once per process.

    Args:
        waits: Whether the first signal waits for `ready`.
    """
    _ears.waits = waits
    for number in (CTRL_C, signal.SIGTERM):
        signal.signal(number, _ears.hear)


def watch(end: Callable[[int], None]) -> None:
    """Starts a watch that ends the process after a signal; for the main thread, once per process.

    Args:
        end: Ends the process because of a signal, in the watching thread.
    """
    told, tells = os.pipe()
    os.set_blocking(tells, False)
    signal.set_wakeup_fd(tells, warn_on_full_buffer=False)
    threading.Thread(target=_watch, args=(told, end), name="signals", daemon=True).start()


def _watch(told: int, end: Callable[[int], None]) -> None:
    while numbers := os.read(told, 64):
        number = next((one for one in (CTRL_C, signal.SIGTERM) if one in numbers), None)
        if number is not None:
            _wait()
            end(number)


def _wait() -> None:
    clock = time.pthread_getcpuclockid(threading.main_thread().ident or 0)
    begun, used = time.monotonic(), time.clock_gettime(clock)
    while (passed := time.monotonic() - begun) < _LONGEST_S:
        answers = _ears.waits or _ears.once
        if (time.clock_gettime(clock) - used if answers else passed) >= PATIENCE_S:
            return
        time.sleep(0.05)


def ready(*, once: bool = False) -> None:
    """Declares the command ready for signals.

    Args:
        once: Whether signals after the first are ignored.

    Raises:
        Interrupted: A signal has arrived in the meantime.
    """
    _ears.waits, _ears.once = False, once
    if _ears.first:
        raise Interrupted


def heard(number: int) -> None:
    """Handles a signal that the main thread has not seen."""
    _ears.first = _ears.first or number


def came() -> bool:
    """Whether a signal has arrived."""
    return bool(_ears.first)


def exit_code() -> int:
    """Exit code of a process ended by a signal: 128 plus its number, as in shells."""
    return 128 + (_ears.first or CTRL_C)


def name() -> str:
    """Name of the signal that ended the process."""
    return "SIGTERM" if _ears.first == signal.SIGTERM else "Ctrl-C"
