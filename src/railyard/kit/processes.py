"""What the kernel does for processes of Railyard: it ends them with their parent, bounds memory, and sends signals."""

from __future__ import annotations

import ctypes
import os
import resource
import signal
import threading
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

_PR_SET_PDEATHSIG = 1


def die_with_parent(parent: int | None = None, number: int = signal.SIGKILL) -> None:
    """Ends this process when the one that started it ends, however that ends (Linux).

    Args:
        parent: Its process number, where it could have ended before this call: then this process ends now.
        number: The signal that ends this process.
    """
    libc = ctypes.CDLL(None)
    if hasattr(libc, "prctl"):
        libc.prctl(_PR_SET_PDEATHSIG, number, 0, 0, 0)
    if parent is not None and os.getppid() != parent:
        raise SystemExit(128 + signal.SIGTERM)


def limit_memory(limit_bytes: int) -> None:
    """Bounds the address space of this process: an allocation beyond it raises `MemoryError`."""
    resource.setrlimit(resource.RLIMIT_AS, (limit_bytes, limit_bytes))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))


@contextmanager
def signals_held() -> Iterator[Callable[[], bool]]:
    """Ctrl-C and SIGTERM wait until the end of the block, so that nothing inside is left half changed.

    Gives a function that says whether one is waiting. It takes effect in the main thread, which hears signals, and for
    those that have a handler in Python.
    """
    waiting: list[int] = []
    numbers = [signal.SIGINT, signal.SIGTERM] if threading.current_thread() is threading.main_thread() else []
    before = {number: signal.getsignal(number) for number in numbers}
    held = {number: handler for number, handler in before.items() if callable(handler)}
    for number in held:
        signal.signal(number, lambda came, _frame: waiting.append(came))
    try:
        yield lambda: bool(waiting)
    finally:
        for number, handler in held.items():
            signal.signal(number, handler)
        if waiting:
            signal.raise_signal(waiting[0])
