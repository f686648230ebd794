"""Asks the processes of `preview.py`: one a person, killed when an answer takes too long or nobody asks any more."""

from __future__ import annotations

import asyncio
import json
import os
import sys
import time
from contextlib import suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from railyard.face.web.documents import TextFault
from railyard.kit.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from railyard.face.web.settings import ServerSettings
    from railyard.kit.errors import Problem, RailyardError


_FAULTS_MOST = 100
"""Faults that are listed: nobody reads more."""


def faults_of(error: RailyardError) -> list[TextFault]:
    """Each thing that the error says is wrong, with its place."""
    if not isinstance(error, InputError):
        return [TextFault(message=str(error)[:2000])]
    return [_fault(problem) for problem in error.problems[:_FAULTS_MOST]]


def _fault(problem: Problem) -> TextFault:
    return TextFault(
        message=problem.message[:2000],
        line=problem.line,
        column=problem.column,
        key=problem.key,
        found=_cut(problem.found),
        allowed=_cut(problem.allowed),
        hint=_cut(problem.hint),
    )


def _cut(text: str | None) -> str | None:
    return None if text is None else text[:1000]


_LONGEST_LINE = 64 << 20
_IDLE_S = 300.0
_START_S = 120.0
_MOST = 8
"""Processes at a time: the one that was idle longest goes for the next."""


class TooSlow(Exception):
    """The answer took longer than it may; nothing is known of the draft."""


@dataclass
class _Seat:
    lock: asyncio.Lock = field(default_factory=asyncio.Lock)
    process: asyncio.subprocess.Process | None = None
    used: float = field(default_factory=time.monotonic)

    async def end(self) -> None:
        """Kills the process, where there is one."""
        if self.process is not None:
            await _kill(self.process)


class Looking:
    """Checks and estimates of drafts."""

    def __init__(self, settings: ServerSettings) -> None:
        self.settings = settings
        self._seats: dict[str, _Seat] = {}

    async def ask(self, person: str, verb: str, about: Mapping[str, Any]) -> dict[str, Any]:
        """The answer as a document.

        Args:
            person: Who asks.
            verb: `check`, `estimate`, or the name of a view.
            about: What the verb needs, see `preview.py`.

        Raises:
            TooSlow: It took more than `WorkLimits.preview_s` once a process was ready, or more memory than a run may
                take.
        """
        await self._make_room(person)
        seat = self._seats.setdefault(person, _Seat())
        async with seat.lock:
            seat.used = time.monotonic()
            question = {**about, "verb": verb, "person": str(self.settings.folder_of(person))}
            try:
                if seat.process is None or seat.process.returncode is not None:
                    seat.process = await self._started(person)
                return await asyncio.wait_for(_exchange(seat.process, question), self.settings.limits.preview_s)
            except (TimeoutError, OSError, json.JSONDecodeError) as error:
                await seat.end()
                raise TooSlow from error
            except asyncio.CancelledError:
                await seat.end()
                raise

    async def close(self) -> None:
        """Ends every process."""
        for seat in self._seats.values():
            await seat.end()

    async def _started(self, person: str) -> asyncio.subprocess.Process:
        """A process that is ready to answer: a busy machine's start is not the draft's time."""
        process = await asyncio.create_subprocess_exec(
            sys.executable,
            "-m",
            "railyard.face.web.preview",
            str(self.settings.folder_of(person)),
            str(self.settings.limits.memory_bytes),
            str(os.getpid()),
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.DEVNULL,
            limit=_LONGEST_LINE,
            start_new_session=True,
        )
        try:
            async with asyncio.timeout(_START_S):
                ready = process.stdout is not None and await process.stdout.readline()
        except BaseException:
            await _kill(process)
            raise
        if not ready:
            await _kill(process)
            raise OSError("the process ended before it was asked")
        return process

    async def _make_room(self, person: str) -> None:
        """Ends processes that nobody asks, and the longest idle one where there are too many."""
        now = time.monotonic()
        idle = sorted(
            (seat.used, name) for name, seat in self._seats.items() if name != person and not seat.lock.locked()
        )
        for used, name in idle:
            if now - used > _IDLE_S or len(self._seats) >= _MOST:
                await self._seats.pop(name).end()


async def _exchange(process: asyncio.subprocess.Process, question: dict[str, Any]) -> dict[str, Any]:
    if process.stdin is None or process.stdout is None:
        raise OSError("the process has no pipes")
    process.stdin.write(json.dumps(question).encode() + b"\n")
    await process.stdin.drain()
    line = await process.stdout.readline()
    answer: dict[str, Any] = json.loads(line)
    return answer


async def _kill(process: asyncio.subprocess.Process) -> None:
    with suppress(ProcessLookupError):
        process.kill()
    await process.wait()
