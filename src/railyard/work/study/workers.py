"""Runs tasks on all cores or on a Ray cluster; tasks are plain values, and results do not depend on where they ran.

If a worker is killed, because memory runs out or a task exceeds its time limit, only that task is lost: it is tried
once more, then stored with its error.
"""

from __future__ import annotations

import math
import multiprocessing
import os
import signal
import socket
import sys
import tempfile
import time
from collections import deque
from contextlib import ExitStack, redirect_stdout, suppress
from dataclasses import dataclass
from multiprocessing.connection import wait
from pathlib import Path
from typing import TYPE_CHECKING, Any

from railyard.kit.errors import InputError, SimulationError
from railyard.kit.files import die_with_parent, read_text
from railyard.kit.registry import VARIABLE
from railyard.work.study.provenance import version
from railyard.work.study.tasks import GONE, Done, Task, call, failure, need

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


_RETRIES = 3
"""Retries of a task whose node or process is lost."""

_ANSWER_S = 5.0
"""Timeout for a connection to the cluster; Ray alone retries for minutes."""

_LOOK_S = 1.0
"""Interval of checks of the number of processors."""

_CURRENT = "ray/ray_current_cluster"
"""File below the temporary folder in which `ray start` stores the address meant by `auto`."""


class RayWorkers:
    """Processes of a Ray cluster.

    Args:
        address: As for `ray.init`: `auto`, `local`, `HOST:6379`, `ray://HOST:10001`.
        begin: Called in each process of the cluster before its first task; must be picklable.

    Raises:
        InputError: Ray is not installed, or there is no answer at the address.
    """

    def __init__(self, address: str, begin: Callable[[], None] | None = None) -> None:
        self.ray = need("ray", "ray")
        expect_answer(address)
        self._begin = begin
        plugins = os.environ.get(VARIABLE)
        given = {"env_vars": {VARIABLE: plugins}} if plugins else {}
        self._words = ExitStack()  # of dead nodes Ray speaks on stdout, which is for results
        self._words.enter_context(redirect_stdout(sys.stderr))
        try:
            self.ray.init(
                address=address,
                log_to_driver=False,
                logging_level="ERROR",
                include_dashboard=False if address == "local" else None,
                runtime_env=given,
            )
        except (Exception, SystemExit) as error:  # Ray raises a dozen kinds of errors for what is one to the user
            self._words.close()
            raise _silent(address, type(error).__name__) from None
        self._slots, self._looked = 1, -math.inf

    def run(self, tasks: Sequence[Task], until: float = math.inf) -> Iterator[Done]:
        """Runs every task once and yields results as they end; unfinished ones are left out when time is up.

        Raises:
            InputError: A node has another version of Railyard.
        """
        remote = self.ray.remote(max_retries=_RETRIES, num_cpus=1)(_remote)
        limited = any(task.limit_s for task in tasks)
        queue, flying = deque(range(len(tasks))), _Flying()
        try:
            while (queue or flying) and time.monotonic() < until:
                while queue and len(flying) < self._room(limited=limited):
                    number = queue.popleft()
                    task = tasks[number]
                    flying.add(remote.remote(task.function, task.argument, self._begin), number, task.limit_s)
                ready, _ = self.ray.wait(flying.references, num_returns=1, timeout=flying.left_s(until))
                for reference in ready:
                    yield self._done(reference, flying.drop(reference))
                for reference in flying.late():
                    self.ray.cancel(reference, force=True)
                    number = flying.drop(reference)
                    yield Done(number, error=f"stopped after {tasks[number].limit_s:g} s")
        finally:
            for reference in flying.references:
                self.ray.cancel(reference, force=True)

    def close(self) -> None:
        """Ends all tasks that are still running."""
        self.ray.shutdown()
        self._words.close()

    def _room(self, *, limited: bool) -> int:
        """Number of tasks to submit: one per processor, and one more waiting if there is no time limit."""
        now = time.monotonic()
        if now - self._looked > _LOOK_S:
            self._slots, self._looked = max(int(self.ray.cluster_resources().get("CPU", 1)), 1), now
        return self._slots if limited else 2 * self._slots

    def _done(self, reference: Any, number: int) -> Done:
        try:
            there, value, error = self.ray.get(reference)
        except self.ray.exceptions.RayError:  # what a task itself does wrong, `_remote` has caught
            return Done(number, error=GONE)
        if there != version():
            raise InputError(
                f"a node of the Ray cluster has Railyard {there}, this machine {version()}",
                key="--ray",
                hint="results are the same only with the same version everywhere",
            )
        return Done(number, value, error)


class _Flying:
    """Submitted tasks by Ray's reference: their numbers and deadlines."""

    def __init__(self) -> None:
        self._numbers: dict[Any, int] = {}
        self._until: dict[Any, float] = {}

    def __len__(self) -> int:
        return len(self._numbers)

    @property
    def references(self) -> list[Any]:
        """References in the order of their start."""
        return list(self._numbers)

    def add(self, reference: Any, number: int, limit_s: float) -> None:
        """Adds a task with a time limit; 0: none."""
        self._numbers[reference] = number
        if limit_s:
            self._until[reference] = time.monotonic() + limit_s

    def drop(self, reference: Any) -> int:
        """Removes a task and returns its number."""
        self._until.pop(reference, None)
        return self._numbers.pop(reference)

    def left_s(self, until: float) -> float | None:
        """Seconds until the next task, or all, exceed their limit; None without limits."""
        first = min(until, *self._until.values(), math.inf)
        return None if first == math.inf else max(first - time.monotonic(), 0.0)

    def late(self) -> list[Any]:
        """Tasks over their time limit."""
        now = time.monotonic()
        return [reference for reference, until in self._until.items() if until <= now]


def expect_answer(address: str) -> None:
    """Checks that an address accepts connections.

    Raises:
        InputError: It does not.
    """
    place = address
    if address == "auto":
        current = Path(os.environ.get("RAY_TMPDIR", tempfile.gettempdir())) / _CURRENT
        place = os.environ.get("RAY_ADDRESS", "") or (read_text(current).strip() if current.is_file() else "")
        if not place:
            raise _silent(address, "no cluster runs on this machine, and `RAY_ADDRESS` is not set")
    if place == "local":
        return
    host, colon, port = place.removeprefix("ray://").rpartition(":")
    if not colon or not port.isdecimal() or int(port) > 65_535:
        raise InputError(
            "this is not the address of a Ray cluster",
            key="--ray",
            found=address,
            allowed="auto, local, HOST:6379 or ray://HOST:10001",
        )
    try:
        socket.create_connection((host.strip("[]"), int(port)), _ANSWER_S).close()
    except OSError as error:
        raise _silent(address, error.strerror or "it does not answer") from None


def _silent(address: str, why: str) -> InputError:
    return InputError(
        f"no Ray cluster answers: {why}", key="--ray", found=address, hint="`ray start --head` starts one"
    )


_begun = False


def _remote(function: str, argument: Any, begin: Callable[[], None] | None) -> tuple[str, Any, str]:
    """Runs a task on its node: returns the version there, the value, the error."""
    try:
        _begin_once(begin)
        return version(), call(function, argument), ""
    except Exception as error:  # whatever a task does wrong is its result
        return version(), None, failure(error)


def _begin_once(begin: Callable[[], None] | None) -> None:
    """Runs before the first task of this process, which works for one driver only."""
    global _begun  # noqa: PLW0603 - it is about the process
    if begin is not None and not _begun:
        begin()
        _begun = True
