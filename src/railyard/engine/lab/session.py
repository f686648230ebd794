"""A lab from the side of who asks for it: its keeper is started, watched and ended."""

from __future__ import annotations

import contextlib
import fcntl
import os
import select
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

from railyard.engine.lab.frames import read_frame, write_frame
from railyard.kit.errors import SimulationError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from railyard.engine.lab.blueprint import Blueprint, Ran

LOCK = Path(tempfile.gettempdir()) / "railyard-lab.lock"
POLL_S = 0.05


def played(plan: Blueprint, poll: Callable[[], None]) -> Ran:
    """Builds a lab, runs what it is for, and lets it vanish.

    Args:
        plan: Everything.
        poll: Called about twenty times a second; may raise to end the lab.

    Raises:
        SimulationError: The kernel refuses something, a rank fails, or it takes too long.
    """
    with _alone(poll):
        answer, end = os.pipe()
        words = [sys.executable, "-m", "railyard.engine.lab.keeper", str(end)]
        process = subprocess.Popen(words, stdin=subprocess.PIPE, pass_fds=[end])
        os.close(end)
        try:
            return _answer(process, answer, plan, poll)
        finally:
            process.kill()
            process.wait()
            os.close(answer)
            with contextlib.suppress(OSError):
                process.stdin.close()  # type: ignore[union-attr]


def _answer(process: subprocess.Popen[bytes], answer: int, plan: Blueprint, poll: Callable[[], None]) -> Ran:
    assert process.stdin is not None
    try:
        write_frame(process.stdin.fileno(), plan)
        while not select.select([answer], [], [], POLL_S)[0]:
            poll()
        said, value = read_frame(answer)
    except (EOFError, BrokenPipeError):
        raise SimulationError("the lab's keeper ended without an answer") from None
    if said == "hung":
        raise SimulationError(f"the lab ran longer than {plan.limit_s:.0f} s: {value}")
    if said == "error":
        raise SimulationError(f"the lab failed: {value}")
    ran: Ran = value
    return ran


@contextlib.contextmanager
def _alone(poll: Callable[[], None]) -> Iterator[None]:
    """One lab at a time on a machine: two would take the processors from one another."""
    with LOCK.open("a", encoding="ascii") as lock:
        while True:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError:
                poll()
                select.select([], [], [], POLL_S)
        yield
