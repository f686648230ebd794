"""What the kernel does for processes of Railyard: it ends them with their parent, and bounds their memory."""

from __future__ import annotations

import ctypes
import os
import resource
import signal

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
