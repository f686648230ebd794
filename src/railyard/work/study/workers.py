"""Runs tasks on all cores or on a Ray cluster; tasks are plain values, and results do not depend on where they ran.

If a worker is killed, because memory runs out or a task exceeds its time limit, only that task is lost: it is tried
once
more, then stored with its error.
"""

from __future__ import annotations

import math
import multiprocessing
import os
import signal
import time
from collections import deque
from contextlib import suppress
from dataclasses import dataclass
from multiprocessing.connection import wait
from typing import TYPE_CHECKING, Any

from railyard.kit.errors import SimulationError
from railyard.kit.files import die_with_parent
from railyard.work.study.tasks import GONE, Done, Task, call, failure

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from multiprocessing.connection import Connection
    from multiprocessing.process import BaseProcess

    from railyard.work.study.tasks import Progress, Workers

_LONGEST_S = 3600.0


def workers(
    address: str | None = None, processes: int | None = None, begin: Callable[[], None] | None = None
) -> Workers:
    """The machine's cores, or a Ray cluster.

    Args:
        address: Address of the cluster; None: this machine.
        processes: Maximum number; None: the number of cores.
        begin: Called in each process before its first task; must be picklable.

    Raises:
        InputError: Ray is not installed, or there is no answer at the address.
    """
    if address is not None:
        from railyard.work.study.ray_workers import RayWorkers

        return RayWorkers(address, begin)
    return Local(processes or os.cpu_count() or 1, begin)


def every(pool: Workers, function: str, arguments: Sequence[Any], progress: Progress) -> list[Any]:
    """Values of a function for each argument, in their order, whichever process found them; closes the pool.

    Args:
        pool: The processes.
        function: `module:name`.
        arguments: Plain values.
        progress: Called with what has ended and the share done, from 0 to 1.

    Raises:
        SimulationError: A task gave no value, also when it was tried again.
    """
    found: dict[int, Any] = {}
    try:
        for done in pool.run([Task(function, argument) for argument in arguments]):
            if done.error:
                raise SimulationError(done.error)
            found[done.number] = done.value
            progress(f"{len(found)} of {len(arguments)}", len(found) / len(arguments))
    finally:
        pool.close()
    return [found[number] for number in range(len(arguments))]


def _serve(connection: Connection, begin: Callable[[], None] | None, parent: int) -> None:
    """A worker: runs tasks one at a time until the other end is closed or the parent is gone."""
    die_with_parent(parent)
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent decides what Ctrl-C means
    if begin is not None:
        begin()
    while True:
        try:
            function, argument = connection.recv()
        except (EOFError, OSError):  # the parent is gone
            return
        try:
            answer: tuple[Any, str] = (call(function, argument), "")
        except Exception as error:  # whatever a task does wrong is its result
            answer = (None, failure(error))
        try:
            connection.send(answer)
        except OSError:
            return


@dataclass
class _Worker:
    process: BaseProcess
    connection: Connection
    number: int = -1
    until: float = math.inf


class Local:
    """Processes of this machine.

    Args:
        processes: Number of processes.
        begin: Called in each before anything else.
        tries: Maximum attempts of a task whose process ends without an answer.
    """

    def __init__(self, processes: int, begin: Callable[[], None] | None = None, tries: int = 2) -> None:
        self.processes = processes
        self._tries = tries
        self._begin = begin
        self._idle: list[_Worker] = []
        self._busy: list[_Worker] = []

    def run(self, tasks: Sequence[Task], until: float = math.inf) -> Iterator[Done]:
        """Runs every task once and yields results as they end; unfinished ones are left out when time is up."""
        queue, tries = deque(range(len(tasks))), [0] * len(tasks)
        while queue or self._busy:
            while queue and len(self._busy) < self.processes:
                self._start(queue.popleft(), tasks)
            ended = self._ended(until)
            if not ended and time.monotonic() >= until:
                self.close()
                return
            for worker in ended:
                done = self._answer(worker, tasks)
                tries[done.number] += 1
                if done.error == GONE and tries[done.number] < self._tries:
                    queue.append(done.number)
                    continue
                yield done

    def close(self) -> None:
        """Ends all tasks that are still running."""
        for worker in [*self._idle, *self._busy]:
            self._kill(worker)
        self._idle, self._busy = [], []

    def _start(self, number: int, tasks: Sequence[Task]) -> None:
        worker = self._idle.pop() if self._idle else self._new()
        worker.number = number
        limit_s = tasks[number].limit_s
        worker.until = time.monotonic() + limit_s if limit_s else math.inf
        self._busy.append(worker)
        with suppress(BrokenPipeError):  # it died while it was idle: `_answer` finds it gone
            worker.connection.send((tasks[number].function, tasks[number].argument))

    def _new(self) -> _Worker:
        context = multiprocessing.get_context("spawn")
        mine, theirs = context.Pipe()
        process = context.Process(target=_serve, args=(theirs, self._begin, os.getpid()), daemon=True)
        process.start()
        theirs.close()
        return _Worker(process, mine)

    def _ended(self, until: float) -> list[_Worker]:
        """Workers that have an answer, are gone, or have exceeded their time."""
        left = min(until, *(worker.until for worker in self._busy)) - time.monotonic()
        ready = wait([worker.connection for worker in self._busy], timeout=min(max(left, 0.0), _LONGEST_S))
        now = time.monotonic()
        return [worker for worker in self._busy if worker.connection in ready or worker.until <= now]

    def _answer(self, worker: _Worker, tasks: Sequence[Task]) -> Done:
        self._busy.remove(worker)
        if not worker.connection.poll():
            self._kill(worker)
            return Done(worker.number, error=f"stopped after {tasks[worker.number].limit_s:g} s")
        try:
            value, error = worker.connection.recv()
        except (EOFError, OSError):
            self._kill(worker)
            return Done(worker.number, error=GONE)
        self._idle.append(worker)
        return Done(worker.number, value, error)

    def _kill(self, worker: _Worker) -> None:
        worker.process.kill()
        worker.process.join()
        worker.connection.close()
