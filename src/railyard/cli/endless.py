"""Ctrl-C for a run that never comes back to Python: functions of a user's run as machine code and may loop for ever.

Python's handler of a signal waits for the next line of Python. A thread that hears of the signal at once gives the run
some seconds to end by itself and ends the process then. Only where functions of users were compiled: everything else in
the core asks for signals by itself, and may need longer to clear up.
"""

from __future__ import annotations

import os
import signal
import sys
import threading
import time
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

PATIENCE_S = 2.0
"""The core asks for signals many times a second: what has not ended by then does not end."""

_COMPILER = "numba"
"""Imported where functions of users are compiled, and nowhere else."""


def watch(end: Callable[[int], None]) -> None:
    """Begins to listen; for the main thread, once a process.

    Args:
        end: Ends the process because of a signal, in the listening thread.
    """
    told, tells = os.pipe()
    os.set_blocking(tells, False)
    signal.set_wakeup_fd(tells, warn_on_full_buffer=False)
    threading.Thread(target=_listen, args=(told, end), name="ctrl-c", daemon=True).start()


def _listen(told: int, end: Callable[[int], None]) -> None:
    while numbers := os.read(told, 64):
        number = next((one for one in (signal.SIGINT, signal.SIGTERM) if one in numbers), None)
        if number is not None and _COMPILER in sys.modules:
            time.sleep(PATIENCE_S)
            end(number)
